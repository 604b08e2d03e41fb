// A host that has no memory left: every n-th allocation fails, for every n, over the entry points of the engine. The
// outcome is a result or an Error; nothing hangs, and nothing is left behind that does.
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

}  // namespace
}  // namespace tessera
