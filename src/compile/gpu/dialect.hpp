#pragma once

#include "compile/gpu/source.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::compile::gpu {

// How a value is kept while it is computed. A u8 is a number of 32 bits without sign; an s64 that is a place, as most
// are, a number of 32 bits.
enum class Kept : std::uint8_t { f32, f64, s32, s64, u32, boolean };

constexpr bool is_float(Kept kept) noexcept { return kept == Kept::f32 || kept == Kept::f64; }

// What the languages say differently.
class Words {
 public:
  explicit Words(const Target& target) : dialect_(target.dialect) {}

  bool is_glsl() const noexcept { return dialect_ == Dialect::vulkan || dialect_ == Dialect::gles; }
  std::string_view type(Kept kept) const;
  std::string_view variable(Kept kept) const;       // the type of a variable that is rounded as it is written
  std::string_view wrapping_type(Kept kept) const;  // of the numbers that sums are computed in: in C without a sign
  std::string_view element(ir::Type type) const;    // of a buffer, in OpenCL C and CUDA C
  std::string number(Kept kept, double value) const;
  std::string integer(Kept kept, std::int64_t value) const;
  std::string cast(Kept to, const std::string& value) const;
  std::string_view barrier() const;  // of a workgroup: what it wrote, it sees
  std::string from_bits(Kept to, const std::string& low, const std::string& high = {}) const;
  // A word of a value, of f64 and s64 the first or second.
  std::string bits(Kept of, const std::string& value, int word) const;

 private:
  Dialect dialect_;
};

// Functions that the text may need: what the languages lack, or leave too much room for. Their names end in the type
// that they work on: "t_exp_f32".
std::string functions(const std::string& body, const Target& target);

}  // namespace tessera::compile::gpu
