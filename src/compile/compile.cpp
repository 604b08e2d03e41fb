#include "compile/compile.hpp"

#include "compile/cpu/jit.hpp"
#include "compile/dump.hpp"
#include "compile/gpu/source.hpp"
#include "ir/interpret.hpp"

#include <atomic>
#include <utility>

namespace tessera::compile {

namespace {

// A program that is interpreted tile by tile.
class Interpreted final : public Compiled {
 public:
  explicit Interpreted(ir::Program program) : program_(std::move(program)) { tiling = choose_tiling(program_); }

  void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    interpret(program_, tiling, arguments, begin, end);
  }

 private:
  const ir::Program program_;
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
  return std::make_shared<Interpreted>(program);
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
