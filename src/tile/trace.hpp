#pragma once

#include <tessera/tile.hpp>

#include "ir/ir.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tile {

// Records the program that the body writes in the tile language, by running it on this thread. Traces may nest.
// Buffer 0 is the output, buffer i + 1 is Input(i). Throws Errc::invalid_kernel.
ir::Program trace(std::string_view name, std::vector<ir::Buffer> buffers, std::vector<ir::Scalar> scalars,
                  const std::function<void()>& body, std::vector<std::int64_t> tile = {});

// Input::at where each axis consists of groups of `steps` elements and the border rule applies to groups.
Tile at_steps(const Input& x, const Indices& indices, Border border, const std::vector<std::int64_t>& steps);

// The complete lines of x along an axis for z's tile. All other axes of x have z's extents.
Tile load_lines(const Input& x, const Output& z, int axis);

// Element `number` of each group of `step`: along the last axis x has `step` elements, such as channels, for each of
// z's. The other axes have z's extents.
Tile load_of_group(const Input& x, const Output& z, int step, int number);

// The elements of x at `channel` of the last axis. All other axes have z's extents.
Tile load_channel(const Input& x, const Output& z, const Index& channel, Border border = Border::zero);

// The elements of a computed tile at these indices, one s64 tile per axis of x, broadcast together; 0 outside. x is
// stored once for all of them.
Tile gather(const Tile& x, const Indices& indices);

// Of the names of kernels, inputs and parameters, which messages quote in full.
inline constexpr std::size_t longest_name = 256;

// Throws Errc::invalid_kernel.
void check_kernel_name(std::string_view name);

struct Kernel::State {
  std::string name;
  std::vector<Parameter> parameters;
  std::function<void()> body;
};

}  // namespace tessera::tile
