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

// Up to this many bytes, the data of a launch stays in the private caches of the cores until the next launch.
inline constexpr std::int64_t kept_bytes = std::int64_t{4} << 20;

// The best order in which to start the pieces of a launch.
enum class PieceOrder : std::uint8_t {
  back_and_forth,  // each thread starts with the data it used last; pieces share nothing
  forwards,        // each thread continues with the next piece, which the hardware prefetches
  one_by_one,      // all threads stay close together, since neighbouring pieces share input
};

// A program that the device can run. Drivers derive from it.
class Executable {
 public:
  // Whether pieces() and launch() will not have to compile. May become false again: code that was not used for long is
  // unloaded.
  bool is_ready() const noexcept { return is_ready_.load(std::memory_order_acquire); }
  // Valid once it is ready.
  PieceOrder piece_order() const noexcept { return piece_order_.load(std::memory_order_relaxed); }

 protected:
  Executable() = default;
  ~Executable() = default;
  void set_ready(PieceOrder order = PieceOrder::back_and_forth) noexcept {
    piece_order_.store(order, std::memory_order_relaxed);
    is_ready_.store(true, std::memory_order_release);
  }
  std::atomic<bool>& readiness() noexcept { return is_ready_; }

 private:
  std::atomic<bool> is_ready_{false};
  std::atomic<PieceOrder> piece_order_{PieceOrder::back_and_forth};
};

// One call of an executable: device addresses, extents, and the bits of scalars. Usual calls need no allocation.
struct Launch {
  const Executable* executable = nullptr;
  core::InlineVector<std::byte*, 4> buffers;     // the output, then the inputs
  core::InlineVector<std::int64_t, 4> dims;      // of all buffers in turn, as the program sees them
  core::InlineVector<std::uint64_t, 2> scalars;  // bits of a double for float types, of an s64 for integer types
  std::int64_t elements = 0;                     // of the output
  std::int64_t bytes = 0;                        // read and written
  std::int64_t cost = 0;                         // estimated: see ir::cost
  std::uint64_t command = 0;                     // the command's id, for messages
  std::byte* partial = nullptr;                  // memory for partial results, see Driver::partial_bytes
};

// A sequence of launches, prepared to be started many times.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The progress of a device's queue: everything up to number `ended` has finished. If the device is lost, `failure` is
// set and nothing else will ever finish.
struct Progress {
  std::uint64_t ended = 0;
  core::FailurePtr failure = nullptr;
};

// Everything the runtime needs from a device. Any thread may call any member at any time. Drivers do not order work:
// the runtime launches a command once those before it have finished.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceInfo& info() const = 0;

  // Memory. Blocks are aligned to 64 bytes.
  struct Block {
    std::byte* address = nullptr;  // null: out of memory for now; freeing other blocks may help
    bool is_zero = false;          // whether it is known to contain zeros
  };
  virtual Block allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* address, std::size_t bytes) = 0;
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void fill_zero(std::byte* to, std::size_t bytes) = 0;
  // The address at which the host can access the block; null if it cannot.
  virtual std::byte* host_address(std::byte* address) = 0;
  // The device's address of memory of the host's, 64-byte aligned, that commands can use in place; null if they cannot.
  virtual std::byte* address_of_host(std::byte* /*memory*/) { return nullptr; }
  // Releases memory that the driver caches; returns the number of bytes.
  virtual std::size_t trim() { return 0; }

  // Work. compile() returns at once; the first thread that calls pieces() or launch() does the compiling, and others
  // that need the code wait there. Equal programs share an executable, which lives as long as the driver. Throws
  // Errc::unsupported if the device cannot run the program.
  virtual const Executable& compile(const ir::Program& program) = 0;
  // Programs with up to this many buffers are never refused for their number.
  virtual std::size_t most_buffers() const noexcept { return ~std::size_t{0}; }
  // The number of pieces that the work is split into, at least one. Pieces may run in any order and in parallel. Throws
  // Error if the program cannot be compiled; the next call tries again.
  virtual std::int64_t pieces(const Launch& launch) = 0;
  // Runs one piece on the calling thread. Throws as pieces() does, and if the device fails.
  virtual void launch(const Launch& launch, std::int64_t piece) = 0;
  // Long reductions run in two steps: pieces write partial results to host memory, then finish() combines them. Returns
  // the bytes needed for partial results; 0 if the launch is not such a reduction. Call it before pieces(); if it is
  // not 0, set launch.partial and call finish() after all pieces. May compile, and throws, like pieces().
  virtual std::size_t partial_bytes(const Launch&) { return 0; }
  virtual void finish(const Launch&) {}

  // A device that runs work by itself has a queue: the runtime then starts launches instead of running their pieces.
  virtual bool has_queue() const noexcept { return false; }
  // Enqueues launches, each after those before it, and returns their number. Blocks only to compile. Throws Error if
  // one cannot be compiled or the device is lost; nothing has been started then.
  virtual std::uint64_t start(std::span<const Launch> launches);
  virtual std::unique_ptr<Recording> record(std::span<const Launch> launches);
  // Optimises launches that will be recorded and started many times. May take long.
  virtual void prepare_to_record(std::span<const Launch> launches);
  // The previous start of this recording must have finished.
  virtual std::uint64_t start(Recording& recording);
  // Blocks until `number` has finished, the device is lost, or `until`.
  virtual Progress wait(std::uint64_t number, std::chrono::steady_clock::time_point until);
};

// The devices of all backends, the CPU first. A backend may have several: "vulkan", "vulkan:1".
std::vector<DeviceInfo> list_devices();
// The driver of a device named by list_devices(); null if there is none. Throws if the device cannot be opened.
std::unique_ptr<Driver> open_driver(std::string_view backend);
// The name in list_devices(): "vulkan" for "vulkan:0". Returns other text unchanged.
std::string usual_name(std::string_view backend);
// For messages: "llvmpipe (vulkan)", since several backends may offer the same device.
std::string full_name(const DeviceInfo& info);

std::unique_ptr<Driver> make_cpu_driver();
std::unique_ptr<Driver> make_simulated_driver(std::unique_ptr<Driver> below, const SimulationOptions& options);

}  // namespace tessera::driver
