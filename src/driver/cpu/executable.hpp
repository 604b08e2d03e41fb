#pragma once

#include "compile/compile.hpp"
#include "driver/cpu/split_reduction.hpp"
#include "driver/driver.hpp"
#include "ir/ir.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

namespace tessera::driver::cpu {

// A piece moves about 256 KiB, half of a core's L2 cache: some 20 µs, well above the 1 µs that handing it to another
// worker costs, and small enough that a cancelled command ends soon.
inline constexpr std::int64_t piece_bytes = std::int64_t{256} << 10;

// A program, and its code once it was needed.
class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(ir::Program program);

  const ir::Program& program() const noexcept { return program_; }
  // The code. The first thread compiles; those that come meanwhile wait for it and share what comes of it, also an
  // Error. After an Error the next one tries again.
  const compile::Compiled& code() {
    const compile::Compiled* code = ready_.load(std::memory_order_acquire);
    return code ? *code : compiled();
  }

  // An output of so many elements is one tile, whatever its shape; once it is ready.
  std::int64_t one_tile() const noexcept { return one_tile_; }
  // Whether the code's tiles are pieces already; once it is ready.
  bool is_cut() const noexcept { return ready_.load(std::memory_order_acquire)->is_cut(); }

  // How it is done in parts of an axis; null where it cannot be.
  Parts* parts();

  // What a byte costs: 1 for plain arithmetic.
  int weight() const noexcept { return weight_; }

 private:
  const compile::Compiled& compiled();

  const ir::Program program_;
  const int weight_;
  std::int64_t one_tile_ = 0;
  std::atomic<const compile::Compiled*> ready_{nullptr};
  std::atomic<std::uint64_t> failures_{0};
  std::mutex mutex_;
  std::shared_ptr<const compile::Compiled> code_;
  std::exception_ptr error_;  // of the last attempt
  std::once_flag is_looked_at_;
  std::unique_ptr<Parts> parts_;
};

// A routine of the driver's own that does what the program's idiom says; null: there is none, it is compiled.
std::shared_ptr<const compile::Compiled> native(const ir::Program& program);

// How many programs were handed to the compiler in this process: for tests.
std::uint64_t compilations() noexcept;

}  // namespace tessera::driver::cpu
