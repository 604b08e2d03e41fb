// One thread runs everything: an Asio event loop with a ticking timer, tasks that await operations and resume in the
// loop, and an Asio coroutine that awaits operations too. The thread never blocks: the timer keeps ticking.
//
// Expect: sum 32768, on the thread of the loop: yes.*awaitable: 1024, on the thread of the loop: yes.*shape_mismatch
// Differs: longest gap
#include <tessera/tessera.hpp>

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using tessera::DeviceOperation;
using tessera::Task;

namespace {

using Clock = std::chrono::steady_clock;

// A detached coroutine.
struct Detached {
  struct promise_type {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

// The adaptor: an operation as an Asio asynchronous operation, for use_awaitable, callbacks and futures.
//
//   std::vector<float> host = co_await async_run(ones<float>({4}).to_host(), asio::use_awaitable);
template <class T, class Token>
auto async_run(DeviceOperation<T> operation, Token&& token) {
  const auto start = [](auto handler, DeviceOperation<T> what) {
    const auto executor = asio::get_associated_executor(handler);
    [](auto told, auto there, DeviceOperation<T> run) -> Detached {
      const auto work = asio::make_work_guard(there);  // keeps the loop running while this is in flight
      std::exception_ptr failure;
      T value{};
      try {
        value = co_await std::move(run).on(there);
      } catch (...) {
        failure = std::current_exception();
      }
      std::move(told)(failure, std::move(value));
    }(std::move(handler), executor, std::move(what));
  };
  return asio::async_initiate<Token, void(std::exception_ptr, T)>(start, token, std::move(operation));
}

struct Ticks {
  asio::steady_timer timer;
  int count = 0;
  Clock::time_point last = Clock::now();
  Clock::duration longest{0};
  bool is_stopped = false;  // a tick that is already queued cannot be cancelled

  void stop() {
    is_stopped = true;
    timer.cancel();
  }
  void next() {
    timer.expires_after(2ms);
    timer.async_wait([this](const asio::error_code& error) {
      if (error || is_stopped) return;
      const auto now = Clock::now();
      longest = std::max(longest, now - std::exchange(last, now));
      ++count;
      next();
    });
  }
};

struct Loop {
  asio::io_context io;
  std::thread::id thread;
  bool is_always_there = true;

  void look() { is_always_there = is_always_there && std::this_thread::get_id() == thread; }
};

// A Tessera task. `.on` resumes it in the loop.
Task<float> work(Loop& loop, float number) {
  tessera::Tensor<float> x = co_await tessera::full<float>({1024}, number).on(loop.io.get_executor());
  loop.look();
  const std::vector<float> host =
      co_await tessera::value(std::move(x))
          .to_host()
          .map([](std::vector<float> values) {  // runs outside the loop, so it may take long
            std::this_thread::sleep_for(20ms);
            return values;
          })
          .on(loop.io.get_executor());
  loop.look();
  co_return std::accumulate(host.begin(), host.end(), 0.0F);
}

Detached all_tasks(Loop& loop, std::function<void()> then) {
  std::vector<tessera::Spawned<float>> running;
  for (int i = 0; i < 8; ++i) running.push_back(spawn(work(loop, static_cast<float>(i) + 0.5F)));
  float sum = 0;
  for (auto& one : running) sum += co_await std::move(one).on(loop.io.get_executor());
  std::cout << "8 tasks: sum " << sum;
  std::cout << ", on the thread of the loop: " << (loop.is_always_there ? "yes" : "no") << '\n';
  then();
}

// An Asio coroutine.
asio::awaitable<void> session(Loop& loop) {
  const std::vector<float> host = co_await async_run(tessera::ones<float>({1024}).to_host(), asio::use_awaitable);
  std::cout << "asio::awaitable: " << std::accumulate(host.begin(), host.end(), 0.0F);
  std::cout << ", on the thread of the loop: " << (std::this_thread::get_id() == loop.thread ? "yes" : "no") << '\n';
  try {
    auto wrong = tessera::zip(tessera::empty<float>({3}), tessera::empty<float>({4})).apply("relu");
    co_await async_run(std::move(wrong).map([](const auto&) { return 0; }), asio::use_awaitable);
  } catch (const tessera::Error& error) {
    std::cout << "failed as it should: " << to_string(error.code()) << '\n';
  }
}

}  // namespace

int main() {
  Loop loop;
  loop.thread = std::this_thread::get_id();
  Ticks ticks{asio::steady_timer(loop.io)};
  ticks.next();

  all_tasks(loop, [&] { asio::co_spawn(loop.io, session(loop), [&](const std::exception_ptr&) { ticks.stop(); }); });
  loop.io.run();

  std::cout << "ticks: " << ticks.count;
  std::cout << ", longest gap " << std::chrono::duration<double, std::milli>(ticks.longest).count() << " ms\n";
}
