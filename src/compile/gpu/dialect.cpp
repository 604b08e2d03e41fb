#include "compile/gpu/dialect.hpp"

#include "core/text.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tessera::compile::gpu {

using core::text;

std::string_view Syntax::type(NumberKind kind) const {
  switch (kind) {
    case NumberKind::f32:
      return "float";
    case NumberKind::f64:
      return "double";
    case NumberKind::s32:
      return "int";
    case NumberKind::s64:
      return is_glsl() ? "int64_t" : dialect_ == Dialect::opencl ? "long" : "long long";
    case NumberKind::u32:
      return dialect_ == Dialect::cuda ? "unsigned" : "uint";
    default:
      return "bool";
  }
}

std::string_view Syntax::variable(NumberKind kind) const {
  if (!is_glsl() || !is_float(kind)) return type(kind);
  return kind == NumberKind::f32 ? "PRECISE float" : "PRECISE double";
}

std::string_view Syntax::wrapping_type(NumberKind kind) const {
  if (is_glsl() || is_float(kind)) return type(kind);
  if (kind == NumberKind::s64) return dialect_ == Dialect::opencl ? "ulong" : "unsigned long long";
  return dialect_ == Dialect::opencl ? "uint" : "unsigned";
}

std::string_view Syntax::element(ir::Type type) const {
  if (type == ir::Type::u8) return dialect_ == Dialect::cuda ? "unsigned char" : "uchar";
  constexpr NumberKind kind_of_type[] = {NumberKind::f32, NumberKind::f64, NumberKind::s32, NumberKind::s64,
                                         NumberKind::u32};
  return this->type(kind_of_type[static_cast<int>(type)]);
}

std::string Syntax::number(NumberKind kind, double value) const {
  if (kind == NumberKind::f32) {
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) {
      char digits[32];
      std::snprintf(digits, sizeof digits, "0x%08xu", std::bit_cast<std::uint32_t>(narrow));
      return from_bits(NumberKind::f32, digits);
    }
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.9e%s", static_cast<double>(narrow), "f");
    return std::signbit(narrow) ? text("(", digits, ")") : digits;
  }
  if (!std::isfinite(value)) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    char low[32], high[32];
    std::snprintf(low, sizeof low, "0x%08xu", static_cast<std::uint32_t>(bits));
    std::snprintf(high, sizeof high, "0x%08xu", static_cast<std::uint32_t>(bits >> 32));
    return from_bits(NumberKind::f64, low, high);
  }
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.17e%s", value, is_glsl() ? "lf" : "");
  return std::signbit(value) ? text("(", digits, ")") : digits;
}

std::string Syntax::integer(NumberKind kind, std::int64_t value) const {
  switch (kind) {
    case NumberKind::boolean:
      return value != 0 ? "true" : "false";
    case NumberKind::u32:
      return text(static_cast<std::uint32_t>(value), "u");
    case NumberKind::s32:
      if (value == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
      return value < 0 ? text("(", value, ")") : text(value);
    default: {
      const char* suffix = dialect_ == Dialect::cuda ? "LL" : "L";
      if (value == std::numeric_limits<std::int64_t>::min()) {
        return text("(-9223372036854775807", suffix, " - 1", suffix, ")");
      }
      return value < 0 ? text("(", value, suffix, ")") : text(value, suffix);
    }
  }
}

std::string Syntax::cast(NumberKind to, const std::string& value) const {
  return is_glsl() ? text(type(to), "(", value, ")") : text("((", type(to), ")(", value, "))");
}

// Mesa 22.3 takes int64_t(x) < 2 as false whatever x is, if the 2 is a constant and x an int.
std::string Syntax::widened(const std::string& value) const {
  if (!is_glsl()) return cast(NumberKind::s64, value);
  return from_bits(NumberKind::s64, value, text(value, " >> 31"));
}

std::string_view Syntax::barrier() const {
  switch (dialect_) {
    case Dialect::opencl:
      return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
    case Dialect::cuda:
      return "__syncthreads();";
    default:
      return "memoryBarrierShared(); memoryBarrierBuffer(); barrier();";
  }
}

std::string Syntax::from_bits(NumberKind to, const std::string& low, const std::string& high) const {
  if (is_glsl()) {
    switch (to) {
      case NumberKind::f32:
        return text("uintBitsToFloat(", low, ")");
      case NumberKind::f64:
        return text("packDouble2x32(uvec2(", low, ", ", high, "))");
      case NumberKind::s64:
        return text("packInt2x32(ivec2(int(", low, "), int(", high, ")))");
      case NumberKind::boolean:
        return text("(", low, " != 0u)");
      default:
        return cast(to, low);
    }
  }
  const auto wide = [&] {
    return dialect_ == Dialect::cuda ? text("(((unsigned long long)(", high, ") << 32) | (", low, "))")
                                     : text("upsample(", high, ", ", low, ")");
  };
  switch (to) {
    case NumberKind::f32:
      return text(dialect_ == Dialect::cuda ? "__uint_as_float(" : "as_float(", low, ")");
    case NumberKind::f64:
      return dialect_ == Dialect::cuda ? text("__longlong_as_double((long long)", wide(), ")")
                                       : text("as_double(", wide(), ")");
    case NumberKind::s64:
      return cast(to, wide());
    case NumberKind::boolean:
      return text("(", low, " != 0u)");
    default:
      return cast(to, low);
  }
}

std::string Syntax::bits(NumberKind of, const std::string& value, int word) const {
  const auto half = [&](const std::string& wide) {
    return cast(NumberKind::u32, word == 0 ? wide : text("(", wide, ") >> 32"));
  };
  switch (of) {
    case NumberKind::f32:
      return text(is_glsl()                   ? "floatBitsToUint("
                  : dialect_ == Dialect::cuda ? "__float_as_uint("
                                              : "as_uint(",
                  value, ")");
    case NumberKind::f64:
      if (is_glsl()) return text("unpackDouble2x32(", value, ")[", word, "]");
      return half(text(dialect_ == Dialect::cuda ? "__double_as_longlong(" : "as_ulong(", value, ")"));
    case NumberKind::s64:
      return is_glsl() ? text("uint(unpackInt2x32(", value, ")[", word, "])") : half(value);
    case NumberKind::boolean:
      return text("(", value, " ? 1u : 0u)");
    default:
      return cast(NumberKind::u32, value);
  }
}

}  // namespace tessera::compile::gpu
