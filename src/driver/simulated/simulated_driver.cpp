#include <tessera/error.hpp>

#include "core/random.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tessera::driver {

namespace {

using core::text;

// Wraps another driver: injects faults, and refuses concurrent launches that conflict over a buffer.
class SimulatedDriver final : public Driver {
 public:
  SimulatedDriver(std::unique_ptr<Driver> below, const SimulationOptions& options)
      : below_(std::move(below)), options_(options), info_(below_->info()) {
    info_.name = text("simulated ", info_.name);
    info_.backend = "simulated";
    info_.compute_units = std::max(1U, options.workers);
  }

  const DeviceInfo& info() const override { return info_; }

  Block allocate(std::size_t bytes) override {
    if (++allocations_ == options_.out_of_memory_at_allocation) {
      throw Error(Errc::out_of_memory, text("injected out-of-memory: ", bytes, " bytes requested"));
    }
    return below_->allocate(bytes);
  }
  void deallocate(std::byte* address, std::size_t bytes) override { below_->deallocate(address, bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { below_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { below_->download(to, from); }
  void fill_zero(std::byte* to, std::size_t bytes) override { below_->fill_zero(to, bytes); }
  std::byte* host_address(std::byte* address) override { return below_->host_address(address); }
  std::byte* address_of_host(std::byte* memory) override { return below_->address_of_host(memory); }
  std::size_t trim() override { return below_->trim(); }

  const Executable& compile(const ir::Program& program) override { return below_->compile(program); }
  std::size_t most_buffers() const noexcept override { return below_->most_buffers(); }
  std::int64_t pieces(const Launch& launch) override { return below_->pieces(launch); }

  void launch(const Launch& launch, std::int64_t piece) override {
    const Access access(*this, launch);
    if (piece == 0) inject(launch);
    below_->launch(launch, piece);
  }
  std::size_t partial_bytes(const Launch& launch) override { return below_->partial_bytes(launch); }
  void finish(const Launch& launch) override {
    const Access access(*this, launch);
    below_->finish(launch);
  }

 private:
  // The current users of a block of memory. Pieces of one command may use it together.
  struct Users {
    std::uint64_t writer = 0;
    unsigned writing = 0;
    unsigned reading = 0;  // pieces of commands that only read
  };

  class Access {
   public:
    Access(SimulatedDriver& driver, const Launch& launch) : driver_(driver), launch_(launch) {
      const std::scoped_lock lock(driver_.mutex_);
      const auto current = driver_.users_.find(output());
      if (current != driver_.users_.end()) {
        const Users& others = current->second;
        if (others.reading != 0 || (others.writing != 0 && others.writer != launch.command)) refuse("writes");
      }
      for (const std::byte* address : inputs()) {
        const auto input = driver_.users_.find(address);
        if (input == driver_.users_.end()) continue;
        if (input->second.writing != 0 && input->second.writer != launch.command) refuse("reads");
      }
      Users& mine = driver_.users_[output()];
      mine.writer = launch.command;
      ++mine.writing;
      for (const std::byte* address : inputs()) {
        if (address != output()) ++driver_.users_[address].reading;
      }
    }
    ~Access() {
      const std::scoped_lock lock(driver_.mutex_);
      --driver_.users_[output()].writing;
      for (const std::byte* address : inputs()) {
        if (address != output()) --driver_.users_[address].reading;
      }
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    const std::byte* output() const { return launch_.buffers[0]; }
    std::span<std::byte* const> inputs() const { return {launch_.buffers.begin() + 1, launch_.buffers.end()}; }
    [[noreturn]] void refuse(const char* what) const {
      throw Error(Errc::internal,
                  text("command ", launch_.command, " ", what, " a buffer that another command is using"));
    }
    SimulatedDriver& driver_;
    const Launch& launch_;
  };

  void inject(const Launch& launch) const {
    for (const InjectedFault& fault : options_.faults) {
      if (fault.command != launch.command) continue;
      switch (fault.kind) {
        case InjectedFault::Kind::fail:
          throw Error(Errc::device_failure, "injected failure");
        case InjectedFault::Kind::out_of_memory:
          throw Error(Errc::out_of_memory, "injected out-of-memory");
        case InjectedFault::Kind::delay:
          std::this_thread::sleep_for(fault.delay);
          break;
      }
    }
    // Depends on the seed and the command alone, so that execution order cannot change which commands fail.
    if (options_.fail_rate > 0 &&
        core::Random(options_.seed ^ (launch.command * 0x9e3779b97f4a7c15U)).fraction() < options_.fail_rate) {
      throw Error(Errc::device_failure, "injected random failure");
    }
  }

  std::unique_ptr<Driver> below_;
  SimulationOptions options_;
  DeviceInfo info_;
  std::atomic<std::uint64_t> allocations_{0};
  std::mutex mutex_;
  std::unordered_map<const std::byte*, Users> users_;
};

}  // namespace

std::unique_ptr<Driver> make_simulated_driver(std::unique_ptr<Driver> below, const SimulationOptions& options) {
  return std::make_unique<SimulatedDriver>(std::move(below), options);
}

}  // namespace tessera::driver
