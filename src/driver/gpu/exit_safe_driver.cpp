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

// For what is under way when the process ends. A device that takes longer may be one that hangs.
constexpr auto longest_wait = 5s;

// Counts who is inside of the device's driver, and lets nobody in any more once it is closed.
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

// Somebody's stay inside; empty if the gate is closed.
class Stay {
 public:
  explicit Stay(Gate& gate) noexcept : gate_(gate.enter() ? &gate : nullptr) {}
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  ~Stay() {
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
    const Stay stay(*gate_);
    if (stay) below_.reset();
    [[maybe_unused]] const auto* left_alone = below_.release();
  }
  Recording& below() const noexcept { return *below_; }

 private:
  const std::shared_ptr<Gate> gate_;
  std::unique_ptr<Recording> below_;
};

class ExitSafeDriver;

// Those that there are. Never destroyed, since exit() would do that too.
struct Open {
  std::mutex mutex;
  std::vector<ExitSafeDriver*> drivers;
  std::optional<Clock::time_point> end;

  // Until when all that is waited for at exit may take.
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
    const Stay stay(*gate_);
    if (!stay) throw Error(process_ends(info()));
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
    const Stay stay(*gate_);
    if (stay) below_.reset();
    [[maybe_unused]] const auto* left_alone = below_.release();
  }

  const DeviceInfo& info() const override { return below_->info(); }
  bool has_queue() const noexcept override { return below_->has_queue(); }
  const Executable& compile(const ir::Program& program) override { return below_->compile(program); }
  std::size_t most_buffers() const noexcept override { return below_->most_buffers(); }

  Block allocate(std::size_t bytes) override {
    return inside([&] { return below_->allocate(bytes); });
  }
  void deallocate(std::byte* address, std::size_t bytes) override {
    const Stay stay(*gate_);
    if (stay) below_->deallocate(address, bytes);
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
    const Stay stay(*gate_);
    return stay ? below_->trim() : 0;
  }

  std::int64_t pieces(const Launch& launch) override {
    return inside([&] {
      const bool is_new = launch.executable && !launch.executable->is_ready();
      const Compiling compiling(is_new ? &compiling_ : nullptr);
      const std::int64_t pieces = below_->pieces(launch);
      // A compiler that was not needed before may have handlers of its own from now on: ours must be called first.
      if (is_new) close_at_exit();
      return pieces;
    });
  }
  void launch(const Launch& launch, std::int64_t piece) override {
    inside([&] { below_->launch(launch, piece); });
  }
  std::uint64_t start(std::span<const Launch> launches) override {
    return inside([&] { return noted(below_->start(launches)); });
  }
  std::uint64_t start(Recording& recording) override {
    return inside([&] { return noted(below_->start(static_cast<SafeRecording&>(recording).below())); });
  }
  std::unique_ptr<Recording> record(std::span<const Launch> launches) override {
    return inside([&] { return std::make_unique<SafeRecording>(gate_, below_->record(launches)); });
  }
  void prepare_to_record(std::span<const Launch> launches) override {
    const Stay stay(*gate_);
    if (stay) below_->prepare_to_record(launches);
  }
  Progress wait(std::uint64_t number, Clock::time_point until) override {
    const Stay stay(*gate_);
    return stay ? below_->wait(number, until) : Progress{0, process_ends(info())};
  }

  // Waits until nobody compiles and the queue is empty: some drivers compile again, in threads of their own, what has
  // been put into the queue. More may come then.
  void drain(Clock::time_point until) {
    std::uint64_t started = 0;
    do {
      gate_->wait_until_empty(std::min(until, Clock::now() + 1ms));  // who is just about to start something
      while (compiling_ != 0 && Clock::now() < until) std::this_thread::sleep_for(100us);
      started = started_;
      below_->wait(started, until);
    } while ((started != started_ || compiling_ != 0) && Clock::now() < until);
  }
  // The queue is empty then, unless the device hangs.
  void close(Clock::time_point until) {
    if (!gate_->close()) return;
    gate_->wait_until_empty(std::min(until, Clock::now() + 1ms));  // who is just about to start something
    below_->wait(started_, until);
    gate_->wait_until_empty(until);
  }

 private:
  // While it lives, a kernel is compiled; null: none is.
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

  // Numbers may be told in another order than they were given in.
  std::uint64_t noted(std::uint64_t number) noexcept {
    std::uint64_t last = started_.load(std::memory_order_relaxed);
    while (last < number && !started_.compare_exchange_weak(last, number)) {
    }
    return number;
  }
  // What is registered last is called first: before the handlers of a driver that has been loaded.
  static void close_at_exit() noexcept { std::atexit(close_all); }

  std::unique_ptr<Driver> below_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::atomic<std::uint64_t> started_{0};
  std::atomic<int> compiling_{0};
};

// A compiler that was not needed before may be at work, see core/process_end.hpp.
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
