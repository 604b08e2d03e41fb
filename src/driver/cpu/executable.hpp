#pragma once

#include "compile/compile.hpp"
#include "driver/driver.hpp"
#include "ir/ir.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

namespace tessera::driver::cpu {

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
};

// A routine of the driver's own that does what the program's idiom says; null: there is none, it is compiled.
std::shared_ptr<const compile::Compiled> native(const ir::Program& program);

// How many programs were handed to the compiler in this process: for tests.
std::uint64_t compilations() noexcept;

}  // namespace tessera::driver::cpu
