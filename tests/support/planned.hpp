#pragma once

#include "ir/ir.hpp"
#include "kernels/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

// What a call of a kernel comes down to.
namespace tessera::test {

struct Planned {
  kernels::Lowering plan;
  ir::Program program;
};

inline Planned planned(const kernels::Kernel& kernel, const std::vector<kernels::Operand>& inputs,
                       const kernels::Operand& output, const Params& params) {
  kernels::Arguments arguments;
  kernel.bind(params, arguments);
  const kernels::Call call{kernel, inputs, output, arguments};
  kernels::Lowering plan = kernel.lower(call);
  // The extents that the program may know: those of 1, and what the plan fixes.
  std::vector<std::vector<std::int64_t>> dims;
  for (const Shape& shape : plan.shapes) {
    std::vector<std::int64_t>& known = dims.emplace_back();
    for (const std::int64_t extent : shape) known.push_back(extent == 1 ? 1 : -1);
  }
  for (const auto& [buffer, axis] : plan.fixed) {
    dims[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)] =
        plan.shapes[static_cast<std::size_t>(buffer)][axis];
  }
  ir::Program program = kernels::trace(call, plan, dims);
  return {std::move(plan), std::move(program)};
}

}  // namespace tessera::test
