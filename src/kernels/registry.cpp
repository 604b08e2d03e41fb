#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

namespace tessera::kernels {

namespace {

// By name. The parameters' order is the one in which the implementations get them.
const std::array<Kernel, op_count>& table() {
  static const std::array<Kernel, op_count> kernels = {{
      {Op::copy, "copy", {"x"}, {}, "x"},
      {Op::elementwise_add, "elementwise_add", {"a", "b"}, {}, "a + b; integers wrap around"},
      {Op::elementwise_mul, "elementwise_mul", {"a", "b"}, {}, "a * b; integers wrap around"},
      {Op::fill,
       "fill",
       {},
       {{"value", 0, "what every element becomes"}},
       "value; rounded to the nearest and saturated for integers"},
      {Op::relu,
       "relu",
       {"x"},
       {{"slope", 0, "the factor below 0"}},
       "x, or slope * x below 0; rounded to the nearest and saturated for integers"},
      {Op::scale,
       "scale",
       {"x"},
       {{"factor", 1, "what every element is multiplied with"}},
       "x * factor; rounded to the nearest and saturated for integers"},
  }};
  return kernels;
}

using Index = std::unordered_map<std::string_view, const Kernel*>;

const Index& index() {
  static const Index by_name = [] {
    Index made;
    for (const Kernel& kernel : table()) made.emplace(kernel.name, &kernel);
    made.emplace("multiply", made.at("elementwise_mul"));
    made.emplace("scalar_mul", made.at("scale"));
    return made;
  }();
  return by_name;
}

}  // namespace

std::span<const Kernel> all() { return table(); }

const Kernel& find(std::string_view name) {
  const Index& by_name = index();
  const auto found = by_name.find(name);
  if (found != by_name.end()) [[likely]]
    return *found->second;
  std::vector<std::string_view> names;
  for (const auto& entry : by_name) names.push_back(entry.first);
  std::ranges::sort(names);  // the same suggestion every time
  throw Error(Errc::unknown_kernel,
              core::text("there is no kernel '", name.substr(0, 64), "'", core::suggestion(name, names)));
}

}  // namespace tessera::kernels
