// Functions that the text may need. Those of floats are for GLSL, whose own are too far from right or, of f64, missing;
// OpenCL C and CUDA C have good ones. In the texts $F is the type, $X its name, and #number# a number of it.
#include "compile/gpu/dialect.hpp"
#include "core/text.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::compile::gpu {

namespace {

struct Function {
  std::string_view name;  // with $X
  std::string_view of;    // the types: f32 f64 s32 s64 u32
  bool is_glsl_only;
  std::string_view source;
};

// The polynomials are minimax ones, as those of the CPU's compiler. Sums that must be exact are so because the
// variables are PRECISE.
constexpr auto table = std::to_array<Function>({
    // Integers: by zero it is 0, and the least by -1 wraps around.
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

    // a mod n, not negative, for n > 0.
    {"t_mod_$X", "s32 s64", false,
     "$F t_mod_$X($F a, $F n) { $F rest = a - a / n * n; return rest < #0# ? rest + n : rest; }\n"},
    // Where an index is read, for a border.
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

    // Floats.
    {"t_trunc_$X", "f32 f64", true, "$F t_trunc_$X($F x) { return x < #0# ? ceil(x) : floor(x); }\n"},
    {"t_round_$X", "f32 f64", true,
     "$F t_round_$X($F x) {\n"
     "  PRECISE $F whole = t_trunc_$X(x);\n"
     "  PRECISE $F rest = x - whole;\n"
     "  return rest >= #0.5# ? whole + #1# : rest <= #-0.5# ? whole - #1# : whole;\n"
     "}\n"},
    {"t_rem_$X", "f32 f64", true,
     "$F t_rem_$X($F x, $F y) {\n"
     "  $F a = abs(x), b = abs(y);\n"
     "  if (x != x || y != y || b == #0# || a > t_greatest_$X()) return t_nan_$X();\n"
     "  if (a < b || b > t_greatest_$X()) return x;\n"
     "  PRECISE $F step = b;\n"
     "  while (step <= a * #0.0000152587890625#) step = step * #65536#;\n"
     "  if (step <= a * #0.00390625#) step = step * #256#;\n"
     "  if (step <= a * #0.0625#) step = step * #16#;\n"
     "  if (step <= a * #0.25#) step = step * #4#;\n"
     "  if (step <= a * #0.5#) step = step * #2#;\n"
     "  PRECISE $F rest = a;\n"
     "  while (step >= b) {\n"
     "    t_subtract_$X(rest, step, b);\n"
     "    t_subtract_$X(rest, step, b);\n"
     "    t_subtract_$X(rest, step, b);\n"
     "    t_subtract_$X(rest, step, b);\n"
     "  }\n"
     "  return x < #0# ? -rest : rest;\n"
     "}\n"},
    {"t_subtract_$X", "f32 f64", true,
     "// Takes step, and then its halves down to b, away from rest where they fit: four of them, since loops have few "
     "steps.\n"
     "void t_subtract_$X(inout $F rest, inout $F step, $F b) {\n"
     "  if (step >= b && rest >= step) rest = rest - step;\n"
     "  step = step * #0.5#;\n"
     "  if (step >= b && rest >= step) rest = rest - step;\n"
     "  step = step * #0.5#;\n"
     "  if (step >= b && rest >= step) rest = rest - step;\n"
     "  step = step * #0.5#;\n"
     "  if (step >= b && rest >= step) rest = rest - step;\n"
     "  step = step * #0.5#;\n"
     "}\n"},
    {"t_exp_$X", "f32 f64", true, "$F t_exp_$X($F x) { return t_exp_pair_$X(x, #0#); }\n"},
    {"t_exp_pair_$X", "f32", true,
     "$F t_exp_pair_$X($F x, $F low) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F bounded = clamp(x, #-104.5#, #89#);\n"
     "  PRECISE $F n = floor(bounded * #1.44269504088896341# + #0.5#);\n"
     "  PRECISE $F r = bounded - n * #0.693359375#;\n"
     "  r = r + n * #2.12194440054690583e-4#;\n"
     "  if (bounded == x) r = r + low;\n"
     "  PRECISE $F q = t_poly7_$X(r, #1.9611692998e-04#, #1.4104479208e-03#, #8.336102498e-03#, #4.166126778e-02#,\n"
     "                            #1.666661416e-01#, #5.0000034648e-01#, #1#);\n"
     "  int whole = int(n);\n"
     "  int half_of_it = whole >> 1;\n"
     "  PRECISE $F power = q * r + #1#;\n"
     "  return power * t_pow2_$X(half_of_it) * t_pow2_$X(whole - half_of_it);\n"
     "}\n"},
    {"t_exp_pair_$X", "f64", true,
     "$F t_exp_pair_$X($F x, $F low) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F bounded = clamp(x, #-746#, #710#);\n"
     "  PRECISE $F n = floor(bounded * #1.44269504088896341# + #0.5#);\n"
     "  PRECISE $F r = bounded - n * #6.93147180369123816490e-01#;\n"
     "  r = r - n * #1.90821492927058770002e-10#;\n"
     "  if (bounded == x) r = r + low;\n"
     "  PRECISE $F q = t_poly7_$X(r, #2.755730067907155732e-6# + r * t_poly4_$X(r, #1.593570989828235785e-10#,\n"
     "                            #2.106227254252728516e-9#, #2.505502999978853282e-8#, #2.755615880461097199e-7#),\n"
     "                            #0.00002480159082629295732#, #0.0001984126989268146382#,\n"
     "                            #0.001388888888358497328#, #0.008333333333270060922#, #0.04166666666670201098#,\n"
     "                            #0.1666666666666693602#);\n"
     "  q = (q * r + #0.4999999999999992819#) * r + #1#;\n"
     "  int whole = int(n);\n"
     "  int half_of_it = whole >> 1;\n"
     "  PRECISE $F power = q * r + #1#;\n"
     "  return power * t_pow2_$X(half_of_it) * t_pow2_$X(whole - half_of_it);\n"
     "}\n"},
    {"t_log_$X", "f32", true,
     "$F t_log_$X($F x) {\n"
     "  if (!(x > #0#)) return x == #0# ? -t_infinity_$X() : t_nan_$X();\n"
     "  if (x > #3.4028235e38#) return x;\n"
     "  int whole;\n"
     "  PRECISE $F f = t_split_$X(x, whole) - #1#;\n"
     "  PRECISE $F n = $F(whole);\n"
     "  PRECISE $F square = f * f;\n"
     "  PRECISE $F p = t_poly7_$X(f, (#0.067464956024# * f - #0.11675537853#) * f + #0.11888164334#,\n"
     "                            #-0.12405608388#, #0.1421955499#, #-0.16667994835#, #0.20002118469#,\n"
     "                            #-0.25000009616#, #0.33333312608#);\n"
     "  PRECISE $F low = n * #-2.12194440054690583e-4# + square * f * p;\n"
     "  low = low - square * #0.5#;\n"
     "  return n * #0.693359375# + (f + low);\n"
     "}\n"},
    {"t_log_$X", "f64", true,
     "$F t_log_$X($F x) {\n"
     "  if (!(x > #0#)) return x == #0# ? -t_infinity_$X() : t_nan_$X();\n"
     "  if (x > #1.7976931348623157e308#) return x;\n"
     "  int whole;\n"
     "  PRECISE $F f = t_split_$X(x, whole) - #1#;\n"
     "  PRECISE $F n = $F(whole);\n"
     "  PRECISE $F s = f / (f + #2#);\n"
     "  PRECISE $F z = s * s;\n"
     "  PRECISE $F p = z * t_poly7_$X(z, #0.1479613788530955016#, #0.1531403276410146068#, #0.1818356498074989403#,\n"
     "                                #0.2222219856138384405#, #0.2857142874249478361#, #0.3999999999941423114#,\n"
     "                                #0.6666666666666734475#);\n"
     "  PRECISE $F half_square = f * f * #0.5#;\n"
     "  PRECISE $F low = s * (half_square + p) + n * #1.90821492927058770002e-10#;\n"
     "  return n * #6.93147180369123816490e-01# - ((half_square - low) - f);\n"
     "}\n"},
    {"t_sin_$X", "f32 f64", true, "$F t_sin_$X($F x) { return x == #0# ? x : t_sin_plus_$X(x, 0); }\n"},
    {"t_cos_$X", "f32 f64", true, "$F t_cos_$X($F x) { return t_sin_plus_$X(x, 1); }\n"},
    {"t_sin_plus_$X", "f32", true,
     "// sin(x + quarters * pi / 2). From 16 on the angle is reduced by integers: of 2 / pi those 96 bits count whose\n"
     "// products are less than four quarters. The table is 2 / pi after 34 zeros.\n"
     "$F t_sin_plus_$X($F x, int quarters) {\n"
     "  if (!(abs(x) <= t_greatest_$X())) return t_nan_$X();\n"
     "  PRECISE $F r;\n"
     "  int quadrant;\n"
     "  if (abs(x) < #16#) {\n"
     "    PRECISE $F k = floor(x * #0.636619772367581343# + #0.5#);\n"
     "    quadrant = int(k);\n"
     "    r = x - k * #1.5703125#;\n"
     "    r = r - k * #4.837512969970703125e-4#;\n"
     "    r = r - k * #7.5497899548918861e-8#;\n"
     "  } else {\n"
     "    uint word = floatBitsToUint(x);\n"
     "    uint m = ((word & 0x7fffffu) | 0x800000u) << 8;\n"
     "    int at = int((word >> 23) & 255u) - 126;\n"
     "    uint t[9] = uint[9](0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,\n"
     "                        0x7f9458eau, 0xf7aef158u);\n"
     "    int first = at >> 5, shift = at & 31;\n"
     "    uint hi = t[first], mid = t[first + 1], lo = t[first + 2];\n"
     "    if (shift > 0) {\n"
     "      hi = (hi << shift) | (mid >> (32 - shift));\n"
     "      mid = (mid << shift) | (lo >> (32 - shift));\n"
     "      lo = (lo << shift) | (t[first + 3] >> (32 - shift));\n"
     "    }\n"
     "    uint p_hi, p_lo, c_hi, c_lo, carry;\n"
     "    umulExtended(m, mid, p_hi, p_lo);\n"
     "    umulExtended(m, lo, c_hi, c_lo);\n"
     "    p_lo = uaddCarry(p_lo, c_hi, carry);\n"
     "    p_hi = p_hi + carry + m * hi;\n"
     "    quadrant = int((p_hi + 0x20000000u) >> 30);\n"
     "    p_hi = p_hi - (uint(quadrant) << 30);\n"
     "    bool is_negative = (p_hi & 0x80000000u) != 0u;\n"
     "    if (is_negative) {\n"
     "      p_lo = ~p_lo + 1u;\n"
     "      p_hi = ~p_hi + (p_lo == 0u ? 1u : 0u);\n"
     "    }\n"
     "    r = (float(p_hi) * #4294967296# + float(p_lo)) * #3.4061215800304255e-19#;\n"
     "    if (is_negative != (x < #0#)) r = -r;\n"
     "    if (x < #0#) quadrant = -quadrant;\n"
     "  }\n"
     "  quadrant = quadrant + quarters;\n"
     "  PRECISE $F z = r * r;\n"
     "  PRECISE $F sine = r * z * ((#-0.0001951697811# * z + #0.0083321758515#) * z - #0.16666654909#) + r;\n"
     "  PRECISE $F cosine = z * z * ((#2.4438090305e-5# * z - #0.0013887364478#) * z + #0.041666646807#) +\n"
     "                      (#1# - z * #0.5#);\n"
     "  PRECISE $F result = (quadrant & 1) != 0 ? cosine : sine;\n"
     "  return (quadrant & 2) != 0 ? -result : result;\n"
     "}\n"},
    {"t_sin_plus_$X", "f64", true,
     "// sin(x + quarters * pi / 2).\n"
     "$F t_sin_plus_$X($F x, int quarters) {\n"
     "  if (!(abs(x) <= t_greatest_$X())) return t_nan_$X();\n"
     "  PRECISE $F r, low;\n"
     "  int quadrant = quarters;\n"
     "  if (abs(x) < #35184372088832#) {\n"
     "    PRECISE $F k = floor(x * #0.63661977236758134308# + #0.5#);\n"
     "    PRECISE $F p1 = k * #1.5707963267948965580#;\n"
     "    PRECISE $F e1 = t_product_rest_$X(k, #1.5707963267948965580#, p1);\n"
     "    PRECISE $F p2 = k * #6.1232339957367660e-17#;\n"
     "    PRECISE $F e2 = t_product_rest_$X(k, #6.1232339957367660e-17#, p2);\n"
     "    PRECISE $F d = x - p1;\n"
     "    PRECISE $F a = d - e1;\n"
     "    PRECISE $F a_part = a - d;\n"
     "    PRECISE $F a_low = (d - (a - a_part)) - (e1 + a_part);\n"
     "    PRECISE $F b = a - p2;\n"
     "    PRECISE $F b_part = b - a;\n"
     "    PRECISE $F b_low = (a - (b - b_part)) - (p2 + b_part);\n"
     "    PRECISE $F rest = (a_low + b_low) - (e2 - k * #1.4973849048591833e-33#);\n"
     "    r = b + rest;\n"
     "    low = rest - (r - b);\n"
     "    if (k == #0#) { r = x; low = #0#; }\n"
     "    PRECISE $F quarter = k - floor(k * #0.25#) * #4#;\n"
     "    quadrant = quadrant + int(quarter);\n"
     "  } else {\n"
     "    quadrant = quadrant + t_far_angle_$X(x, r, low);\n"
     "  }\n"
     "  PRECISE $F z = r * r;\n"
     "  PRECISE $F cube = z * r;\n"
     "  PRECISE $F p = (((#1.589681263491256801e-10# * z - #2.505075840203303747e-8#) * z +\n"
     "                   #2.755731369370861103e-6#) * z - #0.0001984126982981284019#) * z + "
     "#0.008333333333322419731#;\n"
     "  PRECISE $F sine = r - ((z * (low * #0.5# - cube * p) - low) - cube * #-0.1666666666666663205#);\n"
     "  PRECISE $F q = ((((#-1.135965907516795087e-11# * z + #2.087572348361356877e-9#) * z -\n"
     "                    #2.755731435382396083e-7#) * z + #0.00002480158728948713919#) * z -\n"
     "                  #0.00138888888888741315#) * z + #0.04166666666666659952#;\n"
     "  PRECISE $F half_z = z * #0.5#;\n"
     "  PRECISE $F w = #1# - half_z;\n"
     "  PRECISE $F cosine = w + (((#1# - w) - half_z) + (z * z * q - r * low));\n"
     "  PRECISE $F result = (quadrant & 1) != 0 ? cosine : sine;\n"
     "  return (quadrant & 2) != 0 ? -result : result;\n"
     "}\n"},
    {"t_far_angle_$X", "f64", true,
     "// The quarters of x from 2^45 on, and what is left of it in two parts: as for f32, with 192 bits of 2 / pi.\n"
     "int t_far_angle_$X($F x, out $F r, out $F low) {\n"
     "  uvec2 word = unpackDouble2x32(x);\n"
     "  uint m_hi = (((word.y & 0xfffffu) | 0x100000u) << 11) | (word.x >> 21), m_lo = word.x << 11;\n"
     "  int at = int((word.y >> 20) & 2047u) - 1054;\n"
     "  uint t[38] = uint[38](0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u,\n"
     "                        0x4f10e410u, 0x7f9458eau, 0xf7aef158u, 0x6dc91b8eu, 0x909374b8u, 0x01924bbau,\n"
     "                        0x82746487u, 0x3f877ac7u, 0x2c4a69cfu, 0xba208d7du, 0x4baed121u, 0x3a671c09u,\n"
     "                        0xad17df90u, 0x4e64758eu, 0x60d4ce7du, 0x272117e2u, 0xef7e4a0eu, 0xc7fe25ffu,\n"
     "                        0xf7816603u, 0xfbcbc462u, 0xd6829b47u, 0xdb4d9fb3u, 0xc9f2c26du, 0xd3d18fd9u,\n"
     "                        0xa797fa8bu, 0x5d49eeb1u, 0xfaf97c5eu, 0xcf41ce7du, 0xe294a4bau, 0x9afed7ecu,\n"
     "                        0x47e35742u, 0x1580cc11u);\n"
     "  int first = at >> 5, shift = at & 31;\n"
     "  uint w[6] = uint[6](t[first], t[first + 1], t[first + 2], t[first + 3], t[first + 4], t[first + 5]);\n"
     "  if (shift > 0) {\n"
     "    uint last = t[first + 6];\n"
     "    w[0] = (w[0] << shift) | (w[1] >> (32 - shift));\n"
     "    w[1] = (w[1] << shift) | (w[2] >> (32 - shift));\n"
     "    w[2] = (w[2] << shift) | (w[3] >> (32 - shift));\n"
     "    w[3] = (w[3] << shift) | (w[4] >> (32 - shift));\n"
     "    w[4] = (w[4] << shift) | (w[5] >> (32 - shift));\n"
     "    w[5] = (w[5] << shift) | (last >> (32 - shift));\n"
     "  }\n"
     "  uvec2 p3 = t_add_products_$X(uvec2(0u), m_hi, w[5], m_lo, w[4], true);\n"
     "  p3 = t_add_products_$X(p3, m_hi, w[4], m_lo, w[3], false);\n"
     "  uvec2 p2 = t_add_products_$X(uvec2(p3.y, 0u), m_hi, w[4], m_lo, w[3], true);\n"
     "  p2 = t_add_products_$X(p2, m_hi, w[3], m_lo, w[2], false);\n"
     "  uvec2 p1 = t_add_products_$X(uvec2(p2.y, 0u), m_hi, w[3], m_lo, w[2], true);\n"
     "  p1 = t_add_products_$X(p1, m_hi, w[2], m_lo, w[1], false);\n"
     "  uvec2 p0 = t_add_products_$X(uvec2(p1.y, 0u), m_hi, w[2], m_lo, w[1], true);\n"
     "  p0 = t_add_products_$X(p0, m_hi, w[1], m_lo, w[0], false);\n"
     "  uvec4 p = uvec4(p0.x, p1.x, p2.x, p3.x);\n"
     "  int quadrant = int((p.x + 0x20000000u) >> 30);\n"
     "  p.x = p.x - (uint(quadrant) << 30);\n"
     "  bool is_negative = (p.x & 0x80000000u) != 0u;\n"
     "  if (is_negative) p = ~p;\n"
     "  PRECISE $F high = $F(p.x) * #4294967296#;\n"
     "  PRECISE $F sum = high + $F(p.y);\n"
     "  PRECISE $F sum_low = ($F(p.y) - (sum - high)) +\n"
     "                       ($F(p.z) + $F(p.w) * #2.3283064365386963e-10#) * #2.3283064365386963e-10#;\n"
     "  PRECISE $F whole = sum + sum_low;\n"
     "  sum_low = sum_low - (whole - sum);\n"
     "  PRECISE $F angle = whole * #1.5707963267948965580#;\n"
     "  PRECISE $F rest = t_product_rest_$X(whole, #1.5707963267948965580#, angle) +\n"
     "                    (whole * #6.1232339957367660e-17# + sum_low * #1.5707963267948965580#);\n"
     "  PRECISE $F both = angle + rest;\n"
     "  PRECISE $F both_low = rest - (both - angle);\n"
     "  PRECISE $F scale = is_negative != (x < #0#) ? #-2.168404344971008868e-19# : #2.168404344971008868e-19#;\n"
     "  r = both * scale;\n"
     "  low = both_low * scale;\n"
     "  return x < #0# ? -quadrant : quadrant;\n"
     "}\n"},
    {"t_add_products_$X", "f64", true,
     "// The upper or lower words of two products, added to a sum of two words.\n"
     "uvec2 t_add_products_$X(uvec2 sum, uint a, uint b, uint c, uint d, bool is_upper) {\n"
     "  uint hi, lo, carry;\n"
     "  umulExtended(a, b, hi, lo);\n"
     "  sum.x = uaddCarry(sum.x, is_upper ? hi : lo, carry);\n"
     "  sum.y = sum.y + carry;\n"
     "  umulExtended(c, d, hi, lo);\n"
     "  sum.x = uaddCarry(sum.x, is_upper ? hi : lo, carry);\n"
     "  sum.y = sum.y + carry;\n"
     "  return sum;\n"
     "}\n"},
    {"t_tanh_$X", "f32", true,
     "$F t_tanh_$X($F x) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F a = min(abs(x), #10#);\n"
     "  PRECISE $F z = a * a;\n"
     "  PRECISE $F p = (((#-0.0057050034918# * z + #0.020639101652#) * z - #0.053739719218#) * z +\n"
     "                  #0.13331442241#) * z - #0.33333281943#;\n"
     "  PRECISE $F result = a < #0.625# ? a * z * p + a : #1# - #2# / (t_exp_$X(a * #2#) + #1#);\n"
     "  return x < #0# ? -result : x == #0# ? x : result;\n"
     "}\n"},
    {"t_tanh_$X", "f64", true,
     "$F t_tanh_$X($F x) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F a = min(abs(x), #20#);\n"
     "  PRECISE $F z = a * a;\n"
     "  PRECISE $F p = (#-9.64399179425052238628e-1# * z - #9.92877231001918586564e1#) * z -\n"
     "                 #1.61468768441708447952e3#;\n"
     "  PRECISE $F q = ((z + #1.12811678491632931402e2#) * z + #2.23548839060100448583e3#) * z +\n"
     "                 #4.84406305325125486048e3#;\n"
     "  PRECISE $F result = a < #0.625# ? a + a * z * p / q : #1# - #2# / (t_exp_$X(a * #2#) + #1#);\n"
     "  return x < #0# ? -result : x == #0# ? x : result;\n"
     "}\n"},
    {"t_erf_$X", "f32", true,
     "$F t_erf_$X($F x) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F a = min(abs(x), #4#);\n"
     "  PRECISE $F z = a * a;\n"
     "  PRECISE $F near = t_poly7_$X(z, #8.1847306538e-5#, #-0.00080975965966#, #0.0051969399702#, #-0.026857698485#,\n"
     "                               #0.11283663822#, #-0.37612631593#, #0.1283791664#);\n"
     "  PRECISE $F far = t_poly7_$X(a, #2.1095281267e-5# * a - #0.00043446506446#, #0.0041710738368#,\n"
     "                              #-0.025119453158#, #0.10828012524#, #0.63334687732#, #1.1295149431#,\n"
     "                              #-0.00017468673103#);\n"
     "  PRECISE $F result = a < #0.921875# ? a * near + a : #1# - t_exp_$X(-far);\n"
     "  return x < #0# ? -result : result;\n"
     "}\n"},
    {"t_erf_$X", "f64", true,
     "$F t_erf_$X($F x) {\n"
     "  if (x != x) return x;\n"
     "  PRECISE $F a = min(abs(x), #6#);\n"
     "  PRECISE $F z = a * a;\n"
     "  PRECISE $F near = t_poly7_$X(z, #5.944974326881130958e-11#, #-1.136548613975554106e-9#,\n"
     "                               #1.4657830292045962e-8#, #-1.635001731449995862e-7#, #1.64609720083775524e-6#,\n"
     "                               #-0.00001492559345155800419#, #0.0001205533103433076952#);\n"
     "  near = t_poly7_$X(z, near, #-0.00085483269786618966#, #0.005223977624779223963#, #-0.02686617064507268704#,\n"
     "                    #0.1128379167095485602#, #-0.3761263890318374756#, #0.1283791670955125737#);\n"
     "  PRECISE $F far = t_poly7_$X(a, #-1.049464192241770276e-12#, #4.795387520694791359e-11#,\n"
     "                              #-1.025575380161863362e-9#, #1.36252048042641997e-8#, #-1.256925644888587784e-7#,\n"
     "                              #8.504993141798871895e-7#, #-4.326699706705389264e-6#);\n"
     "  far = t_poly7_$X(a, far, #0.00001651273289193933521#, #-0.00004503404810730418832#,\n"
     "                   #0.00007035934801533852638#, #0.00004483521829133173238#, #-0.0006411905129767753994#,\n"
     "                   #0.001769020301133387729#);\n"
     "  far = t_poly7_$X(a, far, #-0.0002805054466635033491#, #-0.01907814476407296558#, #0.1027472472115797342#,\n"
     "                   #0.6366284905644538421#, #1.12837732892168865#, #1.796534377592944954e-7#);\n"
     "  PRECISE $F result = a < #1# ? a * near + a : #1# - t_exp_$X(-far);\n"
     "  return x < #0# ? -result : result;\n"
     "}\n"},
    {"t_pow_$X", "f32 f64", true,
     "$F t_pow_$X($F x, $F y) {\n"
     "  if (y == #0# || x == #1#) return #1#;\n"
     "  if (x != x || y != y) return t_nan_$X();\n"
     "  $F size = abs(x), exponent = abs(y);\n"
     "  bool y_whole = floor(exponent) == exponent;\n"
     "  PRECISE $F half_exponent = exponent * #0.5#;\n"
     "  bool y_odd = y_whole && floor(half_exponent) != half_exponent;\n"
     "  PRECISE $F result;\n"
     "  if (size == #0# || size > t_greatest_$X()) {\n"
     "    result = (size == #0#) != (y < #0#) ? #0# : t_infinity_$X();\n"
     "  } else if (x < #0# && !y_whole) {\n"
     "    return t_nan_$X();\n"
     "  } else {\n"
     "    result = t_power_$X(size, clamp(y, #-36893488147419103232#, #36893488147419103232#));\n"
     "  }\n"
     "  return y_odd && t_is_minus_$X(x) ? -result : result;\n"
     "}\n"},
    {"t_power_$X", "f32 f64", true,
     "// x^y of a positive finite x: the logarithm and its product with y in pairs of numbers.\n"
     "$F t_power_$X($F x, $F y) {\n"
     "  int whole;\n"
     "  PRECISE $F m = t_split_$X(x, whole);\n"
     "  PRECISE $F n = $F(whole);\n"
     "  PRECISE $F above = m + #1#;\n"
     "  PRECISE $F above_low = m - (above - #1#);\n"
     "  if (m > #1#) above_low = #1# - (above - m);\n"
     "  PRECISE $F f = m - #1#;\n"
     "  PRECISE $F inverse = #1# / above;\n"
     "  PRECISE $F s = f * inverse;\n"
     "  PRECISE $F back = s * above;\n"
     "  PRECISE $F s_low = (((f - back) - t_product_rest_$X(s, above, back)) - s * above_low) * inverse;\n"
     "  PRECISE $F square = s * s;\n"
     "  PRECISE $F square_low = s * #2# * s_low + t_product_rest_$X(s, s, square);\n"
     "  PRECISE $F cube = s * square;\n"
     "  PRECISE $F cube_low = t_product_rest_$X(s, square, cube) + (s * square_low + s_low * square);\n"
     "  PRECISE $F third = cube * t_two_thirds_$X();\n"
     "  PRECISE $F third_low = t_product_rest_$X(cube, t_two_thirds_$X(), third) +\n"
     "                         (cube * t_two_thirds_low_$X() + cube_low * t_two_thirds_$X());\n"
     "  PRECISE $F tail = cube * square * t_poly7_$X(square, #0.1198903762704103706# * square + "
     "#0.1167481580188156414#,\n"
     "      #0.1333631753876514698#, #0.153845568683031287#, #0.1818181887034687015#, #0.2222222221753627362#,\n"
     "      #0.2857142857144511202#, #0.3999999999999997749#);\n"
     "  PRECISE $F n_high = n * t_ln2_$X();\n"
     "  PRECISE $F twice = s * #2#;\n"
     "  PRECISE $F a = n_high + twice;\n"
     "  PRECISE $F a_part = a - n_high;\n"
     "  PRECISE $F a_low = (n_high - (a - a_part)) + (twice - a_part);\n"
     "  PRECISE $F b = a + third;\n"
     "  PRECISE $F b_part = b - a;\n"
     "  PRECISE $F b_low = (a - (b - b_part)) + (third - b_part);\n"
     "  PRECISE $F low = (n * t_ln2_low_$X() + (s_low * #2# + third_low)) + tail;\n"
     "  low = (a_low + b_low) + low;\n"
     "  PRECISE $F log_high = b + low;\n"
     "  PRECISE $F log_low = low - (log_high - b);\n"
     "  PRECISE $F product = log_high * y;\n"
     "  if (!(abs(product) < #2000#)) return product < #0# ? #0# : t_infinity_$X();\n"
     "  PRECISE $F rest = t_product_rest_$X(log_high, y, product) + log_low * y;\n"
     "  return t_exp_pair_$X(product, rest);\n"
     "}\n"},
    {"t_product_rest_$X", "f32 f64", true,
     "// a * b - product, exactly: by halves.\n"
     "$F t_product_rest_$X($F a, $F b, $F product) {\n"
     "  PRECISE $F a_wide = a * t_splitter_$X();\n"
     "  PRECISE $F a_high = a_wide - (a_wide - a);\n"
     "  PRECISE $F a_low = a - a_high;\n"
     "  PRECISE $F b_wide = b * t_splitter_$X();\n"
     "  PRECISE $F b_high = b_wide - (b_wide - b);\n"
     "  PRECISE $F b_low = b - b_high;\n"
     "  PRECISE $F rest = a_high * b_high - product;\n"
     "  rest = rest + a_high * b_low;\n"
     "  rest = rest + a_low * b_high;\n"
     "  return rest + a_low * b_low;\n"
     "}\n"},
    {"t_poly7_$X", "f32 f64", true,
     "$F t_poly7_$X($F x, $F c6, $F c5, $F c4, $F c3, $F c2, $F c1, $F c0) {\n"
     "  PRECISE $F sum = c6 * x + c5;\n"
     "  sum = sum * x + c4;\n"
     "  sum = sum * x + c3;\n"
     "  sum = sum * x + c2;\n"
     "  sum = sum * x + c1;\n"
     "  return sum * x + c0;\n"
     "}\n"},
    {"t_poly4_$X", "f32 f64", true,
     "$F t_poly4_$X($F x, $F c3, $F c2, $F c1, $F c0) {\n"
     "  PRECISE $F sum = c3 * x + c2;\n"
     "  sum = sum * x + c1;\n"
     "  return sum * x + c0;\n"
     "}\n"},
    {"t_split_$X", "f32", true,
     "// x = m * 2^exponent, m from sqrt(1/2) to sqrt(2), of a positive finite x.\n"
     "$F t_split_$X($F x, out int exponent) {\n"
     "  bool is_tiny = x < #1.17549435e-38#;\n"
     "  uint moved = floatBitsToUint(is_tiny ? x * #16777216# : x) + 0x004afb0du;\n"
     "  exponent = int(moved >> 23) - (is_tiny ? 151 : 127);\n"
     "  return uintBitsToFloat((moved & 0x7fffffu) + 0x3f3504f3u);\n"
     "}\n"},
    {"t_split_$X", "f64", true,
     "// x = m * 2^exponent, m from about sqrt(1/2) to sqrt(2), of a positive finite x.\n"
     "$F t_split_$X($F x, out int exponent) {\n"
     "  bool is_tiny = x < #2.2250738585072014e-308#;\n"
     "  uvec2 word = unpackDouble2x32(is_tiny ? x * #18014398509481984# : x);\n"
     "  uint moved = word.y + (0x3ff00000u - 0x3fe6a09eu);\n"
     "  exponent = int(moved >> 20) - (is_tiny ? 1077 : 1023);\n"
     "  return packDouble2x32(uvec2(word.x, (moved & 0xfffffu) + 0x3fe6a09eu));\n"
     "}\n"},
    {"t_pow2_$X", "f32", true, "$F t_pow2_$X(int n) { return uintBitsToFloat(uint(n + 127) << 23); }\n"},
    {"t_pow2_$X", "f64", true, "$F t_pow2_$X(int n) { return packDouble2x32(uvec2(0u, uint(n + 1023) << 20)); }\n"},
    {"t_is_minus_$X", "f32", true, "bool t_is_minus_$X($F x) { return (floatBitsToUint(x) >> 31) != 0u; }\n"},
    {"t_is_minus_$X", "f64", true, "bool t_is_minus_$X($F x) { return (unpackDouble2x32(x).y >> 31) != 0u; }\n"},
    {"t_splitter_$X", "f32", true, "$F t_splitter_$X() { return #4097#; }\n"},
    {"t_splitter_$X", "f64", true, "$F t_splitter_$X() { return #134217729#; }\n"},
    {"t_two_thirds_$X", "f32 f64", true, "$F t_two_thirds_$X() { return #0.66666666666666662966#; }\n"},
    {"t_two_thirds_low_$X", "f32", true, "$F t_two_thirds_low_$X() { return #-1.9868214962137642e-8#; }\n"},
    {"t_two_thirds_low_$X", "f64", true, "$F t_two_thirds_low_$X() { return #3.7007434154171886e-17#; }\n"},
    {"t_ln2_$X", "f32", true, "$F t_ln2_$X() { return #0.693359375#; }\n"},
    {"t_ln2_$X", "f64", true, "$F t_ln2_$X() { return #6.93147180369123816490e-01#; }\n"},
    {"t_ln2_low_$X", "f32", true, "$F t_ln2_low_$X() { return #-2.12194440054690583e-4#; }\n"},
    {"t_ln2_low_$X", "f64", true, "$F t_ln2_low_$X() { return #1.90821492927058770002e-10#; }\n"},
    {"t_greatest_$X", "f32", true, "$F t_greatest_$X() { return #3.4028234664e38#; }\n"},
    {"t_greatest_$X", "f64", true, "$F t_greatest_$X() { return #1.7976931348623157e308#; }\n"},
    {"t_infinity_$X", "f32", true, "$F t_infinity_$X() { return uintBitsToFloat(0x7f800000u); }\n"},
    {"t_infinity_$X", "f64", true, "$F t_infinity_$X() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }\n"},
    {"t_nan_$X", "f32", true, "$F t_nan_$X() { return uintBitsToFloat(0x7fc00000u); }\n"},
    {"t_nan_$X", "f64", true, "$F t_nan_$X() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }\n"},
    // Integers wrap around: in C signed ones need not.
    {"t_mul_$X", "s32 s64", false, "$F t_mul_$X($F a, $F b) { return $W(a, *, b); }\n"},
});

struct Named {
  Kept kept;
  std::string_view name;
};
constexpr Named names[] = {
    {Kept::f32, "f32"}, {Kept::f64, "f64"}, {Kept::s32, "s32"}, {Kept::s64, "s64"}, {Kept::u32, "u32"}};

std::string instance(std::string_view pattern, const Named& type, const Words& words) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '$') {
      ++i;
      if (pattern[i] == 'F') {
        result += words.type(type.kept);
      } else if (pattern[i] == 'X') {
        result += type.name;
      } else {  // $W(a, *, b): the product without the sign
        result += words.is_glsl()          ? "(a * b"
                  : type.kept == Kept::s32 ? "(int)((unsigned)a * (unsigned)b"
                                           : "(long)((unsigned long)a * (unsigned long)b";
        i = pattern.find(')', i) - 1;
      }
    } else if (pattern[i] == '#') {
      const std::size_t end = pattern.find('#', i + 1);
      const std::string number(pattern.substr(i + 1, end - i - 1));
      result += is_float(type.kept) ? words.number(type.kept, std::strtod(number.c_str(), nullptr))
                                    : words.integer(type.kept, std::strtoll(number.c_str(), nullptr, 10));
      i = end;
    } else {
      result += pattern[i];
    }
  }
  return result;
}

}  // namespace

std::string functions(const std::string& body, const Target& target) {
  const Words words(target);
  struct Candidate {
    std::string call;  // "t_exp_f32("
    std::string source;
    bool is_needed = false;
  };
  std::vector<Candidate> candidates;
  for (const Function& function : table) {
    if (function.is_glsl_only && !words.is_glsl()) continue;
    for (const Named& type : names) {
      if (function.of.find(type.name) == std::string_view::npos) continue;
      if ((type.kept == Kept::f64 && !target.has_f64) || (type.kept == Kept::s64 && !target.has_s64)) continue;
      std::string call = instance(function.name, type, words);
      call += '(';
      candidates.push_back({std::move(call), instance(function.source, type, words)});
    }
  }
  // What is needed, and what that needs.
  std::vector<const std::string*> open = {&body};
  while (!open.empty()) {
    const std::string& user = *open.back();
    open.pop_back();
    for (Candidate& candidate : candidates) {
      if (candidate.is_needed || user.find(candidate.call) == std::string::npos) continue;
      candidate.is_needed = true;
      open.push_back(&candidate.source);
    }
  }
  // All are told of first, so that their order does not matter.
  std::string told, defined;
  const std::string prefix = target.dialect == Dialect::cuda ? "__device__ " : "";
  for (const Candidate& candidate : candidates) {
    if (!candidate.is_needed) continue;
    const std::size_t start = candidate.source.starts_with("//") ? candidate.source.find('\n') + 1 : 0;
    told += core::text(prefix, candidate.source.substr(start, candidate.source.find('{') - start - 1), ";\n");
    defined += core::text(candidate.source.substr(0, start), prefix, candidate.source.substr(start));
  }
  return told + defined;
}

}  // namespace tessera::compile::gpu
