#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::kernels {

// The operations of text kernels.
enum class Operation : std::uint8_t {
  neg,
  add,
  sub,
  mul,
  div,
  rem,
  pow,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  logical_and,
  logical_or,
  logical_not,
  select,
  abs,
  min,
  max,
  fma,
  relu,
  clamp,
  // For floats only.
  exp,
  log,
  log10,
  sqrt,
  rsqrt,
  sin,
  cos,
  tanh,
  erf,
  floor,
  ceil,
  round,
  sigmoid,
};

// An expression in postfix order, to be evaluated with a stack.
struct Expression {
  struct Item {
    enum class Kind : std::uint8_t { number, input, param, operation };
    Kind kind;
    Operation operation = Operation::neg;
    int index = 0;  // of an input or parameter
    double number = 0;
    std::int64_t integer = 0;  // if is_integer
    bool is_integer = false;   // written without a decimal point, and fits s64
  };
  std::vector<Item> items;
  bool is_for_integers = true;  // has only integers and operations that support them
};

bool is_identifier(std::string_view name) noexcept;

// Throws Errc::invalid_kernel, which points at the error in the text.
Expression parse(std::string_view kernel, std::string_view source, std::span<const std::string> inputs,
                 std::span<const std::string> params);

}  // namespace tessera::kernels
