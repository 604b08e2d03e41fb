// A host that has no memory left: every n-th allocation fails, for every n, over the entry points of the engine. The
// outcome is a result or an Error; nothing hangs, and nothing is left behind that does.
#include <tessera/operation.hpp>
#include <tessera/task.hpp>
#include <tessera/tessera.hpp>

#include "support/allocations.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
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
  // device and its buffers still work. First on this thread, which has allocated what it can reuse; then on new ones.
  void fail_each(const char* what, const std::function<void()>& function) {
    for (int i = 0; i < 3; ++i) function();  // caches are filled
    synchronize();
    const MemoryInfo before = device.memory();
    fail_each_on(what, [&](std::int64_t n) { return succeeds_without(n, function); });
    fail_each_on(what, [&](std::int64_t n) {
      bool has_succeeded = false;
      std::thread([&] { has_succeeded = succeeds_without(n, function); }).join();
      return has_succeeded;
    });
    // Device threads may still hold tensors for a moment.
    for (int i = 0; i < 5000 && device.memory().in_use > before.in_use; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LE(device.memory().in_use, before.in_use) << what;
  }

  void fail_each_on(const char* what, const std::function<bool(std::int64_t n)>& succeeds) {
    bool has_succeeded = false;
    for (std::int64_t n = 0; !has_succeeded && n < 10'000; ++n) {
      SCOPED_TRACE(std::string(what) + ", allocation " + std::to_string(n));
      has_succeeded = succeeds(n);
      expect_all_is_well();
    }
    EXPECT_TRUE(has_succeeded) << what;
  }

  // Whether no allocation failed.
  static bool succeeds_without(std::int64_t n, const std::function<void()>& function) {
    test::fail_allocation(n);
    try {
      function();
    } catch (const Error& error) {
      EXPECT_EQ(error.root().code(), Errc::out_of_memory) << n << ": " << error.what();
    } catch (const std::bad_alloc&) {
    }
    return !test::has_failed_allocation();
  }

  // Throws nothing but what failed for want of memory. A device thread may be the last to drop an operation that failed
  // unseen, and be late.
  void synchronize() const {
    try {
      device.synchronize();
    } catch (const Error& error) {
      EXPECT_EQ(error.root().code(), Errc::out_of_memory) << error.what();
    }
  }

  void expect_all_is_well() {
    synchronize();
    device.run("scale", {in}, out, {{"factor", 3}});
    ASSERT_EQ(out.read<float>()[count - 1], 6);
    synchronize();
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
  {  // two runs at once, so that there are temporaries for both
    const auto view = out.map<float>();
    pipeline.submit({{"frame", in}});
    pipeline.submit({{"frame", in}});
  }
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

Task<float> first_of(const Device& device, std::int64_t count) {
  Tensor<float> x = co_await ones<float>({count}).on(device);
  const Floats values = co_await value(std::move(x)).to_host();
  co_return values[0];
}

TEST_F(NoMemory, Operations) {
  const auto twice = [](Tensor<float> x) { return value(std::move(x)).map([](Tensor<float> y) { return y; }); };
  fail_each("sync", [&] { ones<float>({count}).on(device).sync(); });
  fail_each("to_host", [&] { EXPECT_EQ(ones<float>({count}).on(device).then(twice).to_host().sync().size(), count); });
  fail_each("from_host",
            [&] { EXPECT_EQ(from_host(Floats(count, 2), {count}).on(device).to_host().sync()[count - 1], 2); });
  fail_each("spawn", [&] { spawn(zip(ones<float>({8}), zeros<float>({8})).on(device)).wait(); });
  fail_each("kernels", [&] {
    auto [z, x] = zip(zeros<float>({count}), ones<float>({count})).apply("neg").on(device).sync();
    EXPECT_EQ(value(std::move(z)).to_host().sync()[0], -1);
  });
}

TEST_F(NoMemory, Operations_in_operations) {
  const auto number = [&](int x) { return value(x).on(device).map([](int y) { return y + 1; }); };
  const auto numbers = [&] {
    std::vector<DeviceOperation<int>> made;
    for (int i = 0; i < 3; ++i) made.push_back(number(i));
    return made;
  };
  fail_each("retry", [&] { EXPECT_EQ(number(1).retry(2).retry(1).sync(), 2); });
  fail_each("timeout", [&] { EXPECT_EQ(number(1).timeout(std::chrono::hours(1)).sync(), 2); });
  fail_each("or_else", [&] { number(1).or_else([](const Error&) { return 3; }).sync(); });
  fail_each("when_all", [&] { EXPECT_EQ(when_all(numbers()).sync().size(), 3); });
  fail_each("when_any", [&] { when_any(numbers()).sync(); });
  fail_each("when_any again", [&] { when_any(numbers()).retry(1).sync(); });
  const Device second = Device::simulated({.workers = 1});
  fail_each("on another device", [&] { zip(ones<float>({count}).on(device), ones<float>({count}).on(second)).sync(); });
  fail_each("copy_to", [&] { ones<float>({count}).on(device).copy_to(second).sync(); });
}

TEST_F(NoMemory, A_function_without_memory_is_not_a_failed_call) {
  const auto fails = [](int) -> int { throw std::bad_alloc(); };
  const auto code = [](const Error& error) { return static_cast<int>(error.code()); };
  EXPECT_EQ(value(1).on(device).map(fails).or_else(code).sync(), static_cast<int>(Errc::out_of_memory));
  EXPECT_THROW(value(1).on(device).map(fails).sync(), std::bad_alloc);
}

TEST_F(NoMemory, Operations_that_share_work) {
  fail_each("one after the other", [&] {
    auto [z, x] = zip(zeros<float>({count}), ones<float>({count})).apply("neg").on(device).unzip();
    EXPECT_EQ(std::move(z).to_host().sync()[0], -1);
    std::move(x).sync();
  });
  fail_each("at once", [&] {
    auto [z, x] = zip(zeros<float>({count}), ones<float>({count})).apply("neg").on(device).unzip();
    auto first = std::move(z).to_host().spawn();
    auto other_one = std::move(x).spawn();
    other_one.wait();
    first.wait();
  });
  fail_each("in one", [&] {
    auto [a, b] = zip(ones<float>({count}), ones<float>({count})).on(device).unzip();
    zip(std::move(a), std::move(b)).sync();
  });
  fail_each("again", [&] {
    auto [a, b] = zip(ones<float>({8}), ones<float>({8})).on(device).unzip();
    zip(std::move(a), std::move(b)).retry(1).sync();
  });
}

TEST_F(NoMemory, Cancelled_operations) {
  const auto is_cancelled = [](auto& spawned) {
    try {
      spawned.wait();
    } catch (const Error& error) {
      if (error.root().code() != Errc::cancelled) throw;
    }
  };
  const auto long_one = [&] {
    return ones<float>({count}).on(device).to_host().map([](const Floats& x) { return x; }).retry(1);
  };
  fail_each("cancel", [&] {
    auto spawned = long_one().spawn();
    spawned.cancel();
    is_cancelled(spawned);
  });
  fail_each("stop token", [&] {
    std::stop_source stop;
    auto spawned = long_one().spawn(stop.get_token());
    stop.request_stop();
    is_cancelled(spawned);
  });
  fail_each("a part", [&] {
    auto [a, b] = zip(ones<float>({count}), ones<float>({count})).on(device).unzip();
    auto first = std::move(a).to_host().spawn();
    auto second = std::move(b).to_host().spawn();
    second.cancel();
    first.cancel();
    is_cancelled(second);
    is_cancelled(first);
  });
}

TEST_F(NoMemory, Tasks) {
  fail_each("sync_wait", [&] { EXPECT_EQ(sync_wait(first_of(device, count)), 1); });
  fail_each("spawn", [&] { EXPECT_EQ(spawn(first_of(device, count)).wait(), 1); });
  fail_each("cancel", [&] {
    auto spawned = spawn(first_of(device, count));
    spawned.cancel();
    try {
      spawned.wait();
    } catch (const Error& error) {
      if (error.root().code() != Errc::cancelled) throw;
    }
  });
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
