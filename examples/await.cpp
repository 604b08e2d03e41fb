// Coroutines: co_await a command. And without coroutines: on_complete and wait_any.
// Expect: ^3 x squared: 3 12 27.*caught: count_mismatch.*wait_any: 1.*on_complete: completed
#include <tessera/tessera.hpp>

#include <coroutine>
#include <exception>
#include <future>
#include <iostream>

using tessera::Buffer;
using tessera::Command;
using tessera::Device;

namespace {

// A minimal coroutine type: it starts at once, and a future reports its end.
struct Job {
  struct promise_type {
    std::promise<void> promise;

    Job get_return_object() { return {promise.get_future()}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() { promise.set_value(); }
    void unhandled_exception() { promise.set_exception(std::current_exception()); }
  };
  std::future<void> end;
};

// Reads like sequential code but blocks no thread: after each co_await it resumes on the thread that finished the
// command, perhaps a worker.
Job three_x_squared(Device device, Buffer x, Buffer result) {
  Buffer square = device.empty(x.shape());
  co_await device.submit("elementwise_mul", {x, x}, square);
  co_await device.submit("scale", {square}, result, {{"factor", 3}});

  std::cout << "3 x squared:";
  for (const float value : result.read<float>()) std::cout << ' ' << value;
  std::cout << '\n';

  try {  // a failed command throws here, as wait() would
    co_await device.submit("relu", {x, x}, result);
  } catch (const tessera::Error& error) {
    std::cout << "caught: " << to_string(error.code()) << ": " << error.what() << '\n';
  }
}

}  // namespace

int main() {
  Device device = Device::best();
  Buffer x = device.buffer<float>({1, 2, 3});
  Buffer busy = device.zeros({3});
  Buffer result = device.zeros({3});

  three_x_squared(device, x, result).end.get();

  std::promise<void> called;
  {
    const auto held = busy.map<float>();  // commands on `busy` wait for the end of this block
    const Command slow = device.submit("relu", {busy}, busy);
    const Command quick = device.submit("relu", {x}, result);
    std::cout << "wait_any: " << tessera::wait_any({slow, quick}) << '\n';

    slow.on_complete([&](const Command& command) {  // on the thread that finishes the command: be brief
      std::cout << "on_complete: " << to_string(command.poll()) << '\n';
      called.set_value();
    });
  }
  called.get_future().wait();
}
