#include <tessera/task.hpp>

#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

Task<int> give(int value) { co_return value; }
Task<void> nothing() { co_return; }
Task<int> fail(std::string why) {
  throw std::runtime_error(why);
  co_return 0;
}

// A thread with a queue, like an event loop.
class Loop {
 public:
  Loop() : thread_([this] { run(); }) {}
  ~Loop() {
    post(nullptr);
    thread_.join();
  }
  void post(std::function<void()> function) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(function));
    changed_.notify_one();
  }
  // Runs a function on the thread and waits for it.
  void run_there(const std::function<void()>& function) {
    const auto done = std::make_shared<std::promise<void>>();  // set_value may still be running when wait returns
    std::future<void> ended = done->get_future();
    post([done, &function] {
      function();
      done->set_value();
    });
    ended.wait();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> function = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!function) return;
      function();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

// The forms of executors.
struct WithExecute {
  Loop* loop;
  void execute(std::function<void()> function) const { loop->post(std::move(function)); }
};
struct WithPost {
  Loop* loop;
  void post(std::function<void()> function) const { loop->post(std::move(function)); }
};

// A host function in an operation that blocks until it is released. It may outlive the gate and the test: a task that
// is dropped while suspended does not wait for it.
struct Gate {
  struct State {
    std::atomic<bool> is_reached = false;
    std::atomic<bool> is_open = false;
  };
  const std::shared_ptr<State> state = std::make_shared<State>();
  std::atomic<bool>& is_reached = state->is_reached;
  std::atomic<bool>& is_open = state->is_open;

  auto function() const {
    return [state = state](int x) {
      state->is_reached = true;
      while (!state->is_open) std::this_thread::yield();
      return x;
    };
  }
  void wait() const {
    while (!is_reached) std::this_thread::yield();
  }
};

TEST(Task, Returns_a_value_or_nothing) {
  EXPECT_EQ(sync_wait(give(7)), 7);
  sync_wait(nothing());
  const auto owned = [](std::unique_ptr<int> x) -> Task<std::unique_ptr<int>> { co_return x; };
  EXPECT_EQ(*sync_wait(owned(std::make_unique<int>(5))), 5);
  const auto pair = []() -> Task<std::pair<int, std::string>> { co_return {1, "one"}; };
  EXPECT_EQ(sync_wait(pair()).second, "one");
}

TEST(Task, Starts_when_it_is_awaited) {
  bool has_begun = false;
  const auto body = [&]() -> Task<void> {
    has_begun = true;
    co_return;
  };
  {
    const auto dropped = body();
  }
  EXPECT_FALSE(has_begun);
  sync_wait(body());
  EXPECT_TRUE(has_begun);
}

TEST(Task, Awaits_operations) {
  const auto body = []() -> Task<float> {
    Tensor<float> x = co_await full<float>({100}, 2);
    const std::vector<float> host = co_await value(std::move(x)).to_host();
    co_await value(1).map([](int) {});
    co_return std::accumulate(host.begin(), host.end(), 0.0F);
  };
  EXPECT_EQ(sync_wait(body()), 200);
  EXPECT_EQ(sync_wait(value(3)), 3);
}

TEST(Task, An_exception_reaches_whoever_awaits) {
  EXPECT_THROW(sync_wait(fail("no luck")), std::runtime_error);
  const auto body = []() -> Task<std::string> {
    try {
      co_await fail("no luck");
    } catch (const std::runtime_error& error) {
      co_return error.what();
    }
    co_return "";
  };
  EXPECT_EQ(sync_wait(body()), "no luck");
  const auto operation = []() -> Task<Errc> {
    try {
      co_await zip(empty<float>({3}), empty<float>({4})).apply("relu");
    } catch (const Error& error) {
      co_return error.code();
    }
    co_return Errc::internal;
  };
  EXPECT_EQ(sync_wait(operation()), Errc::shape_mismatch);
}

TEST(Task, Runs_once) {
  Task<int> task = give(1);
  EXPECT_EQ(sync_wait(std::move(task)), 1);
  expect_error(Errc::invalid_argument, "already consumed", [&] { sync_wait(std::move(task)); });
  expect_error(Errc::invalid_argument, "already consumed", [&] { spawn(std::move(task)); });
  const auto twice = []() -> Task<int> {
    Task<int> inner = give(2);
    const int first = co_await std::move(inner);
    co_return first + co_await std::move(inner);
  };
  expect_error(Errc::invalid_argument, "already consumed", [&] { sync_wait(twice()); });
}

TEST(Task, A_million_awaits_need_no_stack) {
  const auto tasks = []() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += co_await give(1);
    co_return sum;
  };
  EXPECT_EQ(sync_wait(tasks()), 1'000'000);
  const auto operations = []() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += co_await value(1);
    co_return sum;
  };
  EXPECT_EQ(sync_wait(operations()), 100'000);
  const auto executor = []() -> Task<int> {  // which calls the function at once
    int sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += co_await value(1).on([](auto f) { f(); });
    co_return sum;
  };
  EXPECT_EQ(sync_wait(executor()), 100'000);
}

TEST(Task, Many_awaits_that_suspend_need_no_stack) {
  const auto body = []() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 20'000; ++i) sum += co_await value(1).map([](int x) { return x; });
    co_return sum;
  };
  EXPECT_EQ(sync_wait(body()), 20'000);
}

Task<int> depth(int levels) {
  if (levels == 0) co_return co_await value(0).map([](int x) { return x; });
  co_return 1 + co_await depth(levels - 1);
}

Task<int> depth_without_waiting(int levels) {
  if (levels == 0) co_return 0;
  co_return 1 + co_await depth_without_waiting(levels - 1);
}

TEST(Task, Hundreds_of_thousands_of_nested_tasks_need_no_stack) {
  EXPECT_EQ(sync_wait(depth(300'000)), 300'000);
  EXPECT_EQ(sync_wait(depth_without_waiting(300'000)), 300'000);
  EXPECT_EQ(spawn(depth(300'000)).wait(), 300'000);
}

TEST(Task, A_failure_leaves_a_hundred_thousand_nested_tasks) {
  struct Body {
    static Task<int> fail_at(int levels) {
      if (levels == 0) co_return co_await value(0).map([](int) -> int { throw std::runtime_error("deep"); });
      co_return co_await fail_at(levels - 1);
    }
  };
  EXPECT_THROW(sync_wait(Body::fail_at(100'000)), std::runtime_error);
}

TEST(Task, Hundreds_of_thousands_of_nested_tasks_are_destroyed_innermost_first) {
  // Each one uses an object of the task that awaits it.
  struct Level {
    const int number;
    const Level* const outer;
    int* const dropped;
    ~Level() {
      EXPECT_TRUE(!outer || outer->number == number - 1);
      ++*dropped;
    }
  };
  struct Body {
    static Task<void> wait(Gate& gate, int levels, const Level* outer, int* dropped) {
      const Level level{outer ? outer->number + 1 : 0, outer, dropped};
      if (levels == 0) {
        auto operation = value(0).map(gate.function());
        co_await std::move(operation);
      } else {
        co_await wait(gate, levels - 1, &level, dropped);
      }
    }
  };
  constexpr int levels = 300'000;
  Gate gate;
  int dropped = 0;
  {
    const Task<void> task = Body::wait(gate, levels, nullptr, &dropped);
    task.handle().resume();
    gate.wait();
  }
  gate.is_open = true;
  EXPECT_EQ(dropped, levels + 1);
}

TEST(Task, Is_not_deferred_when_user_code_resumes_the_awaiting_coroutine) {
  // Inside sixteen tasks: if the coroutine were deferred, it would be deferred forever.
  struct Own {
    struct promise_type {
      Own get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_value(int given) noexcept { value = given; }
      void unhandled_exception() noexcept { std::terminate(); }
      int value = 0;
    };
    std::coroutine_handle<promise_type> coroutine;
    int get() const {
      coroutine.resume();
      EXPECT_TRUE(coroutine.done());
      const int value = coroutine.promise().value;
      coroutine.destroy();
      return value;
    }
  };
  struct Body {
    static Own own() { co_return co_await depth_without_waiting(100); }
    static Task<int> around(int levels) {
      if (levels == 0) co_return own().get();
      co_return co_await around(levels - 1);
    }
  };
  for (int levels = 0; levels < 40; ++levels) EXPECT_EQ(sync_wait(Body::around(levels)), 100);
}

TEST(Task, Awaits_commands) {
  for (const unsigned workers : {0U, 2U}) {
    const Device device = Device::simulated({.seed = 1, .workers = workers});
    const auto body = [&]() -> Task<float> {
      const Buffer x = device.buffer<float>({1, 2, 3});
      const Buffer y = device.empty({3});
      co_await device.submit("scale", {x}, y, {{"factor", 2.0}});
      Tensor<float> tensor = co_await value(Tensor<float>(y));
      co_await device.submit("scale", {y}, x, {{"factor", 2.0}});
      co_return x.read<float>()[2];
    };
    EXPECT_EQ(sync_wait(body()), 12);
    const auto failing = [&]() -> Task<void> {
      co_await device.submit("relu", {device.zeros({3})}, device.zeros({4}));
    };
    expect_error(Errc::shape_mismatch, "relu", [&] { sync_wait(failing()); });
  }
}

TEST(Task, Works_on_a_device_without_workers) {
  const Device device = Device::simulated({.seed = 3, .workers = 0});
  const auto inner = [&](float x) -> Task<float> {
    const auto host = co_await full<float>({10000}, x).on(device).to_host();
    co_return co_await value(host[17]).on(device).map([](float y) { return 2 * y; });
  };
  const auto body = [&]() -> Task<float> {
    const float first = co_await inner(1);
    Spawned<std::vector<float>> running = spawn(full<float>({10}, 3).on(device).to_host());
    const std::vector<float> second = co_await std::move(running);
    std::vector<DeviceOperation<float>> both;
    both.push_back(as_operation(inner(4)).on(device));
    both.push_back(as_operation(inner(5)).on(device));
    const std::vector<float> rest = co_await when_all(std::move(both));
    co_return first + second[0] + rest[0] + rest[1];
  };
  EXPECT_EQ(sync_wait(body()), 2 + 3 + 8 + 10);
}

// The task itself runs elsewhere.
TEST(Task, A_spawned_task_awaits_work_on_a_device_without_workers) {
  const Device device = Device::simulated({.seed = 3, .workers = 0});
  const auto body = [&]() -> Task<float> {
    const auto host = co_await full<float>({10000}, 2).on(device).to_host();
    co_await device.submit("relu", {device.zeros({3})}, device.zeros({3}));
    co_return co_await value(host[17]).on(device).map([](float y) { return 2 * y; });
  };
  EXPECT_EQ(spawn(body()).wait(), 4);
  EXPECT_EQ(as_operation(body()).sync(), 4);
  const auto outer = [&]() -> Task<float> { co_return co_await spawn(body()) + co_await as_operation(body()); };
  EXPECT_EQ(sync_wait(outer()), 8);
}

TEST(Task, Runs_in_the_background_when_spawned) {
  Spawned<int> running = spawn(depth(10));
  EXPECT_EQ(running.wait(), 10);
  EXPECT_EQ(running.poll(), Status::completed);
  EXPECT_THROW(spawn(fail("no luck")).wait(), std::runtime_error);
  spawn(nothing()).wait();
  std::promise<void> done;
  const auto dropped = [&]() -> Task<void> {
    co_await value(1).map([](int) {});
    done.set_value();
  };
  spawn(dropped());
  done.get_future().wait();
}

TEST(Task, Cancel_throws_from_the_pending_co_await) {
  Gate gate;
  bool was_caught = false;
  bool has_gone_on = false;
  const auto body = [&]() -> Task<int> {
    try {
      co_await value(1).map(gate.function()).map([&](int x) { return has_gone_on = true, x; });
    } catch (const Error& error) {
      was_caught = error.code() == Errc::cancelled;
      throw;
    }
    co_return 1;
  };
  Spawned<int> running = spawn(body());
  gate.wait();
  EXPECT_TRUE(running.cancel());
  gate.is_open = true;
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  EXPECT_EQ(running.poll(), Status::cancelled);
  EXPECT_TRUE(was_caught);
  EXPECT_FALSE(has_gone_on);
  EXPECT_FALSE(running.cancel());
}

TEST(Task, A_stop_token_cancels_what_it_awaits) {
  for (const bool is_spawned : {true, false}) {
    Gate gate;
    std::stop_source stop;
    const auto body = [&]() -> Task<int> {
      const auto inner = [&]() -> Task<int> {
        co_return co_await value(1).map(gate.function()).map([](int x) { return x; });
      };
      co_return co_await inner();
    };
    std::thread stopper([&] {
      gate.wait();
      stop.request_stop();
      gate.is_open = true;
    });
    expect_error(Errc::cancelled, "stopped", [&] {
      if (is_spawned) {
        spawn(body(), stop.get_token()).wait();
      } else {
        sync_wait(body(), stop.get_token());
      }
    });
    stopper.join();
    const auto late = []() -> Task<int> { co_return co_await value(1).map([](int x) { return x; }); };
    expect_error(Errc::cancelled, "stopped", [&] { sync_wait(late(), stop.get_token()); });
  }
}

TEST(Task, Does_not_start_after_a_cancel) {
  const Device device = Device::simulated({.seed = 3, .workers = 0});  // nothing runs before a thread waits
  bool has_begun = false;
  const auto task = [](bool& begun) -> Task<int> {
    begun = true;
    co_return 1;
  };
  Spawned<int> running = spawn(as_operation(task(has_begun)).on(device));
  EXPECT_TRUE(running.cancel());
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  EXPECT_FALSE(has_begun);
}

TEST(Task, No_longer_waits_for_a_command_when_stopped) {
  const auto body = [](Command command) -> Task<int> {
    co_await command;
    co_return 1;
  };
  const Device device = Device::best();
  Buffer gated = device.zeros({4});
  std::optional<Mapped<float>> view = gated.map<float>();  // the command cannot run before this is gone
  const Command command = device.submit("relu", {gated}, device.zeros({4}));
  {
    Spawned<int> running = spawn(body(command));
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(running.cancel());
    expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  }
  {
    std::stop_source stop;
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(20ms);
      stop.request_stop();
    });
    expect_error(Errc::cancelled, "stopped", [&] { sync_wait(body(command), stop.get_token()); });
    expect_error(Errc::cancelled, "stopped", [&] { sync_wait(body(command), stop.get_token()); });
  }
  expect_error(Errc::deadline_exceeded, "50 ms", [&] { as_operation(body(command)).timeout(50ms).sync(); });
  EXPECT_FALSE(is_terminal(command.poll()));
  view.reset();
  command.wait();  // nobody has cancelled it
}

TEST(Task, Cancels_the_spawned_operation_that_it_awaits_when_stopped) {
  if (Device::best().info().compute_units < 2) GTEST_SKIP() << "the gate holds the only worker";
  Gate gate;
  bool has_gone_on = false;
  Spawned<int> awaited = spawn(value(1).map(gate.function()).map([&](int x) { return has_gone_on = true, x; }));
  const auto body = [](Spawned<int> spawned) -> Task<int> { co_return co_await std::move(spawned); };
  Spawned<int> running = spawn(body(std::move(awaited)));
  gate.wait();
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(running.cancel());
  gate.is_open = true;
  expect_error(Errc::cancelled, "cancelled", [&] { running.wait(); });
  EXPECT_FALSE(has_gone_on);
}

TEST(Task, May_finish_and_be_stopped_at_the_same_time) {
  const Device device = Device::best();
  const auto body = [](Command command) -> Task<int> {
    co_await command;
    co_return 1;
  };
  const Buffer buffer = device.zeros({100'000});
  for (int i = 0; i < 300; ++i) {
    const Command command = device.submit("fill", {}, buffer, {{"value", 1}});
    Spawned<int> running = spawn(body(command));
    for (int spin = 0; spin < i % 50; ++spin) std::this_thread::yield();
    running.cancel();
    try {
      EXPECT_EQ(running.wait(), 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::cancelled);
    }
  }
}

TEST(Task, Can_be_passed_to_zip) {
  const auto number = [](int x) -> Task<int> { co_return x; };
  const auto nothing = []() -> Task<void> { co_return; };
  const auto [one, two, none] = zip(number(1), number(2), nothing()).sync();
  EXPECT_EQ(one, 1);
  EXPECT_EQ(two, 2);
  static_assert(std::is_same_v<decltype(none), const std::monostate>);
}

TEST(Task, Sync_wait_of_an_operation_takes_a_stop_token) {
  std::stop_source stop;
  EXPECT_EQ(sync_wait(value(1).map([](int x) { return x; }), stop.get_token()), 1);
  stop.request_stop();
  expect_error(Errc::cancelled, "stopped", [&] { sync_wait(value(1).map([](int x) { return x; }), stop.get_token()); });
}

// An executor that is shut down.
struct Refusing {
  template <class F>
  void execute(F) const {
    throw std::runtime_error("shut down");
  }
};
// One that cannot be copied.
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  template <class F>
  void execute(F function) {
    ++calls;
    function();
  }
  int calls = 0;
};

TEST(Task, Rethrows_what_an_executor_throws) {
  const auto body = [](bool is_finished) -> Task<int> {
    auto operation = value(1).map([=](int x) {
      if (!is_finished) std::this_thread::sleep_for(20ms);
      return x;
    });
    try {
      co_await std::move(operation).on(Refusing{});
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "shut down");
      co_return 5;
    }
    co_return 0;
  };
  EXPECT_EQ(sync_wait(body(false)), 5);
  EXPECT_EQ(sync_wait(body(true)), 5);
  const auto at_once = []() -> Task<int> { co_return co_await value(1).on(Refusing{}); };
  EXPECT_THROW(sync_wait(at_once()), std::runtime_error);
}

TEST(Task, Continues_on_a_non_copyable_executor) {
  Pinned pinned;
  const auto body = [&]() -> Task<int> {
    co_return co_await value(1).map([](int x) { return x; }).on(std::ref(pinned));
  };
  EXPECT_EQ(sync_wait(body()), 1);
  EXPECT_EQ(pinned.calls, 1);
}

TEST(Task, May_continue_after_it_was_stopped) {
  std::stop_source stop;
  stop.request_stop();
  const auto body = []() -> Task<int> {
    try {
      co_await value(1).map([](int x) { return x; });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::cancelled);
    }
    co_return 5;
  };
  EXPECT_EQ(sync_wait(body(), stop.get_token()), 5);
}

TEST(Task, Continues_on_an_executor) {
  Loop loop;
  const auto body = [&]() -> Task<void> {
    const auto is_there = [&] { return std::this_thread::get_id() == loop.id(); };
    EXPECT_FALSE(is_there());
    co_await value(1).map([](int x) { return x; }).on(WithExecute{&loop});
    EXPECT_TRUE(is_there());
    co_await value(1).map([](int x) { return x; });
    const int made = co_await value(2).map([](int x) { return x; }).on(WithPost{&loop});
    EXPECT_EQ(made, 2);
    EXPECT_TRUE(is_there());
    Spawned<int> running = spawn(value(3).map([](int x) { return x; }));
    EXPECT_EQ(co_await std::move(running).on([&](auto f) { loop.post(f); }), 3);
    EXPECT_TRUE(is_there());
  };
  sync_wait(body());
}

TEST(Task, Continues_on_an_executor_even_without_waiting) {
  Loop loop;
  const auto body = [&]() -> Task<void> {
    EXPECT_EQ(co_await value(1).on(WithExecute{&loop}), 1);
    EXPECT_EQ(std::this_thread::get_id(), loop.id());
    co_await value(1).on(WithPost{&loop});
    EXPECT_EQ(std::this_thread::get_id(), loop.id());
  };
  for (int i = 0; i < 100; ++i) sync_wait(body());
}

TEST(Task, Rethrows_a_failure_on_the_executor) {
  Loop loop;
  const auto body = [&]() -> Task<void> {
    try {
      co_await value(1).map([](int) -> int { throw std::runtime_error("no luck"); }).on(WithExecute{&loop});
      ADD_FAILURE();
    } catch (const std::runtime_error&) {
      EXPECT_EQ(std::this_thread::get_id(), loop.id());
    }
  };
  sync_wait(body());
}

// A user-defined coroutine type, which can be destroyed.
struct Manual {
  struct promise_type {
    Manual get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> coroutine;
};

TEST(Task, Destroying_it_while_suspended_cancels_the_operation) {
  auto gate = std::make_shared<Gate>();
  const auto token = std::make_shared<int>(0);
  std::atomic<bool> has_gone_on = false;
  const auto body = [&](std::shared_ptr<int>) -> Manual {
    auto operation = value(1).map([gate](int x) { return gate->function()(x); }).map([&, token](int x) {
      has_gone_on = true;
      return x;
    });
    co_await std::move(operation);
    ADD_FAILURE() << "it was destroyed";
  };
  const Manual manual = body(token);
  gate->wait();
  manual.coroutine.destroy();
  gate->is_open = true;
  while (token.use_count() > 1) std::this_thread::yield();
  EXPECT_FALSE(has_gone_on);
}

TEST(Task, Can_be_destroyed_on_the_executor_before_it_continues) {
  for (int round = 0; round < 200; ++round) {
    Loop loop;
    std::coroutine_handle<> coroutine;
    bool has_gone_on = false;
    const auto body = [&]() -> Manual {
      co_await value(1).map([](int x) { return x; }).on(WithExecute{&loop});
      has_gone_on = true;
    };
    loop.run_there([&] {
      coroutine = body().coroutine;
      if (round % 2 == 0) std::this_thread::sleep_for(200us);  // so that the transfer has usually begun
      coroutine.destroy();
    });
    loop.run_there([] {});
    EXPECT_FALSE(has_gone_on);
  }
}

TEST(Task, Dropping_it_while_suspended_destroys_what_it_holds) {
  const auto gate = std::make_shared<Gate>();
  const auto token = std::make_shared<int>(0);
  const auto inner = [&](std::shared_ptr<int>) -> Task<int> {
    auto operation = value(1).map([gate](int x) { return gate->function()(x); });
    co_return co_await std::move(operation);
  };
  const auto outer = [&](std::shared_ptr<int> held) -> Manual { co_await inner(std::move(held)); };
  const Manual manual = outer(token);
  gate->wait();
  manual.coroutine.destroy();
  EXPECT_EQ(token.use_count(), 1);
  gate->is_open = true;
}

TEST(Task, Many_on_many_threads) {
  constexpr int threads = 8;
  constexpr int tasks = 50;
  const auto work = [](int x) -> Task<int> {
    const auto host = co_await full<float>({64}, static_cast<float>(x)).to_host();
    const int more = co_await value(x).map([](int y) { return y + 1; });
    Spawned<int> running = spawn(give(x));
    co_return static_cast<int>(host[3]) + more + co_await std::move(running);
  };
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      std::vector<Spawned<int>> running;
      for (int i = 0; i < tasks; ++i) {
        const int x = t * tasks + i;
        if (i % 5 == 0) {
          EXPECT_EQ(sync_wait(work(x)), 3 * x + 1);
        } else {
          running.push_back(spawn(work(x)));
        }
      }
      int i = 0;
      for (Spawned<int>& one : running) {
        while (i % 5 == 0) ++i;
        EXPECT_EQ(one.wait(), 3 * (t * tasks + i++) + 1);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

TEST(Task, A_stream_policy_can_distinguish_tasks) {
  struct Noting final : StreamPolicy {
    Stream stream_for(const Device& device, std::uint64_t task) override {
      const std::scoped_lock lock(mutex);
      tasks.push_back(task);
      return device.stream();
    }
    std::mutex mutex;
    std::vector<std::uint64_t> tasks;
  };
  const auto noting = std::make_shared<Noting>();
  set_stream_policy(noting);
  const auto inner = []() -> Task<void> { co_await ones<float>({4}); };
  const auto body = [&]() -> Task<void> {
    co_await ones<float>({4});
    co_await inner();  // a part of this task
  };
  sync_wait(body());
  sync_wait(body());
  ones<float>({4}).sync();
  set_stream_policy(nullptr);
  ASSERT_EQ(noting->tasks.size(), 5U);
  EXPECT_NE(noting->tasks[0], 0U);
  EXPECT_EQ(noting->tasks[0], noting->tasks[1]);
  EXPECT_NE(noting->tasks[0], noting->tasks[2]);
  EXPECT_EQ(noting->tasks[2], noting->tasks[3]);
  EXPECT_EQ(noting->tasks[4], 0U);
}

TEST(Task, Stream_policies_do_not_change_results) {
  const auto body = [](float x) -> Task<float> {
    float sum = 0;
    for (int i = 0; i < 20; ++i) sum += (co_await full<float>({100}, x).to_host())[7];
    co_return sum;
  };
  for (const auto& policy : {round_robin_streams(2), single_stream(), stream_per_task()}) {
    set_stream_policy(policy);
    std::vector<Spawned<float>> running;
    for (int i = 0; i < 100; ++i) running.push_back(spawn(body(static_cast<float>(i))));
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(running[static_cast<std::size_t>(i)].wait(), 20 * static_cast<float>(i));
    }
  }
  set_stream_policy(nullptr);
}

TEST(Task, Composes_with_operations) {
  auto [a, b, c] = zip(as_operation(give(1)), as_operation(depth(3)), ones<float>({2}).to_host()).sync();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 3);
  EXPECT_EQ(c, std::vector<float>(2, 1));
  std::vector<DeviceOperation<int>> all;
  for (int i = 0; i < 20; ++i) all.push_back(as_operation(depth(i)));
  const std::vector<int> depths = when_all(std::move(all)).sync();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(depths[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(as_operation(give(4)).then([](int x) { return as_operation(depth(x)); }).sync(), 4);
  as_operation(nothing()).sync();
  EXPECT_THROW(zip(as_operation(give(1)), as_operation(fail("no luck"))).sync(), std::runtime_error);
  expect_error(Errc::unsupported, "runs once", [] { as_operation(give(1)).retry(2).sync(); });
}

TEST(Task, Can_be_passed_to_when_any) {
  if (Device::best().info().compute_units < 2) GTEST_SKIP() << "one function waits for another";
  Gate gate;
  const auto slow = [&]() -> Task<int> {
    co_await value(1).map(gate.function()).map([](int x) { return x; });
    co_return 1;
  };
  const auto quick = [&]() -> Task<int> {
    co_await value(1).map([&](int) { gate.wait(); });
    gate.is_open = true;
    co_return 2;
  };
  std::vector<DeviceOperation<int>> either;
  either.push_back(as_operation(slow()));
  either.push_back(as_operation(quick()).map([](int x) { return x; }));
  const auto [index, result] = when_any(std::move(either)).sync();
  EXPECT_EQ(result, index == 0 ? 1 : 2);
}

// The task has finished and is destroyed when the operation fails: there is nothing left to stop.
TEST(Task, An_operation_may_fail_after_a_task_has_finished) {
  const auto failing = [] {
    return value(1).then([](int x) { return as_operation(depth(x)); }).map([](int) -> int {
      throw std::runtime_error("no luck");
    });
  };
  EXPECT_THROW(failing().sync(), std::runtime_error);
  EXPECT_THROW(spawn(failing()).wait(), std::runtime_error);
}

TEST(Task, A_timeout_stops_it) {
  Gate gate;
  const auto body = [&]() -> Task<int> {
    co_return co_await value(1).map(gate.function()).map([](int x) { return x; });
  };
  std::thread opener([&] {
    gate.wait();  // which it must reach in time
    std::this_thread::sleep_for(600ms);
    gate.is_open = true;
  });
  EXPECT_THROW(as_operation(body()).timeout(500ms).sync(), Error);
  opener.join();
}

}  // namespace
}  // namespace tessera
