#include "compile/gpu/glsl/spirv.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/api_checks.hpp"
#include "driver/gpu/vulkan/instance.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace tessera::driver::gpu {
namespace {

namespace fs = std::filesystem;
using compile::gpu::Kernel;
using tessera::test::expect_error;
using namespace std::chrono_literals;

// Everything here runs with its own cache and under the validation layer, which must report nothing.
class Surroundings final : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera-vulkan-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    setenv("TESSERA_CACHE_DIR", name.c_str(), 1);
    setenv("TESSERA_VALIDATE", "1", 0);
    setenv("TESSERA_VULKAN_VALIDATION", "1", 0);
  }
  void TearDown() override {
    EXPECT_EQ(vulkan::validation_errors(), 0U);
    fs::remove_all(folder);
  }
  static inline fs::path folder;
};
const testing::Environment* const surroundings = testing::AddGlobalTestEnvironment(new Surroundings);

constexpr Clock::time_point forever = Clock::time_point::max();

// lavapipe leaves all loops of an invocation after 65,535 iterations.
constexpr std::uint32_t most_times = 60'000;
constexpr std::uint32_t slow_count = 16 * 64;

// How a device is opened.
struct Mode {
  const char* name;
  bool is_staged;  // as if the host could not address its memory
  bool has_sets;   // as if it had no push descriptors
};

class Vulkan_api : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan device";
    setenv("TESSERA_VULKAN_STAGING", GetParam().is_staged ? "1" : "0", 1);
    setenv("TESSERA_VULKAN_SETS", GetParam().has_sets ? "1" : "0", 1);
    api_ = open_vulkan(0);
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) {
    auto memory = api_->allocate(bytes);
    EXPECT_TRUE(memory);
    return memory;
  }
  template <class T>
  std::unique_ptr<Memory> buffer(const std::vector<T>& values) {
    auto memory = allocate(values.size() * sizeof(T));
    api_->upload(*memory, 0, std::as_bytes(std::span(values)));
    return memory;
  }
  template <class T>
  std::vector<T> values(Memory& memory, std::size_t count) {
    std::vector<T> read(count);
    api_->download(std::as_writable_bytes(std::span(read)), memory, 0);
    return read;
  }
  std::unique_ptr<Module> compile(std::string source, int buffers, int words, bool has_push_constants = true) {
    Kernel kernel;
    kernel.source = std::move(source);
    kernel.group = 64;
    kernel.buffers.resize(buffers);
    std::iota(kernel.buffers.begin(), kernel.buffers.end(), 0);
    kernel.has_push_constants = has_push_constants;
    kernel.argument_words = words;
    return api_->compile(kernel, "sample");
  }
  void run(const Module& module, std::vector<Memory*> buffers, std::vector<std::uint32_t> arguments,
           std::uint32_t groups) {
    const Dispatch call{&module, std::move(buffers), std::move(arguments), groups};
    const std::uint64_t number = api_->submit({&call, 1});
    const Progress progress = api_->wait(number, forever);
    EXPECT_FALSE(progress.failure);
    EXPECT_GE(progress.ended, number);
  }

  // Calls of step_source that together take about this long.
  std::vector<Dispatch> slow_calls(const Module& step, Memory& memory, std::chrono::duration<double> time) {
    std::vector<Dispatch> calls(1, {&step, {&memory}, {slow_count, most_times}, slow_count / 64});
    std::chrono::duration<double> one{0};
    for (int i = 0; i < 2; ++i) {  // the first one warms up
      const Clock::time_point begin = Clock::now();
      api_->wait(api_->submit(calls), forever);
      one = Clock::now() - begin;
    }
    calls.resize(static_cast<std::size_t>(time / one) + 1, calls[0]);
    return calls;
  }

  std::unique_ptr<Api> api_;
};

INSTANTIATE_TEST_SUITE_P(, Vulkan_api,
                         testing::Values(Mode{"plain", false, false}, Mode{"staged", true, false},
                                         Mode{"with_sets", false, true}, Mode{"staged_with_sets", true, true}),
                         [](const auto& mode) { return mode.param.name; });

// out[i] = a[i] + b[i] for elements of a type.
std::string add_source(const std::string& type, const std::string& extension = "", const std::string& wide = "") {
  const std::string cast = wide.empty() ? "" : wide;
  return "#version 450\n" + extension + "layout(local_size_x = 64) in;\n" +
         "layout(binding = 0) writeonly buffer Out { " + type + " sum[]; };\n" +
         "layout(binding = 1) readonly buffer A { " + type + " a[]; };\n" + "layout(binding = 2) readonly buffer B { " +
         type + " b[]; };\n" + "layout(push_constant) uniform Arguments { uint count; };\n" +
         "void main() {\n  uint i = gl_GlobalInvocationID.x;\n" + "  if (i < count) sum[i] = " + type + "(" + cast +
         "(a[i]) + " + cast + "(b[i]));\n}\n";
}

// x[i] = x[i] * 3 + 1, `times` times in one call.
const std::string step_source = R"(#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform Arguments { uint count; uint times; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  uint value = x[i];
  for (uint k = 0; k < times; ++k) value = value * 3u + 1u;
  x[i] = value;
}
)";

std::uint32_t stepped(std::uint32_t value, std::uint32_t times) {
  for (std::uint32_t k = 0; k < times; ++k) value = value * 3 + 1;
  return value;
}

const test::Kernels common_kernels{
    .next = R"(#version 450
layout(local_size_x = 128) in;
layout(binding = 0) writeonly buffer To { int to[]; };
layout(binding = 1) readonly buffer From { int from[]; };
layout(binding = 2) readonly buffer Arguments { int n; int k; };
void main() {
  int i = int(gl_GlobalInvocationID.x);
  if (i < n) to[i] = from[(i + 1) % n] * 3 + k;
}
)",
    .slow = "",  // lavapipe's loops are too short for it
};

TEST(Vulkan_devices, Are_described) {
  const std::vector<DeviceInfo> devices = vulkan_devices();
  if (devices.empty()) GTEST_SKIP() << "no Vulkan device";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i];
    EXPECT_FALSE(info.name.empty());
    EXPECT_EQ(info.backend, "vulkan");
    EXPECT_NE(info.version.find(", Vulkan 1."), std::string::npos) << info.version;
    EXPECT_GT(info.memory, 0U);
    EXPECT_GE(info.compute_units, 1U);
    for (DType type : {f32, s32, u32, u8}) {
      EXPECT_NE(std::find(info.dtypes.begin(), info.dtypes.end(), type), info.dtypes.end());
    }
    EXPECT_EQ(open_vulkan(i)->info().name, info.name);
  }
  EXPECT_TRUE(std::is_partitioned(devices.begin(), devices.end(), [](const DeviceInfo& info) { return info.is_gpu; }));
  expect_error(Errc::unknown_device, "no Vulkan device 99", [] { open_vulkan(99); });
}

TEST_P(Vulkan_api, Passes_the_checks_of_all_APIs) {
  if (api_->target().group != 128) GTEST_SKIP() << "the kernels are written for workgroups of 128";
  test::check_copies(*api_);
  test::check_out_of_memory(*api_);
  test::check_chain(*api_, common_kernels);
  test::check_calls_that_do_not_wait(*api_, common_kernels);
  test::check_recording(*api_, common_kernels);
  test::check_many_threads(*api_, common_kernels);
}

TEST_P(Vulkan_api, Reports_the_limits_of_kernels) {
  const compile::gpu::Target& target = api_->target();
  EXPECT_EQ(target.dialect, compile::gpu::Dialect::vulkan);
  EXPECT_EQ(target.device, api_->info().name);
  EXPECT_GE(target.group, 64);
  EXPECT_LE(target.group, 128);
  EXPECT_GE(target.shared_bytes, 16384);
  EXPECT_GE(target.push_bytes, 128);
  EXPECT_GE(target.most_buffers, 3);
  EXPECT_GE(api_->most_buffer_bytes(), std::size_t{1} << 27);
  EXPECT_GE(api_->most_groups(), 65535U);
}

TEST_P(Vulkan_api, Copies_bytes_at_any_offset) {
  // Larger than a piece of a copy, and than a shared allocation.
  constexpr std::size_t size = (std::size_t{17} << 20) + 3;
  std::vector<unsigned char> expected(size);
  for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<unsigned char>(i * 7 + i / 251);
  auto memory = buffer(expected);
  EXPECT_EQ(memory->host_address() == nullptr,
            GetParam().is_staged || !vulkan::Instance::get().devices()[0].is_unified());
  EXPECT_EQ(values<unsigned char>(*memory, size), expected);
  for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{0, 1},
                                      {1, 1},
                                      {2, 3},
                                      {5, 0},
                                      {7, 4097},
                                      {3, 2},
                                      {size - 5, 5},
                                      {1 << 20, (5 << 20) + 1}}) {
    std::vector<unsigned char> part(bytes, static_cast<unsigned char>(offset + 101));
    api_->upload(*memory, offset, std::as_bytes(std::span(part)));
    std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<unsigned char> read(bytes);
    api_->download(std::as_writable_bytes(std::span(read)), *memory, offset);
    EXPECT_EQ(read, part);
  }
  EXPECT_EQ(values<unsigned char>(*memory, size), expected);
  for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{0, 1},
                                      {1, 2},
                                      {6, 1},
                                      {9, 6},
                                      {13, 0},
                                      {16, 8},
                                      {21, 1001},
                                      {size - 3, 3}}) {
    api_->fill_zero(*memory, offset, bytes);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offset), bytes, static_cast<unsigned char>(0));
  }
  EXPECT_EQ(values<unsigned char>(*memory, size), expected);
}

TEST_P(Vulkan_api, Blocks_do_not_overlap) {
  std::vector<std::unique_ptr<Memory>> blocks;
  std::vector<std::vector<std::uint32_t>> contents;
  std::uint32_t seed = 1;
  const auto check = [&](std::size_t i) {
    EXPECT_EQ(values<std::uint32_t>(*blocks[i], contents[i].size()), contents[i]) << i;
  };
  for (int round = 0; round < 400; ++round) {
    seed = seed * 1664525 + 1013904223;
    if (blocks.size() > 40 || (blocks.size() > 5 && seed >> 30 == 0)) {
      const std::size_t i = (seed >> 8) % blocks.size();
      check(i);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      contents.erase(contents.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      contents.emplace_back((seed >> 12) % 50000 + 1, seed);
      blocks.push_back(buffer(contents.back()));
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) check(i);
}

TEST_P(Vulkan_api, Refuses_absurd_sizes) {
  EXPECT_FALSE(api_->allocate(std::size_t{1} << 60));
  EXPECT_FALSE(api_->allocate(~std::size_t{0}));
  EXPECT_TRUE(api_->allocate(0));
}

TEST_P(Vulkan_api, Adds_floats) {
  constexpr std::uint32_t count = 100'003;
  std::vector<float> a(count);
  std::vector<float> b(count);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), 0.25F);
  const auto module = compile(add_source("float"), 3, 1);
  const auto in_a = buffer(a);
  const auto in_b = buffer(b);
  const auto out = allocate(count * sizeof(float));
  run(*module, {out.get(), in_a.get(), in_b.get()}, {count}, (count + 63) / 64);
  const std::vector<float> sum = values<float>(*out, count);
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << i;
}

TEST_P(Vulkan_api, Also_takes_arguments_from_a_buffer) {
  std::string source = step_source;
  const std::string pushed = "layout(push_constant) uniform Arguments";
  source.replace(source.find(pushed), pushed.size(), "layout(binding = 1) readonly buffer Arguments");
  const auto module = compile(source, 1, 2, false);
  const auto x = buffer(std::vector<std::uint32_t>{5, 6, 7});
  const Dispatch first{module.get(), {x.get()}, {3, 1}};
  const Dispatch second{module.get(), {x.get()}, {2, 4}};
  for (int i = 0; i < 3; ++i) api_->wait(api_->submit(std::vector{first, second, first}), forever);
  EXPECT_EQ(values<std::uint32_t>(*x, 3), (std::vector{stepped(5, 18), stepped(6, 18), stepped(7, 6)}));
}

TEST_P(Vulkan_api, Adds_other_types) {
  const compile::gpu::Target& target = api_->target();
  const auto check = [&]<class T>(const std::string& source, const std::vector<T>& a, const std::vector<T>& b) {
    const auto module = compile(source, 3, 1);
    const auto in_a = buffer(a);
    const auto in_b = buffer(b);
    const auto out = allocate(a.size() * sizeof(T));
    run(*module, {out.get(), in_a.get(), in_b.get()}, {static_cast<std::uint32_t>(a.size())}, 1);
    std::vector<T> expected(a.size());
    std::transform(a.begin(), a.end(), b.begin(), expected.begin(), [](T x, T y) { return static_cast<T>(x + y); });
    EXPECT_EQ(values<T>(*out, a.size()), expected);
  };
  if (target.has_u8) {
    check(add_source("uint8_t", "#extension GL_EXT_shader_8bit_storage : require\n", "uint"),
          std::vector<std::uint8_t>{1, 2, 250, 255, 0}, std::vector<std::uint8_t>{3, 200, 10, 255, 0});
  }
  if (target.has_f64) {
    check(add_source("double"), std::vector<double>{1e300, 0.1, -3}, std::vector<double>{1e284, 1e-18, 3});
  }
  if (target.has_s64) {
    check(add_source("int64_t", "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n"),
          std::vector<std::int64_t>{1LL << 40, -1}, std::vector<std::int64_t>{(1LL << 40) + 7, -1});
  }
}

TEST_P(Vulkan_api, Calls_of_a_submission_wait_for_those_before) {
  constexpr std::uint32_t count = 40'000;
  std::vector<std::uint32_t> x(count);
  std::iota(x.begin(), x.end(), 0U);
  const auto module = compile(step_source, 1, 2);
  const auto memory = buffer(x);
  std::vector<Dispatch> calls;
  for (std::uint32_t i = 0; i < 10; ++i)
    calls.push_back({module.get(), {memory.get()}, {count, i + 1}, (count + 63) / 64});
  api_->wait(api_->submit(calls), forever);
  const std::vector<std::uint32_t> got = values<std::uint32_t>(*memory, count);
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(got[i], stepped(i, 55)) << i;
}

TEST_P(Vulkan_api, A_recording_is_submitted_many_times) {
  const auto module = compile(step_source, 1, 2);
  const auto memory = buffer(std::vector<std::uint32_t>{1, 2, 3});
  const Dispatch call{module.get(), {memory.get()}, {3, 2}};
  const auto recording = api_->record(std::vector{call, call});
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t number = api_->submit(*recording);
    ASSERT_GE(api_->wait(number, forever).ended, number);
  }
  EXPECT_EQ(values<std::uint32_t>(*memory, 3), (std::vector{stepped(1, 400), stepped(2, 400), stepped(3, 400)}));
}

TEST_P(Vulkan_api, Many_threads_submit_at_the_same_time) {
  const auto module = compile(step_source, 1, 2);
  constexpr int thread_count = 4;
  constexpr int each = 100;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<Memory>> memory;
      std::vector<std::uint64_t> numbers;
      for (int i = 0; i < each; ++i) {
        memory.push_back(buffer(std::vector<std::uint32_t>(10, static_cast<std::uint32_t>(t * each + i))));
        const Dispatch call{module.get(), {memory.back().get()}, {10, 3}};
        numbers.push_back(api_->submit({&call, 1}));
      }
      if (!std::is_sorted(numbers.begin(), numbers.end())) ++failures;
      for (int i = 0; i < each; ++i) {
        api_->wait(numbers[i], forever);
        const std::vector<std::uint32_t> expected(10, stepped(static_cast<std::uint32_t>(t * each + i), 3));
        if (values<std::uint32_t>(*memory[i], 10) != expected) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GE(api_->wait(thread_count * each, forever).ended, static_cast<std::uint64_t>(thread_count * each));
}

TEST_P(Vulkan_api, A_wait_ends_at_its_time) {
  const auto module = compile(step_source, 1, 2);
  const auto memory = buffer(std::vector<std::uint32_t>(slow_count, 1));
  const std::vector<Dispatch> slow = slow_calls(*module, *memory, 500ms);
  const std::uint64_t number = api_->submit(slow);
  const Clock::time_point begin = Clock::now();
  EXPECT_LT(api_->wait(number, Clock::time_point::min()).ended, number);
  EXPECT_LT(api_->wait(number, begin + 10ms).ended, number);
  EXPECT_GE(api_->wait(number, forever).ended, number);
}

TEST_P(Vulkan_api, A_kernel_that_does_not_compile_says_why) {
  expect_error(Errc::invalid_kernel, "[sample] does not compile",
               [&] { compile("#version 450\nvoid main() { float x = undeclared; }\n", 0, 0); });
  expect_error(Errc::invalid_kernel, "'undeclared' : undeclared identifier",
               [&] { compile("#version 450\nvoid main() { float x = undeclared; }\n", 0, 0); });
  expect_error(Errc::invalid_kernel, "syntax error", [&] { compile("nonsense", 0, 0); });
}

TEST_P(Vulkan_api, A_call_that_does_not_fit_its_kernel_is_refused) {
  const auto module = compile(step_source, 1, 2);
  const auto memory = buffer(std::vector<std::uint32_t>{1});
  expect_error(Errc::internal, "was given 0 buffers", [&] { run(*module, {}, {1, 1}, 1); });
  expect_error(Errc::internal, "and 4 bytes", [&] { run(*module, {memory.get()}, {1}, 1); });
  run(*module, {memory.get()}, {1, 1}, 1);
  EXPECT_EQ(values<std::uint32_t>(*memory, 1), std::vector{4U});
}

TEST_P(Vulkan_api, A_lost_device_ends_all_waits) {
  const auto module = compile(step_source, 1, 2);
  // Large enough for its own allocation, which must not be freed while the device still writes.
  auto memory = allocate(std::size_t{32} << 20);
  api_->fill_zero(*memory, 0, std::size_t{32} << 20);
  const std::vector<Dispatch> slow = slow_calls(*module, *memory, 700ms);
  const Dispatch quick{module.get(), {memory.get()}, {1, 1}};
  const std::uint64_t first = api_->submit({&quick, 1});
  api_->wait(first, forever);
  const std::uint64_t number = api_->submit(slow);
  Progress progress;
  std::thread waiter([&] { progress = api_->wait(number, forever); });
  std::this_thread::sleep_for(10ms);
  api_->lose("unplugged");
  waiter.join();
  EXPECT_LT(progress.ended, number);  // the waiter did not wait for the work
  ASSERT_TRUE(progress.failure);
  EXPECT_EQ(progress.failure->code, Errc::device_failure);
  EXPECT_NE(progress.failure->message.find(api_->info().name), std::string::npos);
  EXPECT_NE(progress.failure->message.find("unplugged"), std::string::npos);
  EXPECT_EQ(progress.ended, first);
  EXPECT_TRUE(api_->wait(first, forever).failure);
  expect_error(Errc::device_failure, "unplugged", [&] { api_->submit({&quick, 1}); });
  expect_error(Errc::device_failure, "unplugged", [&] { api_->record({&quick, 1}); });
  expect_error(Errc::device_failure, "unplugged", [&] { api_->fill_zero(*memory, 0, 4); });
  memory.reset();
}

TEST_P(Vulkan_api, Caches_compiled_code_on_disk) {
  const auto files = [] { return std::distance(fs::directory_iterator(Surroundings::folder), {}); };
  const auto before = files();
  const std::string source = std::string("#version 450\n// ") + GetParam().name + "\nvoid main() {}\n";
  compile(source, 0, 0);
  EXPECT_EQ(files(), before + 1);
  unsetenv("TESSERA_VALIDATE");  // which always compiles
  const std::vector<std::uint32_t> words = compile::gpu::glsl::spirv(source, "again");
  setenv("TESSERA_VALIDATE", "1", 1);
  EXPECT_EQ(words, compile::gpu::glsl::spirv(source, "again"));
  api_.reset();
  EXPECT_GE(files(), before + 1);  // the pipelines, if they are the first
  api_ = open_vulkan(0);
  compile(source, 0, 0);
}

}  // namespace
}  // namespace tessera::driver::gpu
