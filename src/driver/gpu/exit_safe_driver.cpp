#include "driver/gpu/exit_safe_driver.hpp"

#include <tessera/error.hpp>

#include "core/process_end.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::driver::gpu {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Limit for work in flight when the process exits. A device that takes longer may hang.
constexpr auto longest_wait = 5s;

// Counts the threads inside the device's driver, and admits none once it is closed.
class Gate {
 public:
  bool enter() noexcept {
    ++inside_;
    if (!is_closed_) return true;
    leave();
    return false;
  }
  void leave() noexcept { --inside_; }

  bool close() noexcept { return !is_closed_.exchange(true); }
  void wait_until_empty(Clock::time_point until) const {
    while (inside_ != 0 && Clock::now() < until) std::this_thread::sleep_for(100us);
  }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> is_closed_{false};
};

core::FailurePtr process_ends(const DeviceInfo& info) {
  return core::make_failure(Errc::device_failure, core::text(full_name(info), ": the process is ending"));
}

// A thread's time inside the gate; false if the gate is closed.
class Pass {
 public:
  explicit Pass(Gate& gate) noexcept : gate_(gate.enter() ? &gate : nullptr) {}
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() {
    if (gate_) gate_->leave();
  }
  explicit operator bool() const noexcept { return gate_ != nullptr; }

 private:
  Gate* gate_;
};

class SafeRecording final : public Recording {
 public:
  SafeRecording(std::shared_ptr<Gate> gate, std::unique_ptr<Recording> below)
      : gate_(std::move(gate)), below_(std::move(below)) {}
  ~SafeRecording() override {
    const Pass pass(*gate_);
    if (pass) below_.reset();
    [[maybe_unused]] const auto* leaked = below_.release();
  }
  Recording& below() const noexcept { return *below_; }

 private:
  const std::shared_ptr<Gate> gate_;
  std::unique_ptr<Recording> below_;
};

class ExitSafeDriver;

// All drivers. Never destroyed, since that would happen during exit() too.
struct Open {
  std::mutex mutex;
  std::vector<ExitSafeDriver*> drivers;
  std::optional<Clock::time_point> end;

  // The deadline for everything that is waited for at exit.
  Clock::time_point until() {
    if (!end) end = Clock::now() + longest_wait;
    return *end;
  }

  static Open& instance() {
    static auto& open = *new Open();
    return open;
  }
};

void close_all() noexcept;
void drain_all() noexcept;

class ExitSafeDriver final : public Driver {
  template <class Work>
  auto inside(const Work& work) {
    const Pass pass(*gate_);
    if (!pass) throw Error(process_ends(info()));
    return work();
  }

 public:
  explicit ExitSafeDriver(std::unique_ptr<Driver> below) : below_(std::move(below)) {
    {
      const std::scoped_lock lock(Open::instance().mutex);
      Open::instance().drivers.push_back(this);
    }
    close_at_exit();
    core::before_handlers_of_exit(drain_all);
  }
  ExitSafeDriver(const ExitSafeDriver&) = delete;
  ExitSafeDriver& operator=(const ExitSafeDriver&) = delete;
  ~ExitSafeDriver() override {
    {
      const std::scoped_lock lock(Open::instance().mutex);
      std::erase(Open::instance().drivers, this);
    }
    const Pass pass(*gate_);
    if (pass) below_.reset();
    [[maybe_unused]] const auto* leaked = below_.release();
  }

  const DeviceInfo& info() const override { return below_->info(); }
  bool has_queue() const noexcept override { return below_->has_queue(); }
  const Executable& compile(const ir::Program& program) override { return below_->compile(program); }
  std::size_t most_buffers() const noexcept override { return below_->most_buffers(); }

  Block allocate(std::size_t bytes) override {
    return inside([&] { return below_->allocate(bytes); });
  }
  void deallocate(std::byte* address, std::size_t bytes) override {
    const Pass pass(*gate_);
    if (pass) below_->deallocate(address, bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    inside([&] { below_->upload(to, from); });
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    inside([&] { below_->download(to, from); });
  }
  void fill_zero(std::byte* to, std::size_t bytes) override {
    inside([&] { below_->fill_zero(to, bytes); });
  }
  std::byte* host_address(std::byte* address) override {
    return inside([&] { return below_->host_address(address); });
  }
  std::size_t trim() override {
    const Pass pass(*gate_);
    return pass ? below_->trim() : 0;
  }

  std::int64_t pieces(const Launch& launch) override {
    return inside([&] {
      const bool is_new = launch.executable && !launch.executable->is_ready();
      const Compiling compiling(is_new ? &compiling_ : nullptr);
      const std::int64_t pieces = below_->pieces(launch);
      // A compiler used for the first time may have registered atexit handlers: ours must run before them.
      if (is_new) close_at_exit();
      return pieces;
    });
  }
  void launch(const Launch& launch, std::int64_t piece) override {
    inside([&] { below_->launch(launch, piece); });
  }
  std::uint64_t start(std::span<const Launch> launches) override {
    return inside([&] { return note_started(below_->start(launches)); });
  }
  std::uint64_t start(Recording& recording) override {
    return inside([&] { return note_started(below_->start(static_cast<SafeRecording&>(recording).below())); });
  }
  std::unique_ptr<Recording> record(std::span<const Launch> launches) override {
    return inside([&] { return std::make_unique<SafeRecording>(gate_, below_->record(launches)); });
  }
  void prepare_to_record(std::span<const Launch> launches) override {
    const Pass pass(*gate_);
    if (pass) below_->prepare_to_record(launches);
  }
  Progress wait(std::uint64_t number, Clock::time_point until) override {
    const Pass pass(*gate_);
    return pass ? below_->wait(number, until) : Progress{0, process_ends(info())};
  }

  // Waits until nothing is being compiled and the queue is empty: some drivers recompile enqueued work on their own
  // threads. More work may arrive afterwards.
  void drain(Clock::time_point until) {
    std::uint64_t started = 0;
    do {
      gate_->wait_until_empty(std::min(until, Clock::now() + 1ms));  // threads about to start something
      while (compiling_ != 0 && Clock::now() < until) std::this_thread::sleep_for(100us);
      started = started_;
      below_->wait(started, until);
    } while ((started != started_ || compiling_ != 0) && Clock::now() < until);
  }
  // Afterwards the queue is empty, unless the device hangs.
  void close(Clock::time_point until) {
    if (!gate_->close()) return;
    gate_->wait_until_empty(std::min(until, Clock::now() + 1ms));  // threads about to start something
    below_->wait(started_, until);
    gate_->wait_until_empty(until);
  }

 private:
  // Counts a compilation during its lifetime; null: no compilation.
  struct Compiling {
    explicit Compiling(std::atomic<int>* count) : count_(count) {
      if (count_) ++*count_;
    }
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;
    ~Compiling() {
      if (count_) --*count_;
    }

   private:
    std::atomic<int>* count_;
  };

  // Threads may report numbers out of order.
  std::uint64_t note_started(std::uint64_t number) noexcept {
    std::uint64_t last = started_.load(std::memory_order_relaxed);
    while (last < number && !started_.compare_exchange_weak(last, number)) {
    }
    return number;
  }
  // Handlers run in reverse order of registration: this one before those of drivers loaded so far.
  static void close_at_exit() noexcept { std::atexit(close_all); }

  std::unique_ptr<Driver> below_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::atomic<std::uint64_t> started_{0};
  std::atomic<int> compiling_{0};
};

// A compiler used for the first time may be running, see core/process_end.hpp.
void drain_all() noexcept {
  Open& open = Open::instance();
  const std::scoped_lock lock(open.mutex);
  for (ExitSafeDriver* driver : open.drivers) driver->drain(open.until());
}

void close_all() noexcept {
  Open& open = Open::instance();
  const std::scoped_lock lock(open.mutex);
  for (ExitSafeDriver* driver : open.drivers) driver->close(open.until());
}

}  // namespace

std::unique_ptr<Driver> make_exit_safe_driver(std::unique_ptr<Driver> below) {
  return std::make_unique<ExitSafeDriver>(std::move(below));
}

}  // namespace tessera::driver::gpu
