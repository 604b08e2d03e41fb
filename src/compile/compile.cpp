#include "compile/compile.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/jit.hpp"
#include "compile/dump.hpp"
#include "compile/gpu/source.hpp"
#include "ir/interpret.hpp"

#include <atomic>
#include <mutex>
#include <utility>

namespace tessera::compile {

namespace {

// Looking for a compiler that is not there takes some 50 µs, interpreting a tiny tile 2.
constexpr unsigned runs_until_next_try = 64;

// A program that is interpreted tile by tile.
class Interpreted : public Compiled {
 public:
  explicit Interpreted(ir::Program program) : program_(std::move(program)) { tiling = choose_tiling(program_); }

  void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    interpret(program_, tiling, arguments, begin, end);
  }

 protected:
  const ir::Program program_;
};

// A program that is interpreted until there is a compiler, which it looks for now and then.
class InterpretedUntilCompiled final : public Interpreted {
 public:
  using Interpreted::Interpreted;

  void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    if (++runs_ % runs_until_next_try == 0) try_to_compile();
    const Compiled* code = ready_.load(std::memory_order_acquire);
    code ? code->run(arguments, begin, end) : Interpreted::run(arguments, begin, end);
  }

 private:
  void try_to_compile() const {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || code_) return;
    try {
      code_ = cpu::jit(program_, tiling, cpu::host());
    } catch (const Error&) {
      return;  // interpreting gives the same result
    }
    ready_.store(code_.get(), std::memory_order_release);
  }

  mutable std::atomic<unsigned> runs_{0};
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Compiled> code_;
  mutable std::atomic<const Compiled*> ready_{nullptr};
};

std::atomic<bool> all_interpreted{false};

}  // namespace

void interpret(const ir::Program& program, const Tiling& tiling, const Arguments& arguments, std::int64_t begin,
               std::int64_t end) {
  std::vector<std::int64_t> extents = tiling.extents;
  if (program.tile.empty()) {
    // Tiles at the edge are computed whole: for an output smaller than a tile, a tile of its size is cheaper.
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      if (arguments.dims[axis] <= extents[axis]) extents[axis] = 0;
    }
  }
  ir::interpret(program, {arguments.buffers, program.buffers.size()}, arguments.dims, arguments.scalars, extents, begin,
                end);
}

void set_interpreted(bool is_interpreted) noexcept { all_interpreted = is_interpreted; }

// The compiler as a list of its steps, each in a file of its own. TESSERA_DUMP shows what a step made (dump.hpp has the
// names). Two passes come earlier, because they decide what is compiled: a plan fuses the programs of its stages
// (passes/fuse.cpp), and the CPU's driver splits large reductions (passes/split_reduction.cpp).

std::shared_ptr<const Compiled> compile(const ir::Program& program) {
  if (all_interpreted) return std::make_shared<Interpreted>(program);
  dump_program(program);
  const Tiling tiling = choose_tiling(program);  // passes/tiling.cpp
  dump_tiles(program, tiling);
  dump_ranges(program);          // ir/ranges.cpp
  dump_values(program, tiling);  // passes/value_analysis.cpp
  // From the disk cache, or through LLVM: cpu/jit.cpp, cpu/llvm/plugin.cpp.
  if (auto code = cpu::jit(program, tiling, cpu::host())) return code;
  return std::make_shared<InterpretedUntilCompiled>(program);
}

gpu::Kernel gpu::compile(const ir::Program& program, const Target& target, Form form) {
  dump_program(program);
  Kernel kernel = print(program, target, form);  // gpu/printer.hpp
  if (kernel.points == 0) dump_tiles(program, kernel.tiling);
  dump_ranges(program);
  dump_values(program, kernel.tiling);
  if (dump_wants("gpu")) dump_show(program.name, "gpu", kernel.source);
  return kernel;
}

}  // namespace tessera::compile
