#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/params.hpp>
#include <tessera/tile.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Kernels of the program's own among those that have names.
namespace tessera {

// Several names as one argument, as in {"x", "y"}.
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

// Gives the kernel a name that every device's run and submit know, and Device::kernels() lists. Under a name that was
// registered or defined before it replaces that kernel; commands that were submitted keep the old one. Any thread.
// Errc::invalid_argument for the name of a built-in kernel.
//
//   register_kernel(saxpy);
//   device.run("saxpy", {x, y}, z, {{"a", 2.0}});
TESSERA_API void register_kernel(const tile::Kernel& kernel);

// The same for a kernel that is written as an expression of its inputs, element by element, and of its parameters,
// which have these defaults. Inputs broadcast together as in NumPy, and the output has the shape of that.
//
// Of integers: where all numbers are whole and fit their type (2, not 2.0, and not -1 for u8), and so are the
// parameters and their defaults, it is computed in that type, where sums and products wrap around and division is
// towards zero. Else it is computed in f64, and the result is rounded to the nearest and saturates.
//
// Errc::invalid_kernel tells where the expression is wrong; Errc::invalid_argument as above.
//
//   define_kernel("soft_clip", {"x"}, "x / (1 + abs(x) * hardness)", {{"hardness", 1.0}});
//   device.run("soft_clip", {x}, z, {{"hardness", 2.0}});
TESSERA_API void define_kernel(std::string_view name, const Names& inputs, std::string_view expression,
                               const Params& params = {});

}  // namespace tessera
