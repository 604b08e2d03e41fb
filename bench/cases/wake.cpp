#include "cases/tiny.hpp"

#include <atomic>
#include <cstdint>
#include <linux/futex.h>
#include <memory>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace bench {

namespace {

// Just too large to run on the submitting thread: 8.8 KiB read and written.
constexpr std::size_t elements = 1100;

struct Ours {
  tessera::Buffer input = device().zeros({elements});
  tessera::Buffer output = device().zeros({elements});
};

// A thread that sleeps on a futex until it gets work.
class Sleeper {
 public:
  Sleeper() : thread_([this] { serve(); }) {}
  ~Sleeper() {
    hand_over(stop);
    thread_.join();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void wake() {
    hand_over(work);
    while (word_.load(std::memory_order_acquire) != nothing) continue;
  }

 private:
  enum : std::uint32_t { nothing, work, stop };

  void hand_over(std::uint32_t what) {
    word_.store(what, std::memory_order_release);
    futex(FUTEX_WAKE_PRIVATE, 1);
  }
  void serve() {
    while (true) {
      while (word_.load(std::memory_order_acquire) == nothing) futex(FUTEX_WAIT_PRIVATE, nothing);
      if (word_.load(std::memory_order_acquire) == stop) return;
      word_.store(nothing, std::memory_order_release);
    }
  }
  void futex(int operation, std::uint32_t value) { syscall(SYS_futex, &word_, operation, value, nullptr, nullptr, 0); }

  std::atomic<std::uint32_t> word_{nothing};
  std::thread thread_;
};

}  // namespace

// The harness pauses before each round, which puts the workers to sleep. Both sides are timed by the submitting thread,
// which spins: wait() would run the command itself.
Sides wake() {
  return {
      [ours = std::make_shared<Ours>()] {
        return nanoseconds([&] {
                 const tessera::Command command = submit(Kernel::scale, ours->input, ours->output);
                 while (!tessera::is_terminal(command.poll())) continue;
               }) /
               1000;
      },
      [rival = std::make_shared<Sleeper>()] { return nanoseconds([&] { rival->wake(); }) / 1000; },
  };
}

}  // namespace bench
