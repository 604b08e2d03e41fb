// A user-defined coroutine type awaits operations and commands, which require nothing of its promise.
// Expect: ^sum 36, scaled 3 6 9.caught shape_mismatch.3 jobs in turn: 1 2 3
#include <tessera/tessera.hpp>

#include <coroutine>
#include <exception>
#include <future>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using tessera::Buffer;
using tessera::Device;

namespace {

// Starts at once and returns a std::future. That is all a coroutine type needs.
template <class T>
struct Job {
  struct promise_type {
    std::promise<T> promise;

    Job get_return_object() { return {promise.get_future()}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_value(T value) { promise.set_value(std::move(value)); }
    void unhandled_exception() { promise.set_exception(std::current_exception()); }
  };
  std::future<T> result;
};

Job<std::string> job(Device device) {
  // Awaits an operation,
  const std::vector<float> host = co_await tessera::arange<float>(9).on(device).to_host();
  const float sum = std::accumulate(host.begin(), host.end(), 0.0F);

  // a command,
  const Buffer x = device.buffer<float>({1, 2, 3});
  co_await device.submit("scale", {x}, x, {{"factor", 3}});
  std::string text = "sum " + std::to_string(static_cast<int>(sum)) + ", scaled";
  for (const float number : x.read<float>()) text += ' ' + std::to_string(static_cast<int>(number));

  // and a failure throws here.
  try {
    co_await tessera::zip(tessera::empty<float>({3}), tessera::ones<float>({4})).apply("relu");
  } catch (const tessera::Error& error) {
    text += "\ncaught " + std::string(to_string(error.code()));
  }
  co_return text;
}

// One after another, although no thread waits for them.
Job<std::string> in_turn() {
  std::string text;
  for (int i = 1; i <= 3; ++i) {
    const int done = co_await tessera::value(i).map([](int number) { return number; });
    text += ' ' + std::to_string(done);
  }
  co_return text;
}

}  // namespace

int main() {
  std::cout << job(Device::best()).result.get() << '\n';
  std::cout << "3 jobs in turn:" << in_turn().result.get() << '\n';
}
