// A host that has no memory left: every n-th allocation fails, for every n, over the entry points of the engine. The
// outcome is a result or an Error; nothing hangs, and nothing is left behind that does.
#include <tessera/operation.hpp>
#include <tessera/tessera.hpp>

#include "support/allocations.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace tessera {
namespace {

using Floats = std::vector<float>;

class NoMemory : public testing::Test {
 protected:
  static constexpr std::int64_t count = 5000;  // too large for the submitting thread
  const Device device = Device::best();
  const Buffer in = device.buffer<float>(Floats(count, 2));
  Buffer out = device.zeros({count});
  const Buffer other = device.zeros({count});

  // Calls the function with the n-th allocation failing, for n from 0 until it succeeds, and checks after each that the
  // device and its buffers still work.
  void fail_each(const char* what, const std::function<void()>& function) {
    for (int i = 0; i < 3; ++i) function();  // caches are filled
    device.synchronize();
    const MemoryInfo before = device.memory();
    bool has_succeeded = false;
    std::int64_t n = 0;
    for (; !has_succeeded && n < 10'000; ++n) {
      SCOPED_TRACE(std::string(what) + ", allocation " + std::to_string(n));
      test::fail_allocation(n);
      try {
        function();
      } catch (const Error& error) {
        EXPECT_EQ(error.root().code(), Errc::out_of_memory) << error.what();
      } catch (const std::bad_alloc&) {
      }
      has_succeeded = !test::has_failed_allocation();
      expect_all_is_well();
    }
    EXPECT_TRUE(has_succeeded) << what;
    EXPECT_EQ(device.memory().in_use, before.in_use) << what;
  }

  void expect_all_is_well() {
    try {
      device.synchronize();
    } catch (const Error& error) {
      EXPECT_EQ(error.root().code(), Errc::out_of_memory) << error.what();
    }
    device.run("scale", {in}, out, {{"factor", 3}});
    ASSERT_EQ(out.read<float>()[count - 1], 6);
    EXPECT_NO_THROW(device.synchronize());
  }
};

TEST_F(NoMemory, Commands) {
  fail_each("run", [&] { device.run("scale", {in}, out, {{"factor", 2}}); });
  fail_each("submit", [&] { device.submit("scale", {in}, out, {{"factor", 2}}).wait(); });
  fail_each("behind a map", [&] {
    Command first, second;
    {
      const auto view = out.map<float>();
      first = device.submit("scale", {in}, out, {{"factor", 2}});
      second = device.submit("elementwise_add", {in, out}, out);
      first.on_complete([](const Command&) {});
      device.submit("neg", {out}, other).cancel();
    }
    second.wait();
  });
  fail_each("stream", [&] {
    const Stream stream = device.stream({.max_in_flight = 2, .deadline = std::chrono::hours(1)});
    for (int i = 0; i < 4; ++i) stream.submit("elementwise_add", {in, out}, out);
    stream.synchronize();
  });
  fail_each("refused", [&] { EXPECT_EQ(device.submit("scale", {in, in}, out).poll(), Status::failed); });
}

TEST_F(NoMemory, Buffers) {
  fail_each("zeros", [&] { device.run("copy", {in}, device.zeros({count})); });
  fail_each("read", [&] { out.read<float>(); });
  fail_each("write", [&] { out.write(Floats(count, 1)); });
  fail_each("map", [&] { out.map<float>()[7] = 1; });
  fail_each("free", [&] {
    Buffer temporary = device.zeros({count});
    device.submit("copy", {in}, temporary);
    temporary.free();
  });
  const Device second = Device::simulated({.workers = 1});
  Buffer there = second.zeros({count});
  fail_each("copy_to", [&] { in.copy_to(there).wait(); });
  fail_each("copy back", [&] { there.copy_to(out).wait(); });
}

TEST_F(NoMemory, Pipelines) {
  Pipeline pipeline(device);
  const Buffer slot = pipeline.slot("frame", {count});
  const Buffer middle = pipeline.temporary({count}), last = pipeline.temporary({count});
  pipeline.add("scale", {slot}, middle, {{"factor", pipeline.param("factor", 2)}})
      .call("look", [](HostCall&) {}, {middle}, {last})
      .add("elementwise_add", {middle, in}, out);
  fail_each("run", [&] { pipeline.run({{"frame", in}}); });
  fail_each("submit", [&] {
    const Command first = pipeline.submit({{"frame", in}}), second = pipeline.submit({{"frame", in}, {"factor", 3}});
    first.wait();
    second.wait();
  });
}

// Not as JSON: the destructor of nlohmann's documents allocates, and ends the process if it cannot.
TEST_F(NoMemory, Named_pipelines) {
  Pipeline pipeline(device);
  pipeline.add("scale", {pipeline.slot("frame", {count})}, pipeline.slot("result", {count}), {{"factor", 2}});
  fail_each("explain", [&] { EXPECT_FALSE(pipeline.explain().empty()); });
  fail_each("named", [&] {
    device.define_command("no memory", pipeline);
    device.submit("no memory", {{"frame", in}, {"result", out}}).wait();
  });
}

TEST_F(NoMemory, Operations) {
  const auto twice = [](Tensor<float> x) { return value(std::move(x)).map([](Tensor<float> y) { return y; }); };
  fail_each("sync", [&] { ones<float>({count}).on(device).sync(); });
  fail_each("to_host", [&] { EXPECT_EQ(ones<float>({count}).on(device).then(twice).to_host().sync().size(), count); });
  fail_each("spawn", [&] { spawn(zip(ones<float>({8}), zeros<float>({8})).on(device)).wait(); });
  fail_each("retry", [&] { value(1).on(device).map([](int x) { return x + 1; }).retry(2).sync(); });
}

TEST_F(NoMemory, Kernels_and_images) {
  fail_each("kernels", [&] { EXPECT_FALSE(device.kernels().empty()); });
  int number = 0;
  fail_each("define_kernel", [&] { define_kernel("no_memory_" + std::to_string(number++), {"x"}, "x * 2 + exp(x)"); });
  const Image image(Shape{17, 9, 4});
  fail_each("PNG", [&] { decode_image(encode_image(image, ImageFormat::png)); });
  fail_each("JPEG", [&] { decode_image(encode_image(image, ImageFormat::jpeg)); });
}

}  // namespace
}  // namespace tessera
