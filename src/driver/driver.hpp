#pragma once

#include <tessera/device_info.hpp>
#include <tessera/simulation.hpp>

#include "core/failure.hpp"
#include "core/inline_vector.hpp"
#include "ir/ir.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::driver {

// Of a launch that reads and writes so much, cores keep what they need in caches of their own until the next one comes.
inline constexpr std::int64_t kept_bytes = std::int64_t{4} << 20;

// In which order the pieces of a launch are best begun.
enum class PieceOrder : std::uint8_t {
  back_and_forth,  // each thread begins with what it used last: they share nothing
  forwards,        // each thread goes on to the next one, which is asked for ahead
  one_by_one,      // all threads are close together, since neighbours share what they read
};

// A program that the device can run; what it holds is the driver's own business.
class Executable {
 public:
  // Whether pieces() and launch() need not wait for a compiler.
  bool is_ready() const noexcept { return is_ready_.load(std::memory_order_acquire); }
  // Once it is ready.
  PieceOrder piece_order() const noexcept { return piece_order_.load(std::memory_order_relaxed); }

 protected:
  Executable() = default;
  ~Executable() = default;
  void set_ready(PieceOrder order = PieceOrder::back_and_forth) noexcept {
    piece_order_.store(order, std::memory_order_relaxed);
    is_ready_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> is_ready_{false};
  std::atomic<PieceOrder> piece_order_{PieceOrder::back_and_forth};
};

// One call of an executable: addresses in the device's memory, extents, and the scalars' bits. What most calls have
// needs no allocation.
struct Launch {
  const Executable* executable = nullptr;
  core::InlineVector<std::byte*, 4> buffers;     // the output, then the inputs
  core::InlineVector<std::int64_t, 4> dims;      // of all buffers, one after the other, as the program sees them
  core::InlineVector<std::uint64_t, 2> scalars;  // the bits of a double for a float, else of an s64
  std::int64_t elements = 0;                     // of the output
  std::int64_t bytes = 0;                        // read and written
  std::uint64_t command = 0;                     // the command's id, for messages
  std::byte* partial = nullptr;                  // memory for partial results, see Driver::partial_bytes
};

// Launches that are started together, each after those before it, made ready to be started many times.
class Recording {
 public:
  virtual ~Recording() = default;
};

// How far the queue of a device is: all that was started up to number `ended` is over. If the device is lost, `failure`
// says so, and nothing else will ever end.
struct Progress {
  std::uint64_t ended = 0;
  core::FailurePtr failure = nullptr;
};

// What the runtime needs of a device, all of it. Every member may be called from any thread at any time. Nothing here
// orders anything: the runtime launches a command when those before it have ended.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceInfo& info() const = 0;

  // Memory. Blocks come aligned to 64 bytes.
  struct Block {
    std::byte* address = nullptr;  // null: the device has no more; it may have when others are given back
    bool is_zero = false;          // whether its contents are known to be zeros
  };
  virtual Block allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* address, std::size_t bytes) = 0;
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void fill_zero(std::byte* to, std::size_t bytes) = 0;
  // Where the host can address the block directly; null where it cannot.
  virtual std::byte* host_address(std::byte* address) = 0;
  // Gives back memory that the driver keeps for itself without need, and says how many bytes.
  virtual std::size_t trim() { return 0; }

  // Work. compile returns at once: what takes time is done by the first thread that calls pieces() or launch(), while
  // others that need it too wait there. The same program gives the same executable, which lives as long as the driver.
  // Errc::unsupported if the device cannot run such a program.
  virtual const Executable& compile(const ir::Program& program) = 0;
  // A program that uses no more buffers than this is never refused for their number.
  virtual std::size_t most_buffers() const noexcept { return ~std::size_t{0}; }
  // Into how many pieces the work can be cut, at least one; pieces run in any order, at the same time. Throws Error if
  // the program cannot be compiled; the next call tries again.
  virtual std::int64_t pieces(const Launch& launch) = 0;
  // Does one piece on the calling thread. Throws Error as pieces() does, and if the device fails.
  virtual void launch(const Launch& launch, std::int64_t piece) = 0;
  // A launch may be worth doing in another way, whose pieces leave partial results in the host's memory and whose
  // output is made of them in the end. How many bytes they take; 0: it is not. Asked before pieces(). Who gives the
  // launch that memory, as `partial`, calls finish() when all pieces are done. May compile, and throws, as pieces()
  // does.
  virtual std::size_t partial_bytes(const Launch&) { return 0; }
  virtual void finish(const Launch&) {}

  // A device that works by itself has a queue: then the runtime starts launches instead of doing pieces of them.
  virtual bool has_queue() const noexcept { return false; }
  // Puts launches into the queue, each after those before it, and returns their number at once, unless one has to be
  // compiled first. Throws Error if one cannot be compiled or the device is lost; nothing has been started then.
  virtual std::uint64_t start(std::span<const Launch> launches);
  virtual std::unique_ptr<Recording> record(std::span<const Launch> launches);
  // Makes ready what record() would gain from for launches that are started again and again. May take long.
  virtual void prepare_to_record(std::span<const Launch> launches);
  // What a recording was started for before must be over.
  virtual std::uint64_t start(Recording& recording);
  // Returns when `number` is over or the device is lost, at the latest at `until`.
  virtual Progress wait(std::uint64_t number, std::chrono::steady_clock::time_point until);
};

// What there is: the devices of all backends, the CPU first. A backend may have several: "vulkan", "vulkan:1".
std::vector<DeviceInfo> list_devices();
// The driver of a device that list_devices() names; null if there is none of that name. Throws what is wrong with it.
std::unique_ptr<Driver> open_driver(std::string_view backend);
// How list_devices() would name it: "vulkan" for "vulkan:0". What cannot be a device's stays as it is.
std::string usual_name(std::string_view backend);
// For messages: "llvmpipe (vulkan)", since a device may be there for several backends.
std::string full_name(const DeviceInfo& info);

std::unique_ptr<Driver> make_cpu_driver();
std::unique_ptr<Driver> make_simulated_driver(std::unique_ptr<Driver> below, const SimulationOptions& options);

}  // namespace tessera::driver
