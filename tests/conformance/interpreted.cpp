#include "conformance/interpreted.hpp"

#include "compile/compile.hpp"
#include "ir/interpret.hpp"
#include "kernels/kernel.hpp"
#include "support/planned.hpp"

#include <bit>

namespace tessera::conformance {

namespace {

// Small and odd, so that nothing fits; not so small that a long axis takes long.
std::vector<std::int64_t> odd_tiles(const ir::Program& program, const Shape& output) {
  static constexpr std::int64_t small[] = {3, 7, 5};
  std::vector<std::int64_t> extents = compile::choose_tiling(program).extents;
  if (!program.tile.empty()) return extents;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (extents[axis] != 0) extents[axis] = output[static_cast<int>(axis)] > 1000 ? 331 : small[axis % 3];
  }
  return extents;
}

}  // namespace

Tensor interpreted(const Case& of, const Call& call) {
  std::vector<kernels::Operand> inputs;
  for (const Tensor& input : call.inputs) inputs.push_back({input.dtype, &input.shape});
  const auto [plan, program] = test::planned(kernels::find(of.kernel), inputs, {call.dtype, &call.shape}, of.params);

  Tensor result(call.dtype, call.shape);
  std::vector<Tensor> copies = call.inputs;
  std::vector<std::byte*> buffers = {result.bytes.data()};
  for (Tensor& copy : copies) buffers.push_back(copy.bytes.data());
  std::vector<std::int64_t> dims;
  for (const Shape& shape : plan.shapes) dims.insert(dims.end(), shape.begin(), shape.end());
  std::vector<std::uint64_t> scalars;
  for (const kernels::Lowering::Scalar& scalar : plan.scalars) {
    scalars.push_back(is_float(scalar.dtype) ? std::bit_cast<std::uint64_t>(scalar.value.number)
                                             : static_cast<std::uint64_t>(scalar.value.integer));
  }
  const compile::Tiling tiling{odd_tiles(program, plan.shapes[0])};
  ir::interpret(program, buffers, dims.data(), scalars.data(), tiling.extents, 0,
                tiling.tiles({plan.shapes[0].begin(), plan.shapes[0].end()}));
  return result;
}

}  // namespace tessera::conformance
