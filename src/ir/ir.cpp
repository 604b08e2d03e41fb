#include "ir/ir.hpp"

#include <iterator>

namespace tessera::ir {

namespace {

// In the order of Code.
constexpr std::string_view names[] = {"constant",   "scalar",
                                      "dim",        "tile_dim",
                                      "origin",     "block",
                                      "argument",   "iota",
                                      "load",  //
                                      "neg",        "abs",
                                      "exp",        "log",
                                      "sqrt",       "rsqrt",
                                      "sin",        "cos",
                                      "tanh",       "erf",
                                      "floor",      "ceil",
                                      "round",      "bit_not",  //
                                      "add",        "sub",
                                      "mul",        "div",
                                      "rem",        "min",
                                      "max",        "pow",
                                      "bit_and",    "bit_or",
                                      "bit_xor",    "shl",
                                      "shr",  //
                                      "eq",         "ne",
                                      "lt",         "le",
                                      "gt",         "ge",
                                      "select",     "fma",
                                      "convert",    "nearest",  //
                                      "broadcast",  "reshape",
                                      "transpose",  "slice",
                                      "pick",  //
                                      "reduce_sum", "reduce_product",
                                      "reduce_max", "reduce_min",
                                      "argmax",     "mma",
                                      "loop",       "result",
                                      "store"};
static_assert(std::size(names) == static_cast<std::size_t>(Code::store) + 1);

}  // namespace

std::string_view to_string(Type type) noexcept {
  return type == Type::boolean ? "bool" : tessera::to_string(static_cast<DType>(type));
}

std::string_view to_string(Code code) noexcept { return names[static_cast<std::size_t>(code)]; }

}  // namespace tessera::ir
