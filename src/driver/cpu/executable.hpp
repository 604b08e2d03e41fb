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

// A piece moves about 256 KiB, half of a core's L2 cache: about 20 µs, well above the 1 µs it costs to hand it to
// another worker, and short enough that a cancelled command stops soon.
inline constexpr std::int64_t piece_bytes = std::int64_t{256} << 10;

// A program and, once it has been needed, its machine code.
class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(ir::Program program);

  const ir::Program& program() const noexcept { return program_; }
  // The code, compiled on first use. Threads that call meanwhile wait and share the result, including an Error; the
  // next call after an Error tries again.
  const compile::Compiled& code() {
    const compile::Compiled* code = ready_.load(std::memory_order_acquire);
    return code ? *code : compiled();
  }

  // Outputs of up to this many elements are a single tile, whatever their shape. Valid once the code is ready.
  std::int64_t one_tile() const noexcept { return one_tile_; }
  // Whether each tile of the code is a piece already. Valid once the code is ready.
  bool is_cut() const noexcept { return ready_.load(std::memory_order_acquire)->is_cut(); }

  // Null for programs that cannot be split.
  SplitReduction* split_reduction();

  // Cost per byte: 1 for plain arithmetic.
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
  std::once_flag split_once_;
  std::unique_ptr<SplitReduction> split_reduction_;
};

// A hand-written routine for the program's idiom (matmul, conv2d); null if there is none and it must be compiled.
std::shared_ptr<const compile::Compiled> native(const ir::Program& program);

// Number of programs handed to the compiler in this process. For tests.
std::uint64_t compilations() noexcept;

}  // namespace tessera::driver::cpu
