#pragma once

#include "fuzz/known.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::fuzz {

// The types of elements, the simplest first.
inline const std::vector<ir::Type> all_types = {ir::Type::f32, ir::Type::s32, ir::Type::f64,
                                                ir::Type::s64, ir::Type::u8,  ir::Type::u32};

// What a buffer or a scalar is filled with.
enum class Fill : std::uint8_t {
  small,    // halves between -4 and 4, integers between -8 and 8
  any,      // floats between -4 and 4, any integers
  special,  // NaN, infinities, -0, the ends of the type and the like among small ones
};

// A program and what it runs with.
struct Sample {
  ir::Program program;
  std::vector<std::vector<std::int64_t>> dims;  // of the buffers
  std::vector<Fill> fills;                      // of the buffers
  std::vector<std::uint64_t> scalars;           // as compile.hpp wants them
  Known stored;                                 // what is known of the result
  std::vector<std::uint32_t> choices;           // that make it again
  std::vector<ir::Type> types;                  // to choose from
};

Known known_of(ir::Type type, Fill fill);
// The bytes of a buffer with so many elements.
std::vector<std::byte> filled(ir::Type type, Fill fill, std::size_t count, std::uint64_t seed);

std::string describe(const Sample& sample);

}  // namespace tessera::fuzz
