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
  select,
  abs,
  min,
  max,
  fma,
  relu,
  clamp,
  // Not for integers.
  exp,
  log,
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

// An expression in postfix order: each operation takes what stands last on a stack.
struct Expression {
  struct Item {
    enum class Kind : std::uint8_t { number, input, param, operation };
    Kind kind;
    Operation operation = Operation::neg;
    int index = 0;  // of an input or a param
    double number = 0;
    std::int64_t integer = 0;  // of a whole number
    bool is_whole = false;     // written without a point, and an s64
  };
  std::vector<Item> items;
  bool is_for_integers = true;  // whole numbers and operations that integers have, no others
};

bool is_identifier(std::string_view name) noexcept;

// Errc::invalid_kernel that shows where the text is wrong.
Expression parse(std::string_view kernel, std::string_view source, std::span<const std::string> inputs,
                 std::span<const std::string> params);

}  // namespace tessera::kernels
