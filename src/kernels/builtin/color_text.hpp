#pragma once

#include "kernels/kernel.hpp"

#include <array>
#include <string_view>

namespace tessera::kernels {

// The value of a parameter of kind color: red, green and blue as they are stored in elements of this type. A list of
// three numbers is taken as it is. A text is "#rrggbb", "#rgb" or a name: black, white, gray, red, green, blue, yellow,
// cyan, magenta. Names are pure colours: green is #00ff00. Errc::invalid_parameter.
std::array<double, 3> checked_color(const Call& call, std::string_view param, DType dtype);

}  // namespace tessera::kernels
