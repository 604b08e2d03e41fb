#include "compile/dump.hpp"
#include "compile/passes/fuse.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <utility>

namespace tessera::compile {

using ir::Border;
using ir::Builder;
using ir::Code;
using ir::Extents;
using ir::Id;
using ir::Op;
using ir::Program;

namespace {

// Copies a buffer of a type and rank. Nothing reads outside of it, so it has the cheapest border: clamp.
Program copy_program(ir::Type type, int rank) {
  const std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), -1);
  Builder make("copy", {{"z", type, dims}, {"x", type, dims}}, {});
  std::vector<Id> indices;
  const Extents tile = make.tile_shape();
  for (int axis = 0; axis < rank; ++axis) {
    Extents shape(static_cast<std::size_t>(rank - axis), make.index(1));
    shape.front() = tile[static_cast<std::size_t>(axis)];
    indices.push_back(make.binary(Code::add, make.origin(axis), make.iota(shape, 0)));
    make.same_extent({1, axis, axis});
  }
  const Id loaded = make.load(1, indices, Border::clamp);
  return std::move(make).store(loaded);
}

}  // namespace

void deinterleave_inputs(Program& program) {
  constexpr std::ptrdiff_t few = 4;  // with so few loads, separating the elements at each of them is no more work
  for (int buffer = 1; buffer < static_cast<int>(program.buffers.size()); ++buffer) {
    const auto is_load = [&](const Op& op) { return op.code == Code::load && op.index == buffer; };
    const ir::Buffer& of = program.buffers[static_cast<std::size_t>(buffer)];
    if (of.rank() == 0 || std::ranges::count_if(program.ops, is_load) <= few) continue;
    const Program copy = copy_program(of.type, of.rank());
    Fused fused = fuse(program, buffer, copy, std::vector{buffer});
    if (!fused.program || !fused.skips) continue;
    fused.program->name = program.name;
    program = std::move(*fused.program);
  }
  dump_program(program, "deinterleave");
}

}  // namespace tessera::compile
