#include "compile/compile.hpp"

#include "compile/cpu/jit.hpp"
#include "ir/interpret.hpp"

#include <atomic>
#include <utility>

namespace tessera::compile {

namespace {

// The program as it is, interpreted tile by tile.
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
    // Tiles at the edge are computed whole: an output smaller than a tile is cheaper as one of its own size.
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      if (arguments.dims[axis] <= extents[axis]) extents[axis] = 0;
    }
  }
  ir::interpret(program, {arguments.buffers, program.buffers.size()}, arguments.dims, arguments.scalars, extents, begin,
                end);
}

void set_interpreted(bool is_interpreted) noexcept { all_interpreted = is_interpreted; }

std::shared_ptr<const Compiled> compile(const ir::Program& program) {
  if (!all_interpreted) {
    if (auto compiled = jit(program, choose_tiling(program), host())) return compiled;
  }
  return std::make_shared<Interpreted>(program);
}

}  // namespace tessera::compile
