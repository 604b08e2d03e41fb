#include "driver/gpu/vulkan/float_controls.hpp"

#include <cstddef>

namespace tessera::driver::gpu::vulkan {

namespace {

// Numbers of the SPIR-V specification.
constexpr std::size_t header_words = 5;
constexpr std::uint32_t op_entry_point = 15, op_execution_mode = 16, op_capability = 17;
constexpr std::uint32_t float64 = 10, denorm_preserve = 4464, signed_zero_inf_nan_preserve = 4466;
constexpr std::uint32_t denorm_preserve_mode = 4459, signed_zero_inf_nan_preserve_mode = 4461;

std::uint32_t first_word(std::uint32_t op, std::uint32_t length) { return length << 16 | op; }

struct Additions {
  std::vector<std::uint32_t> capabilities, modes;

  void ask(const FloatControls::Widths& widths, std::uint32_t capability, std::uint32_t mode, std::uint32_t entry,
           bool uses_f64) {
    const bool has_f64 = widths.f64 && uses_f64;
    if (!widths.f32 && !has_f64) return;
    capabilities.insert(capabilities.end(), {first_word(op_capability, 2), capability});
    for (const std::uint32_t bits : {32U, 64U}) {
      if (bits == 32 ? widths.f32 : has_f64) {
        modes.insert(modes.end(), {first_word(op_execution_mode, 4), entry, mode, bits});
      }
    }
  }
};

}  // namespace

void add_float_controls(std::vector<std::uint32_t>& words, const FloatControls& controls) {
  bool uses_f64 = false;
  std::uint32_t entry = 0;
  std::size_t after_entry = 0;
  // Capabilities come first, then the entry point, then its modes.
  for (std::size_t at = header_words; at < words.size() && entry == 0;) {
    const std::uint32_t op = words[at] & 0xffffU, length = words[at] >> 16;
    if (length == 0 || at + length > words.size()) return;  // not SPIR-V
    if (op == op_capability && words[at + 1] == float64) uses_f64 = true;
    if (op == op_entry_point) entry = words[at + 2];
    at += length;
    after_entry = at;
  }
  if (entry == 0) return;
  Additions added;
  added.ask(controls.denormals, denorm_preserve, denorm_preserve_mode, entry, uses_f64);
  added.ask(controls.specials, signed_zero_inf_nan_preserve, signed_zero_inf_nan_preserve_mode, entry, uses_f64);
  words.insert(words.begin() + static_cast<std::ptrdiff_t>(after_entry), added.modes.begin(), added.modes.end());
  words.insert(words.begin() + header_words, added.capabilities.begin(), added.capabilities.end());
}

}  // namespace tessera::driver::gpu::vulkan
