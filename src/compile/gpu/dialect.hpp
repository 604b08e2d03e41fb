#pragma once

#include "compile/gpu/source.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::compile::gpu {

// How a value is represented in the kernel. A u8 is an unsigned number of 32 bits; an s64 that is known to fit, as most
// indices are, is an s32.
enum class NumberKind : std::uint8_t { f32, f64, s32, s64, u32, boolean };

constexpr bool is_float(NumberKind kind) noexcept { return kind == NumberKind::f32 || kind == NumberKind::f64; }

// The syntax in which the dialects differ.
class Syntax {
 public:
  explicit Syntax(const Target& target) : dialect_(target.dialect) {}

  bool is_glsl() const noexcept { return dialect_ == Dialect::vulkan || dialect_ == Dialect::gles; }
  std::string_view type(NumberKind kind) const;
  std::string_view variable(NumberKind kind) const;  // the type of a variable whose arithmetic must not be contracted
  std::string_view wrapping_type(NumberKind kind) const;  // in which sums wrap around; in C unsigned
  std::string_view element(ir::Type type) const;          // of a buffer, in OpenCL C and CUDA C
  std::string number(NumberKind kind, double value) const;
  std::string integer(NumberKind kind, std::int64_t value) const;
  std::string cast(NumberKind to, const std::string& value) const;
  std::string widened(const std::string& value) const;  // an s32, a variable or a number, as s64
  std::string_view barrier() const;                     // of a workgroup: its writes become visible to it
  std::string from_bits(NumberKind to, const std::string& low, const std::string& high = {}) const;
  // A word of a value; f64 and s64 have two.
  std::string bits(NumberKind of, const std::string& value, int word) const;

 private:
  Dialect dialect_;
};

// The functions that a body calls, because the languages lack them or specify them too loosely. Their names end in the
// type that they take: "t_exp_f32".
std::string functions(const std::string& body, const Target& target);

}  // namespace tessera::compile::gpu
