// Functions on integers: arithmetic that is defined for all operands, and the border rules of indices.
#include "compile/gpu/functions.hpp"

#include <array>

namespace tessera::compile::gpu {

namespace {

constexpr auto table = std::to_array<Function>({
    // Division by zero is 0, and the least number divided by -1 wraps around.
    {"t_div_$X", "s32 s64", false,
     "$F t_div_$X($F a, $F b) { return b == #0# ? #0# : b == #-1# ? #0# - a : a / b; }\n"},
    {"t_div_$X", "u32", false, "$F t_div_$X($F a, $F b) { return b == #0# ? #0# : a / b; }\n"},
    {"t_rem_$X", "s32 s64", false, "$F t_rem_$X($F a, $F b) { return b == #0# || b == #-1# ? #0# : a - a / b * b; }\n"},
    {"t_rem_$X", "u32", false, "$F t_rem_$X($F a, $F b) { return b == #0# ? #0# : a % b; }\n"},
    {"t_pow_$X", "s32 s64", false,
     "$F t_pow_$X($F x, $F y) {\n"
     "  if (y < #0#) return x == #1# ? #1# : x == #-1# ? ((y & #1#) == #0# ? #1# : #-1#) : #0#;\n"
     "  $F result = #1#;\n"
     "  while (y != #0#) {\n"
     "    if ((y & #1#) != #0#) result = t_mul_$X(result, x);\n"
     "    x = t_mul_$X(x, x);\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = t_mul_$X(result, x);\n"
     "    x = t_mul_$X(x, x);\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = t_mul_$X(result, x);\n"
     "    x = t_mul_$X(x, x);\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = t_mul_$X(result, x);\n"
     "    x = t_mul_$X(x, x);\n"
     "    y = y >> 1;\n"
     "  }\n"
     "  return result;\n"
     "}\n"},
    {"t_pow_$X", "u32", false,
     "$F t_pow_$X($F x, $F y) {\n"
     "  $F result = #1#;\n"
     "  while (y != #0#) {\n"
     "    if ((y & #1#) != #0#) result = result * x;\n"
     "    x = x * x;\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = result * x;\n"
     "    x = x * x;\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = result * x;\n"
     "    x = x * x;\n"
     "    y = y >> 1;\n"
     "    if ((y & #1#) != #0#) result = result * x;\n"
     "    x = x * x;\n"
     "    y = y >> 1;\n"
     "  }\n"
     "  return result;\n"
     "}\n"},

    // The non-negative remainder of a / n, for n > 0.
    {"t_mod_$X", "s32 s64", false,
     "$F t_mod_$X($F a, $F n) { $F rest = a - a / n * n; return rest < #0# ? rest + n : rest; }\n"},
    // The index that is read instead of one outside.
    {"t_clamp_$X", "s32 s64", false,
     "$F t_clamp_$X($F i, $F n) { $F last = i > n - #1# ? n - #1# : i; return last < #0# ? #0# : last; }\n"},
    {"t_wrap_$X", "s32 s64", false, "$F t_wrap_$X($F i, $F n) { return n < #1# ? #0# : t_mod_$X(i, n); }\n"},
    {"t_reflect_$X", "s32 s64", false,
     "$F t_reflect_$X($F i, $F n) {\n"
     "  if (n < #2#) return #0#;\n"
     "  $F period = (n - #1#) * #2#;\n"
     "  $F at = t_mod_$X(i, period);\n"
     "  return at > n - #1# ? period - at : at;\n"
     "}\n"},
    // Without 2 * n, which need not fit.
    {"t_symmetric_$X", "s32 s64", false,
     "$F t_symmetric_$X($F i, $F n) {\n"
     "  if (n < #1#) return #0#;\n"
     "  $F copy = i / n;\n"
     "  $F at = i - copy * n;\n"
     "  if (at < #0#) { at = at + n; copy = copy - #1#; }\n"
     "  return (copy & #1#) == #0# ? at : n - #1# - at;\n"
     "}\n"},

    // Wraps around, which signed integers of C need not do.
    {"t_mul_$X", "s32 s64", false, "$F t_mul_$X($F a, $F b) { return $W(a, *, b); }\n"},
});

}  // namespace

std::span<const Function> functions_of_integers() { return table; }

}  // namespace tessera::compile::gpu
