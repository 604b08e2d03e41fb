#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/params.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// User kernels that run and submit find by name.
namespace tessera {

namespace tile {
class Kernel;
}

// A list of names: {"x", "y"}, or a std::vector<std::string>.
class Names {
 public:
  Names() = default;
  // A pack instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  template <class... Name>
    requires(sizeof...(Name) >= 1 && (std::convertible_to<const Name&, std::string_view> && ...))
  Names(const Name&... names)  // NOLINT(google-explicit-constructor): {"x", "y"} is a list
      : items_{std::string(std::string_view(names))...} {}
  Names(std::vector<std::string> names) : items_(std::move(names)) {}  // NOLINT(google-explicit-constructor)

  const std::vector<std::string>& items() const noexcept { return items_; }

 private:
  std::vector<std::string> items_;
};

// Registers the kernel under its name, so that every device's run and submit find it and Device::kernels() lists it. A
// user kernel of the same name is replaced; commands already submitted keep the old one. Thread-safe, never blocks.
// Throws Errc::invalid_argument for the name of a built-in kernel.
//
//   register_kernel(saxpy);
//   device.run("saxpy", {x, y}, z, {{"a", 2.0}});
TESSERA_API void register_kernel(const tile::Kernel& kernel);

// Registers a kernel written as an element-wise expression of its inputs and parameters; `params` has the parameters'
// defaults. Inputs broadcast as in NumPy, and the output must have their broadcast shape.
//
//   expression = or [ "?" expression ":" expression ]
//   or         = and { "||" and }
//   and        = comparison { "&&" comparison }
//   comparison = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
//   sum        = product { ("+" | "-") product }
//   product    = signed { ("*" | "/" | "%") signed }
//   signed     = ("-" | "!") signed | power
//   power      = value [ "**" signed ]
//   value      = number | name | function "(" expression { "," expression } ")" | "(" expression ")"
//
// A number is written as in C without a suffix: 2, 0.5, 1e-3. A name is that of an input or a parameter, or pi or e.
// The functions are
//
//   abs exp log log10 sqrt rsqrt sin cos tanh erf floor ceil round relu sigmoid   of one argument
//   min max pow (or power)                                                        of two
//   fma(a, b, c)                  a * b + c
//   clamp(x, low, high), or clip  min(max(x, low), high)
//   select(c, a, b), or where     c ? a : b
//
// A number is true unless it is 0; a condition is 1 or 0 where a number is needed. Both sides of ?:, && and || are
// always computed. White space separates words and is ignored otherwise. Expressions nest at most 200 deep.
//
// On integer buffers it is computed in their type, wrapping around and dividing towards zero, if every number and
// parameter, defaults included, is an integer that fits the type (2 but not 2.0, nor -1 for u8). Otherwise it is
// computed in f64, rounded to the nearest integer and saturated.
//
// Throws Errc::invalid_kernel, which says where the expression is wrong, and Errc::invalid_argument as above.
//
//   define_kernel("soft_clip", {"x"}, "x / (1 + abs(x) * hardness)", {{"hardness", 1.0}});
//   device.run("soft_clip", {x}, z, {{"hardness", 2.0}});
TESSERA_API void define_kernel(std::string_view name, const Names& inputs, std::string_view expression,
                               const Params& params = {});

}  // namespace tessera
