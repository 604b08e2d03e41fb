#pragma once

#include <tessera/tile.hpp>

#include "ir/ir.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tile {

// Runs the body, which writes a program down with the tile language, on this thread. Traces may be nested.
// Buffer 0 is the output, buffer i + 1 is Input(i). Errc::invalid_kernel.
ir::Program trace(std::string_view name, std::vector<ir::Buffer> buffers, std::vector<ir::Scalar> scalars,
                  const std::function<void()>& body, std::vector<std::int64_t> tile = {});

// Input::at where axes are seen as groups of `steps` elements and the border applies to groups.
Tile at_steps(const Input& x, const Indices& indices, Border border, const std::vector<std::int64_t>& steps);

// The whole lines of x along an axis that belong to z's tile. x has z's axes, each but this one as long as z's.
Tile load_lines(const Input& x, const Output& z, int axis);

// Along the last axis x has `step` elements for each of z's, as an image has channels: this one of them. The other axes
// are z's.
Tile load_of_group(const Input& x, const Output& z, int step, int number);

// x is as z is along all axes but the last: what it has there at `channel`.
Tile load_channel(const Input& x, const Output& z, const Index& channel, Border border = Border::zero);

// Errc::invalid_kernel.
void check_kernel_name(std::string_view name);

struct Kernel::State {
  std::string name;
  std::vector<Parameter> parameters;
  std::function<void()> body;
};

}  // namespace tessera::tile
