#pragma once

#include <tessera/device.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include "core/inline_vector.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::kernels {

// The value of a parameter as a kernel gets it.
struct Argument {
  double number = 0;
  std::int64_t integer = 0;  // the exact value, if it is a whole number
  bool is_integer = false;
};

using Arguments = core::InlineVector<Argument, 2>;

Argument to_argument(const Value& number);

struct ParamSpec {
  std::string_view name;
  Value default_value;
  std::string_view documentation;
  Argument default_argument = to_argument(default_value);
  // What it may be, both ends included; without limits also NaN and the infinities.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();

  bool allows(double number) const noexcept {
    return (std::isinf(min) && std::isinf(max)) || (number >= min && number <= max);
  }
};

// What one operand of a call looks like to the check.
struct Operand {
  DType dtype;
  const Shape* shape;
};

// The built-in kernels by number: what a driver's table of implementations is indexed with.
enum class Op : std::uint8_t { elementwise_add, elementwise_mul, relu, scale, fill, copy };
inline constexpr std::size_t op_count = 6;

// A kernel by name: what it takes, and what is wrong with a call of it. All operands have one shape and one type.
struct Kernel {
  Op op;
  std::string_view name;
  std::vector<std::string_view> inputs;
  std::vector<ParamSpec> params;
  std::string_view documentation;

  // Throws an Error that names the culprit if the kernel cannot be called so; bind appends the parameters' values, in
  // the order of `params`, with their defaults.
  void check(std::span<const Operand> given, const Operand& output) const;
  void bind(const Params& given, Arguments& arguments) const;

  KernelInfo info(std::span<const DType> dtypes) const;

 private:
  [[noreturn]] void throw_unknown(const Param& param) const;
};

// The kernel of a name or alias; Errc::unknown_kernel with the nearest name.
const Kernel& find(std::string_view name);
// All of them, by name.
std::span<const Kernel> all();

}  // namespace tessera::kernels
