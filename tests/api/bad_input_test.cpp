#include <tessera/add.hpp>
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/expect_same.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::expect_same;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

// Every test runs on each kind of device.
class BadInput : public testing::TestWithParam<const char*> {
 protected:
  static Device make_device() {
    const std::string_view kind = GetParam();
    if (kind == "best") return Device::best();
    return Device::simulated({.seed = 7, .workers = kind == "simulated" ? 2U : 0U});
  }

  // Expects run and submit, of the device and of a stream, to refuse the call and change nothing, except that submit
  // poisons the output.
  void expect_refused(Errc code, std::string_view words, std::string_view kernel, const BufferList& inputs,
                      const Buffer& output, const Params& params = {},
                      const std::source_location where = std::source_location::current()) const {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_refused");
    const MemoryInfo before = device.memory();
    const bool is_valid = output && !output.is_freed() && output.device() == device;
    const std::vector<std::byte> contents = is_valid ? output.read_bytes() : std::vector<std::byte>();
    expect_error(code, words, [&] { device.run(kernel, inputs, output, params); });
    expect_error(code, words, [&] { stream.run(kernel, inputs, output, params); });
    const std::string by_run = error_of([&] { device.run(kernel, inputs, output, params); });
    for (const Command& command :
         {device.submit(kernel, inputs, output, params), stream.submit(kernel, inputs, output, params)}) {
      expect_failed_at_once(command, by_run);
    }
    if (is_valid) {
      expect_error(code, words, [&] { output.read_bytes(); });
      Buffer(output).write_bytes(contents);
    }
    EXPECT_EQ(stream.in_flight(), 0U);
    expect_same(device.memory(), before);
    expect_contents();
  }

  void expect_failed_at_once(const Command& command, const std::string& why) const {
    ASSERT_TRUE(command);
    EXPECT_EQ(command.poll(), Status::failed);
    ASSERT_TRUE(command.error());
    EXPECT_EQ(std::string(to_string(command.error()->code())) + ": " + command.error()->what(), why);
    EXPECT_EQ(error_of([&] { command.wait(); }), why);
    EXPECT_EQ(error_of([&] { command.wait_for(0s); }), why);
    EXPECT_EQ(error_of([&] { wait_all({command}); }), why);
    EXPECT_EQ(wait_any({command}), 0U);
    EXPECT_FALSE(command.cancel());
    bool is_told = false;
    command.on_complete([&](const Command& over) { is_told = over == command; });
    EXPECT_TRUE(is_told);
    EXPECT_EQ(device.poll(command.id()), Status::failed);
    EXPECT_EQ(error_of([&] { device.wait(command.id()); }), why);
    EXPECT_FALSE(device.cancel(command.id()));
  }

  // Expects every buffer of the test to have its initial contents and no poison.
  void expect_contents() const {
    EXPECT_EQ(in.read<float>(), (Floats{-1, 2, -3, 4}));
    EXPECT_EQ(out.read<float>(), (Floats{9, 9, 9, 9}));
  }

  // Expects a call that is not a command to be refused and to change nothing.
  void expect_refused(Errc code, std::string_view words, const std::function<void()>& call,
                      const std::source_location where = std::source_location::current()) const {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_refused");
    const MemoryInfo before = device.memory();
    expect_error(code, words, call);
    expect_same(device.memory(), before);
    expect_contents();
  }

  Buffer freed() const {
    Buffer buffer = device.zeros({4});
    buffer.free();
    return buffer;
  }

  const Device device = make_device();
  const Device other = Device::simulated({.workers = 0});
  const Stream stream = device.stream();
  Buffer in = device.buffer<float>({-1, 2, -3, 4});
  Buffer out = device.buffer<float>({9, 9, 9, 9});
};

INSTANTIATE_TEST_SUITE_P(, BadInput, testing::Values("best", "simulated", "deterministic"),
                         [](const auto& kind) { return std::string(kind.param); });

// Kernel calls.

TEST_P(BadInput, An_unknown_kernel_is_refused_with_the_nearest_name) {
  expect_refused(Errc::unknown_kernel, "no kernel 'elementwise_ad', did you mean 'elementwise_add'?", "elementwise_ad",
                 {in, in}, out);
  expect_refused(Errc::unknown_kernel, "no kernel 'rellu', did you mean 'relu'?", "rellu", {in}, out);
  expect_refused(Errc::unknown_kernel, "no kernel ''", "", {in}, out);
  expect_refused(Errc::unknown_kernel, "no kernel 'convolution'", "convolution", {in}, out);
  expect_refused(Errc::unknown_kernel, "no kernel 'xxxxxxxx", std::string(1'000'000, 'x'), {in}, out);
}

TEST_P(BadInput, A_wrong_number_of_inputs_is_refused) {
  const std::vector<Buffer> nine(9, in);
  expect_refused(Errc::count_mismatch, "[relu] takes 1 input, got 0", "relu", {}, out);
  expect_refused(Errc::count_mismatch, "[relu] takes 1 input, got 2", "relu", {in, in}, out);
  expect_refused(Errc::count_mismatch, "[scale] takes 1 input, got 9", "scale", nine, out);
  expect_refused(Errc::count_mismatch, "[copy] takes 1 input, got 2", "copy", {in, in}, out);
  expect_refused(Errc::count_mismatch, "[fill] takes 0 inputs, got 1", "fill", {in}, out);
  expect_refused(Errc::count_mismatch, "[elementwise_add] takes 2 inputs, got 1", "elementwise_add", {in}, out);
  expect_refused(Errc::count_mismatch, "[elementwise_mul] takes 2 inputs, got 3", "multiply", {in, in, in}, out);
}

TEST_P(BadInput, A_wrong_shape_is_refused_with_both_shapes) {
  expect_refused(Errc::shape_mismatch, "[relu] input 0 (x) must be f32[4] like the output, got f32[5]", "relu",
                 {device.zeros({5})}, out);
  expect_refused(Errc::shape_mismatch, "[elementwise_add] input 1 (b) must be f32[4] like the output, got f32[0]",
                 "elementwise_add", {in, device.zeros({0})}, out);
  expect_refused(Errc::shape_mismatch, "input 0 (a) must be f32[4] like the output, got f32[2,2]", "elementwise_mul",
                 {device.zeros({2, 2}), in}, out);
  expect_refused(Errc::shape_mismatch, "input 0 (x) must be f32[] like the output, got f32[4]", "copy", {in},
                 device.zeros({}));
  expect_refused(Errc::shape_mismatch, "must be f32[3,2] like the output, got f32[2,3]", "scale",
                 {device.zeros({2, 3})}, device.zeros({3, 2}));
}

TEST_P(BadInput, A_wrong_type_is_refused_with_both_types) {
  for (const DType dtype : all_dtypes) {
    if (dtype == f32) continue;
    const std::string name(to_string(dtype));
    expect_refused(Errc::dtype_mismatch, "[relu] input 0 (x) must be f32[4] like the output, got " + name + "[4]",
                   "relu", {device.zeros({4}, dtype)}, out);
    expect_refused(Errc::dtype_mismatch, "input 1 (b) must be f32[4] like the output, got " + name + "[4]",
                   "elementwise_add", {in, device.zeros({4}, dtype)}, out);
    expect_refused(Errc::dtype_mismatch, "input 0 (x) must be " + name + "[4] like the output, got f32[4]", "copy",
                   {in}, device.zeros({4}, dtype));
  }
}

TEST_P(BadInput, An_unknown_parameter_is_refused_with_the_nearest_name) {
  expect_refused(Errc::unknown_parameter, "[relu] has no parameter 'slop', did you mean 'slope'?", "relu", {in}, out,
                 {{"slop", 0.1}});
  expect_refused(Errc::unknown_parameter, "[scale] has no parameter 'bias'", "scale", {in}, out,
                 {{"factor", 2}, {"bias", 1}});
  expect_refused(Errc::unknown_parameter, "[copy] has no parameter 'x'; it takes none", "copy", {in}, out, {{"x", 1}});
  expect_refused(Errc::unknown_parameter, "has no parameter ''", "fill", {}, out, {{"", 1}});
}

TEST_P(BadInput, A_parameter_of_a_wrong_type_is_refused) {
  expect_refused(Errc::invalid_parameter, "[scale] parameter 'factor' must be a number, got a string, \"2\"", "scale",
                 {in}, out, {{"factor", "2"}});
  expect_refused(Errc::invalid_parameter, "[relu] parameter 'slope' must be a number, got a bool, true", "relu", {in},
                 out, {{"slope", true}});
  expect_refused(Errc::invalid_parameter, "[fill] parameter 'value' must be a number, got a list, [1, 2]", "fill", {},
                 out, {{"value", {1, 2}}});
}

TEST_P(BadInput, An_empty_handle_is_refused) {
  expect_refused(Errc::invalid_argument, "[relu] output is an empty buffer handle", "relu", {in}, Buffer());
  expect_refused(Errc::invalid_argument, "[relu] input 0 is an empty buffer handle", "relu", {Buffer()}, out);
  expect_refused(Errc::invalid_argument, "[elementwise_add] input 1 is an empty buffer handle", "elementwise_add",
                 {in, Buffer()}, out);
  expect_refused(Errc::invalid_argument, "[fill] output is an empty buffer handle", "fill", {}, Buffer());
}

TEST_P(BadInput, A_freed_buffer_is_refused) {
  expect_refused(Errc::buffer_freed, "[relu] output has been freed", "relu", {in}, freed());
  expect_refused(Errc::buffer_freed, "[relu] input 0 has been freed", "relu", {freed()}, out);
  expect_refused(Errc::buffer_freed, "[elementwise_add] input 1 has been freed", "elementwise_add", {in, freed()}, out);
  expect_refused(Errc::buffer_freed, "[fill] output has been freed", "fill", {}, freed());
}

TEST_P(BadInput, A_buffer_of_another_device_is_refused) {
  const Buffer foreign = other.buffer<float>({5, 5, 5, 5});
  expect_refused(Errc::wrong_device, "[relu] output, f32[4], lives on another device", "relu", {in}, foreign);
  expect_refused(Errc::wrong_device, "[relu] input 0, f32[4], lives on another device", "relu", {foreign}, out);
  expect_refused(Errc::wrong_device, "[elementwise_add] input 1, f32[4], lives on another device: simulated",
                 "elementwise_add", {in, foreign}, out);
  EXPECT_EQ(foreign.read<float>(), (Floats{5, 5, 5, 5}));
}

TEST_P(BadInput, A_refused_command_does_not_affect_a_good_one) {
  device.submit("relu", {device.zeros({5})}, out);
  device.run("relu", {in}, out);
  EXPECT_EQ(out.read<float>(), (Floats{0, 2, 0, 4}));
  expect_error(Errc::shape_mismatch, "[relu] input 0", [&] { device.synchronize(); });
  EXPECT_NO_THROW(device.synchronize());
}

TEST_P(BadInput, A_refused_command_poisons_its_output_in_its_turn) {
  Buffer gate = device.zeros({4});
  Command before, refused;
  {
    const auto view = gate.map<float>();
    before = device.submit("relu", {gate}, out);
    refused = device.submit("relu", {device.zeros({5})}, out);
    EXPECT_EQ(refused.poll(), Status::failed);
    EXPECT_EQ(device.poll(refused.id()), Status::failed);
    EXPECT_EQ(before.poll(), Status::pending);
  }
  before.wait();
  expect_error(Errc::shape_mismatch, "[relu] input 0", [&] { out.read<float>(); });
  const Command after = device.submit("copy", {out}, device.zeros({4}));
  expect_error(Errc::shape_mismatch, "input 0 is poisoned", [&] { after.wait(); });
  out.write(Floats{1, 2, 3, 4});
  EXPECT_NO_THROW(device.synchronize());
}

TEST_P(BadInput, Synchronize_throws_each_failure_that_nobody_looked_at_once) {
  const auto refuse = [&](std::int64_t count) { return device.submit("relu", {device.zeros({count})}, out); };
  const auto expect_told = [&](std::string_view words) {
    expect_error(Errc::shape_mismatch, words, [&] { device.synchronize(); });
  };
  refuse(5);
  EXPECT_THROW(refuse(6).wait(), Error);
  EXPECT_EQ(refuse(7).poll(), Status::failed);
  EXPECT_TRUE(refuse(8).error());
  EXPECT_THROW(wait_all({refuse(9), refuse(10)}), Error);
  const Command kept = refuse(11);
  kept.on_complete([](const Command&) {});
  refuse(12);
  EXPECT_THROW(out.read<float>(), Error);
  expect_told("f32[5]");
  expect_told("f32[11]");
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_THROW(kept.wait(), Error);
  EXPECT_NO_THROW(device.synchronize());

  refuse(13);
  const Command by_poison = device.submit("copy", {out}, device.zeros({4}));
  EXPECT_THROW(by_poison.wait(), Error);  // its root is the refused one
  EXPECT_NO_THROW(device.synchronize());

  Pipeline pipeline(device);
  pipeline.add("relu", {in}, device.zeros({5}));
  pipeline.submit();
  expect_told("stage 0 [relu]");
  spawn(zip(empty<float>({3}), empty<float>({4})).apply("relu").on(device));
  expect_told("f32[4]");
  EXPECT_NO_THROW(device.synchronize());
}

TEST_P(BadInput, What_the_caller_asked_for_is_not_told_by_synchronize) {
  Buffer gate = device.zeros({4});
  const Stream full = device.stream({.max_in_flight = 1, .when_full = WhenFull::reject});
  {
    const auto view = gate.map<float>();
    full.submit("relu", {gate}, device.zeros({4}));
    full.submit("relu", {in}, out);  // rejected: leaves its output alone
    EXPECT_EQ(out.read<float>(), (Floats{9, 9, 9, 9}));
    device.submit("relu", {gate}, device.zeros({4})).cancel();
  }
  EXPECT_NO_THROW(device.synchronize());
}

TEST_P(BadInput, Size_0_is_not_an_error) {
  Buffer nothing = device.zeros({3, 0});
  EXPECT_EQ(nothing.size_bytes(), 0U);
  EXPECT_EQ(device.buffer<float>({}).shape(), Shape{0});
  EXPECT_EQ(device.from_bytes(std::vector<std::byte>{}, {0}, s64).dtype(), s64);
  for (const char* kernel : {"elementwise_add", "elementwise_mul"}) device.run(kernel, {nothing, nothing}, nothing);
  for (const char* kernel : {"relu", "scale", "copy"}) device.submit(kernel, {nothing}, nothing).wait();
  device.run("fill", {}, nothing, {{"value", 3}});
  EXPECT_TRUE(nothing.read<float>().empty());
  EXPECT_TRUE(nothing.read_bytes().empty());
  nothing.read_into(Floats{});
  nothing.write(Floats{});
  nothing.write(Floats{}, 0);
  nothing.write_bytes({});
  EXPECT_EQ(nothing.map<float>().size(), 0U);
  EXPECT_EQ(nothing.map_read<float>().size(), 0U);
  EXPECT_EQ(nothing.reshape({0, 7}).shape(), (Shape{0, 7}));
  nothing.free();
  EXPECT_TRUE(nothing.is_freed());
}

// The kernels as functions.

TEST_P(BadInput, The_kernel_functions_refuse_what_run_refuses) {
  const Buffer five = device.zeros({5});
  const Buffer whole = device.zeros({4}, s32);
  const Buffer foreign = other.zeros({4});
  const Buffer gone = freed();
  const Buffer empty;
  const auto check = [&](const std::string& kernel, const std::function<void(const Buffer&, const Buffer&)>& call) {
    const std::string input = "[" + kernel + "] input 0";
    const std::string output = "[" + kernel + "] output";
    expect_refused(Errc::shape_mismatch, input, [&] { call(five, out); });
    expect_refused(Errc::shape_mismatch, "got f32[4]", [&] { call(in, five); });
    expect_refused(Errc::dtype_mismatch, "got s32[4]", [&] { call(whole, out); });
    expect_refused(Errc::wrong_device, input, [&] { call(foreign, out); });
    expect_refused(Errc::wrong_device, input, [&] { call(in, foreign); });
    expect_refused(Errc::buffer_freed, input, [&] { call(gone, out); });
    expect_refused(Errc::buffer_freed, output, [&] { call(in, gone); });
    expect_refused(Errc::invalid_argument, input, [&] { call(empty, out); });
    expect_refused(Errc::invalid_argument, output, [&] { call(in, empty); });
  };
  check("elementwise_add", [](const Buffer& x, const Buffer& y) { add(x, x, y); });
  check("elementwise_mul", [](const Buffer& x, const Buffer& y) { multiply(x, x, y); });
  check("scale", [](const Buffer& x, const Buffer& y) { scale(x, 2, y); });
  check("relu", [](const Buffer& x, const Buffer& y) { relu(x, y); });
  expect_refused(Errc::shape_mismatch, "[elementwise_add] input 1 (b)", [&] { add(in, five, out); });
  expect_refused(Errc::invalid_argument, "[elementwise_mul] input 1", [&] { multiply(in, empty, out); });
}

// Device.

class WithEnvironment : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* wish = std::getenv("TESSERA_DEVICE")) wish_ = wish;
  }
  void TearDown() override { setenv("TESSERA_DEVICE", wish_.c_str(), 1); }

 private:
  std::string wish_;
};

TEST_F(WithEnvironment, TESSERA_DEVICE_picks_the_best_device) {
  unsetenv("TESSERA_DEVICE");
  EXPECT_EQ(Device::best(), Device::open("cpu"));
  setenv("TESSERA_DEVICE", "", 1);
  EXPECT_EQ(Device::best(), Device::open("cpu"));
  setenv("TESSERA_DEVICE", "cpu", 1);
  EXPECT_EQ(Device::best(), Device::open("cpu"));
}

TEST_F(WithEnvironment, A_bad_TESSERA_DEVICE_is_refused_and_the_message_names_it) {
  setenv("TESSERA_DEVICE", "nonsense", 1);
  expect_error(Errc::unknown_device, "TESSERA_DEVICE", [] { Device::best(); });
  expect_error(Errc::unknown_device, "'nonsense'", [] { Device::best(); });
}

TEST(BadDevice, An_unknown_backend_is_refused_with_what_there_is) {
  for (const char* name : {"", "gpu9", "CPU", "cpu ", "simulated"}) {
    expect_error(Errc::unknown_device, std::string("no device '") + name + "'; available: cpu",
                 [&] { Device::open(name); });
  }
  expect_error(Errc::unknown_device, "no device 'xxx", [] { Device::open(std::string(1'000'000, 'x')); });
}

TEST(BadDevice, A_simulation_with_invalid_options_is_refused) {
  expect_error(Errc::unknown_device, "'gpu9'", [] { Device::simulated({.backend = "gpu9"}); });
  expect_error(Errc::unknown_device, "''", [] { Device::simulated({.backend = ""}); });
  for (const double rate :
       {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    expect_error(Errc::invalid_argument, "fail_rate", [&] { Device::simulated({.fail_rate = rate}); });
  }
  EXPECT_NO_THROW(Device::simulated({.fail_rate = 1}));
}

TEST_P(BadInput, A_buffer_needs_as_many_values_as_its_shape_has_elements) {
  expect_refused(Errc::count_mismatch, "f32[4] needs 4 values, got 3", [&] { device.buffer<float>({1, 2, 3}, {4}); });
  expect_refused(Errc::count_mismatch, "u8[2,2] needs 4 values, got 5",
                 [&] { device.buffer<std::uint8_t>({1, 2, 3, 4, 5}, {2, 2}); });
  expect_refused(Errc::count_mismatch, "s64[] needs 1 values, got 0", [&] { device.buffer<std::int64_t>({}, {}); });
  expect_refused(Errc::count_mismatch, "f64[0] needs 0 values, got 1", [&] { device.buffer<double>({1}, {0}); });
  expect_refused(Errc::count_mismatch, "needs 9223372036854775807 values, got 4",
                 [&] { device.buffer<float>(Floats(4), Shape{most}); });
}

TEST_P(BadInput, A_buffer_from_bytes_needs_all_its_bytes) {
  const std::vector<std::uint8_t> bytes(15);
  expect_refused(Errc::count_mismatch, "f32[4] needs 16 bytes, got 15", [&] { device.from_bytes(bytes, {4}, f32); });
  expect_refused(Errc::count_mismatch, "u8[14] needs 14 bytes, got 15", [&] { device.from_bytes(bytes, {14}, u8); });
  expect_refused(Errc::overflow, "f64[9223372036854775807]", [&] { device.from_bytes(bytes, Shape{most}, f64); });
}

TEST_P(BadInput, A_buffer_whose_bytes_cannot_be_counted_is_an_overflow) {
  expect_refused(Errc::overflow, "f32[9223372036854775807]", [&] { device.zeros(Shape{most}); });
  expect_refused(Errc::overflow, "f64[1152921504606846976]", [&] { device.empty(Shape{std::int64_t{1} << 60}, f64); });
  expect_refused(Errc::overflow, "63 bits", [&] { device.zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}); });
  expect_refused(Errc::invalid_argument, "negative, got -1", [&] { device.zeros({4, -1}); });
}

TEST_P(BadInput, A_buffer_larger_than_the_memory_is_refused) {
  expect_refused(Errc::out_of_memory, "no memory for u8[9223372036854775807]", [&] { device.zeros(Shape{most}, u8); });
  expect_refused(Errc::out_of_memory, "no memory for f32[1152921504606846976]",
                 [&] { device.empty(Shape{std::int64_t{1} << 60}); });
}

TEST_P(BadInput, A_number_that_no_command_has_is_refused) {
  const CommandId last = device.submit("copy", {in}, device.zeros({4})).id();
  device.wait(last);
  for (const CommandId id : {CommandId{0}, last + 1, std::numeric_limits<CommandId>::max()}) {
    const std::string words = "no command " + std::to_string(id);
    expect_refused(Errc::unknown_command, words, [&] { device.poll(id); });
    expect_refused(Errc::unknown_command, words, [&] { device.wait(id); });
    expect_refused(Errc::unknown_command, words, [&] { device.cancel(id); });
  }
}

TEST_P(BadInput, A_memory_limit_below_what_is_in_use_is_refused) {
  const std::size_t limit = device.memory().limit;
  for (const std::size_t bytes : {std::size_t{0}, device.memory().in_use - 1}) {
    expect_refused(Errc::invalid_argument, "limit of " + std::to_string(bytes) + " bytes",
                   [&] { device.set_memory_limit(bytes); });
  }
  EXPECT_EQ(device.memory().limit, limit);
}

TEST_P(BadInput, A_negative_deadline_is_refused) {
  expect_refused(Errc::invalid_argument, "deadline cannot be negative, got -1 ns",
                 [&] { device.stream({.deadline = -1ns}); });
  expect_refused(Errc::invalid_argument, "deadline",
                 [&] { device.stream({.deadline = std::chrono::nanoseconds::min()}); });
}

TEST_P(BadInput, A_deadline_beyond_the_clocks_range_never_expires) {
  const Stream patient = device.stream({.deadline = std::chrono::nanoseconds::max()});
  const Buffer ones = device.buffer<float>(Floats(10'000, 1));  // too large to run inline
  const Buffer copy = device.zeros(ones.shape());
  const Command command = patient.submit("copy", {ones}, copy);
  EXPECT_NO_THROW(command.wait());
  EXPECT_EQ(command.poll(), Status::completed);
}

// Buffer.

TEST_P(BadInput, An_empty_buffer_handle_refuses_every_use) {
  Buffer empty;
  Floats values(4);
  std::vector<std::byte> bytes(16);
  EXPECT_FALSE(empty);
  const auto check = [&](const char* call, const std::function<void()>& use) {
    expect_refused(Errc::invalid_argument, std::string("[") + call + "] on an empty buffer handle", use);
  };
  check("shape", [&] { empty.shape(); });
  check("dtype", [&] { empty.dtype(); });
  check("size_bytes", [&] { empty.size_bytes(); });
  check("device", [&] { empty.device(); });
  check("is_freed", [&] { empty.is_freed(); });
  check("read", [&] { empty.read<float>(); });
  check("read_into", [&] { empty.read_into(values); });
  check("read", [&] { empty.read_bytes_into(bytes); });
  check("write", [&] { empty.write(values); });
  check("write", [&] { empty.write(values, 0); });
  check("write", [&] { empty.write_bytes(bytes); });
  check("map", [&] { empty.map<float>(); });
  check("map", [&] { empty.map_read<float>(); });
  check("reshape", [&] { empty.reshape({4}); });
  check("free", [&] { empty.free(); });
  expect_refused(Errc::invalid_argument, "empty buffer handle", [&] { empty.read_bytes(); });
}

TEST_P(BadInput, A_freed_buffer_refuses_every_use_of_its_contents) {
  Buffer buffer = device.zeros({4});
  Buffer copy = buffer;
  Buffer reshaped = buffer.reshape({2, 2});
  buffer.free();
  Floats values(4);
  std::vector<std::byte> bytes(16);
  for (Buffer handle : {buffer, copy, reshaped}) {
    EXPECT_TRUE(handle.is_freed());
    const auto check = [&](const char* call, const std::function<void()>& use) {
      expect_refused(Errc::buffer_freed, std::string("[") + call + "] the buffer", use);
    };
    check("read", [&] { handle.read<float>(); });
    check("read", [&] { handle.read_bytes(); });
    check("read", [&] { handle.read_into(values); });
    check("read", [&] { handle.read_bytes_into(bytes); });
    check("write", [&] { handle.write(values); });
    check("write", [&] { handle.write(values, 0); });
    check("write", [&] { handle.write_bytes(bytes); });
    check("map", [&] { handle.map<float>(); });
    check("map", [&] { handle.map_read<float>(); });
    check("reshape", [&] { handle.reshape({4}); });
    check("free", [&] { handle.free(); });
    expect_refused(Errc::buffer_freed, "[free_many] buffer 0", [&] { free_many({handle}); });
  }
}

TEST_P(BadInput, A_freed_buffer_still_has_its_shape_and_type) {
  const Buffer gone = freed();
  EXPECT_EQ(gone.shape(), Shape{4});
  EXPECT_EQ(gone.dtype(), f32);
  EXPECT_EQ(gone.size_bytes(), 16U);
  EXPECT_EQ(gone.device(), device);
}

TEST_P(BadInput, Freeing_many_frees_none_if_one_cannot_be_freed) {
  const Buffer good = device.zeros({4});
  const Buffer gone = freed();
  expect_refused(Errc::invalid_argument, "[free_many] buffer 1 is an empty handle",
                 [&] { free_many({good, Buffer(), in}); });
  expect_refused(Errc::buffer_freed, "[free_many] buffer 2, f32[4], has already been freed",
                 [&] { free_many({good, in, gone}); });
  EXPECT_FALSE(good.is_freed());
  EXPECT_FALSE(in.is_freed());
}

TEST_P(BadInput, Freeing_many_accepts_an_empty_list_and_duplicates) {
  const Buffer good = device.zeros({4});
  const std::size_t before = device.memory().buffers;
  free_many({});
  free_many({good, good.reshape({2, 2}), good});
  EXPECT_TRUE(good.is_freed());
  EXPECT_EQ(device.memory().buffers, before - 1);
}

TEST_P(BadInput, A_reshape_needs_as_many_elements) {
  expect_refused(Errc::shape_mismatch, "f32[4] has 4 elements, [5] has 5", [&] { in.reshape({5}); });
  expect_refused(Errc::shape_mismatch, "f32[4] has 4 elements, [0] has 0", [&] { in.reshape({0}); });
  expect_refused(Errc::shape_mismatch, "f32[4] has 4 elements, [] has 1", [&] { in.reshape({}); });
  expect_refused(Errc::shape_mismatch, "[9223372036854775807]", [&] { in.reshape(Shape{most}); });
}

TEST_P(BadInput, Reading_needs_the_right_type_and_count) {
  std::array<float, 3> three{1, 1, 1};
  std::vector<std::int32_t> whole(4, 1);
  std::vector<std::byte> bytes(17, std::byte{1});
  expect_refused(Errc::dtype_mismatch, "[read] the buffer is f32[4], not s32", [&] { in.read<std::int32_t>(); });
  expect_refused(Errc::dtype_mismatch, "not f64", [&] { in.read<double>(); });
  expect_refused(Errc::dtype_mismatch, "[read_into] the buffer is f32[4], not s32", [&] { in.read_into(whole); });
  expect_refused(Errc::count_mismatch, "[read_into] f32[4] has 4 elements, got 3", [&] { in.read_into(three); });
  expect_refused(Errc::count_mismatch, "f32[4] has 16 bytes, got a span of 17", [&] { in.read_bytes_into(bytes); });
  expect_refused(Errc::count_mismatch, "got a span of 0", [&] { in.read_bytes_into({}); });
  EXPECT_EQ(three, (std::array<float, 3>{1, 1, 1}));
  EXPECT_EQ(whole, std::vector<std::int32_t>(4, 1));
  EXPECT_EQ(bytes, std::vector<std::byte>(17, std::byte{1}));
}

TEST_P(BadInput, Writing_needs_the_right_type_count_and_range) {
  expect_refused(Errc::dtype_mismatch, "[write] the buffer is f32[4], not s32",
                 [&] { in.write(std::vector<std::int32_t>(4)); });
  expect_refused(Errc::dtype_mismatch, "not f64", [&] { in.write(std::vector<double>(1), 0); });
  expect_refused(Errc::count_mismatch, "[write] f32[4] has 4 elements, got 3", [&] { in.write(Floats(3)); });
  expect_refused(Errc::count_mismatch, "got 5", [&] { in.write(Floats(5)); });
  expect_refused(Errc::count_mismatch, "[write] f32[4] has 16 bytes, got 15",
                 [&] { in.write_bytes(std::vector<std::byte>(15)); });
  const auto misplaced = [&](std::size_t count, std::int64_t first) {
    expect_refused(
        Errc::count_mismatch,
        std::to_string(count) + " elements starting at element " + std::to_string(first) + " do not fit f32[4]",
        [&] { in.write(Floats(count), first); });
  };
  misplaced(5, 0);
  misplaced(2, 3);
  misplaced(1, 4);
  misplaced(1, -1);
  misplaced(0, 5);
  misplaced(0, -1);
  misplaced(1, most);
  misplaced(4, least);
}

TEST_P(BadInput, Mapping_needs_the_right_type) {
  expect_refused(Errc::dtype_mismatch, "[map] the buffer is f32[4], not s32", [&] { in.map<std::int32_t>(); });
  expect_refused(Errc::dtype_mismatch, "[map] the buffer is f32[4], not u8", [&] { in.map_read<std::uint8_t>(); });
  in.map<float>()[0] = 7;
  EXPECT_EQ(in.map_read<float>()[0], 7);
}

TEST(BadBuffer, A_refused_access_leaves_the_poison_unchanged) {
  const Device device = Device::simulated({.workers = 0, .faults = {{.command = 1}}});
  Buffer buffer = device.zeros({4});
  device.submit("fill", {}, buffer);
  const auto cause = [&] { return error_of([&] { buffer.read<float>(); }); };
  const std::string before = cause();
  ASSERT_NE(before.find("injected failure"), std::string::npos) << before;
  EXPECT_EQ(cause(), before);
  expect_error(Errc::device_failure, "injected failure", [&] { buffer.write(Floats(2), 1); });
  EXPECT_EQ(cause(), before);
  expect_error(Errc::device_failure, "injected failure", [&] { buffer.map<float>(); });
  EXPECT_EQ(cause(), before);
}

// Command.

TEST(BadCommand, An_empty_handle_refuses_every_use) {
  const Command empty;
  EXPECT_FALSE(empty);
  const auto check = [&](const char* call, const std::function<void()>& use) {
    expect_error(Errc::invalid_argument, std::string("[") + call + "] on an empty command handle", use);
  };
  check("id", [&] { empty.id(); });
  check("poll", [&] { empty.poll(); });
  check("wait", [&] { empty.wait(); });
  check("wait", [&] { empty.wait_for(1ms); });
  check("wait", [&] { empty.wait_until(std::chrono::steady_clock::now()); });
  check("wait", [&] { empty.wait_until(std::chrono::system_clock::now()); });
  check("cancel", [&] { empty.cancel(); });
  check("on_complete", [&] { empty.on_complete([](const Command&) {}); });
  check("error", [&] { empty.error(); });
  check("co_await", [&] { empty.operator co_await().await_ready(); });
}

TEST_P(BadInput, Lists_with_an_empty_command_handle_are_refused_and_name_it) {
  const Buffer copy = device.zeros({4});
  const Command good = device.submit("copy", {in}, copy);
  expect_refused(Errc::invalid_argument, "[wait_all] command 1 is an empty handle",
                 [&] { wait_all({good, Command()}); });
  expect_refused(Errc::invalid_argument, "[wait_any] command 1 is an empty handle",
                 [&] { wait_any({good, Command()}); });
  good.wait();
}

TEST(BadCommand, Waiting_for_no_commands_returns_at_once_but_wait_any_is_refused) {
  EXPECT_NO_THROW(wait_all({}));
  EXPECT_NO_THROW(wait_all(std::vector<Command>{}));
  expect_error(Errc::invalid_argument, "[wait_any] got no commands", [] { wait_any({}); });
}

TEST_P(BadInput, An_empty_function_is_refused) {
  const Buffer copy = device.zeros({4});
  const Command command = device.submit("copy", {in}, copy);
  expect_refused(Errc::invalid_argument, "[on_complete] got an empty function", [&] { command.on_complete({}); });
  EXPECT_NO_THROW(command.wait());
}

// Stream.

TEST_P(BadInput, An_empty_stream_handle_refuses_every_use) {
  const Stream empty;
  EXPECT_FALSE(empty);
  const auto check = [&](const char* call, const std::function<void()>& use) {
    expect_refused(Errc::invalid_argument, std::string("[") + call + "] on an empty stream handle", use);
  };
  check("options", [&] { empty.options(); });
  check("device", [&] { empty.device(); });
  check("run", [&] { empty.run("relu", {in}, out); });
  check("submit", [&] { empty.submit("relu", {in}, out); });
  check("in_flight", [&] { empty.in_flight(); });
  check("synchronize", [&] { empty.synchronize(); });
}

TEST_P(BadInput, A_refused_command_takes_no_capacity_of_its_stream) {
  const Stream narrow = device.stream({.max_in_flight = 1, .when_full = WhenFull::reject});
  for (const Buffer& wrong : {device.zeros({5}), freed()}) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(narrow.submit("relu", {wrong}, out).poll(), Status::failed);
  }
  EXPECT_EQ(narrow.in_flight(), 0U);
  EXPECT_NO_THROW(narrow.run("relu", {in}, out));
}

}  // namespace
}  // namespace tessera
