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

DType dtype_from_string(std::string_view name) {
  for (DType dtype : all_dtypes) {
    if (name == to_string(dtype)) return dtype;
  }
  throw Error(Errc::invalid_argument,
              core::text("'", name, "' is not an element type; use f32, f64, s32, s64, u32 or u8"));
}

}  // namespace tessera
