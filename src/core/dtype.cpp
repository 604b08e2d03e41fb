#include <tessera/dtype.hpp>

#include <tessera/error.hpp>

#include "core/text.hpp"

namespace tessera {

std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::s32:
      return "s32";
    case DType::s64:
      return "s64";
    case DType::u32:
      return "u32";
    case DType::u8:
      return "u8";
  }
  return "unknown";
}

namespace {

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr Alias aliases[] = {{"float32", f32}, {"float64", f64}, {"int32", s32}, {"int64", s64},
                             {"uint32", u32},  {"uint8", u8},    {"i32", s32},   {"i64", s64}};

}  // namespace

DType dtype_from_string(std::string_view name) {
  for (const DType dtype : all_dtypes) {
    if (name == to_string(dtype)) return dtype;
  }
  for (const Alias& alias : aliases) {
    if (name == alias.name) return alias.dtype;
  }
  throw Error(Errc::invalid_argument,
              core::text(core::in_quotes(name), " is not an element type; use f32, f64, s32, s64, u32 or u8"));
}

}  // namespace tessera
