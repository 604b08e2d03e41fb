// A system that has no threads left, from the start or in the middle.
#include <tessera/operation.hpp>
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <pthread.h>
#include <thread>
#include <vector>

namespace {

std::atomic<int> threads_left = 1'000'000;

}  // namespace

// What std::thread calls: fails once there are no threads left.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}

namespace tessera {
namespace {

using namespace std::chrono_literals;
using Floats = std::vector<float>;

// Everything that needs a thread otherwise: commands behind others, callbacks, streams with deadlines, pipelines,
// coroutines, operations.
void expect_everything_works(const Device& device) {
  constexpr std::int64_t count = 100'000;
  Buffer gate = device.zeros({count}), out = device.zeros({count});
  std::atomic<int> calls = 0;
  {
    const auto view = gate.map<float>();
    const Stream stream = device.stream({.deadline = 1h});
    for (int i = 0; i < 10; ++i) {
      stream.submit("elementwise_add", {gate, out}, out).on_complete([&](const Command&) { ++calls; });
    }
    device.submit("relu", {gate}, out).cancel();
    view[0] = 1;
  }
  device.run("copy", {gate}, out);
  device.synchronize();
  EXPECT_EQ(calls, 10);
  Pipeline pipeline(device);
  const Buffer middle = pipeline.temporary({count});
  pipeline.add("scale", {gate}, middle, {{"factor", 2}})
      .call("look", [](HostCall& call) { EXPECT_EQ(call.input<float>(0)[0], 2); }, {middle}, {})
      .add("copy", {middle}, out);
  Command run = pipeline.submit();
  while (!is_terminal(run.poll())) std::this_thread::yield();
  EXPECT_EQ(out.read<float>()[0], 2);
  EXPECT_EQ(wait_any({pipeline.submit()}), 0U);
  Spawned<Floats> spawned = spawn(ones<float>({count}).on(device).map([](Tensor<float> x) { return x; }).to_host());
  EXPECT_EQ(spawned.wait().size(), static_cast<std::size_t>(count));
  EXPECT_EQ(value(1).on(device).map([](int x) { return x + 1; }).timeout(1h).sync(), 2);
}

TEST(NoThreads, The_caller_does_the_work_itself) {
  threads_left = 0;
  const Device device = Device::open("cpu");
  expect_everything_works(device);
  threads_left = 1'000'000;
  expect_everything_works(device);  // with threads, which are to be had again
}

TEST(NoThreads, Any_thread_may_be_missing) {
  for (int n = 0; n < 6; ++n) {  // simulated devices have threads of their own
    SCOPED_TRACE(n);
    threads_left = n;
    expect_everything_works(Device::simulated({.workers = 4}));
  }
  threads_left = 1'000'000;
}

TEST(NoThreads, A_gpu_is_watched_by_the_caller) {
  for (const char* backend : {"vulkan", "opencl", "gles"}) {
    std::optional<Device> device;
    try {
      device = Device::open(backend);
    } catch (const Error&) {
      continue;  // there is none here
    }
    // What its own library needs threads for happens now.
    device->run("relu", {device->zeros({100'000})}, device->zeros({100'000}));
    threads_left = 0;
    expect_everything_works(*device);
    threads_left = 1'000'000;
    expect_everything_works(*device);
  }
}

}  // namespace
}  // namespace tessera
