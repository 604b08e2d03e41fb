#pragma once

#include "ir/ir.hpp"

#include <cstddef>

namespace tessera::ir {

// Whether every point of the output depends on the same point of each input, and on no coordinate: then adjacent axes
// that all operands traverse alike can be merged.
bool is_pointwise(const Program& program);

// Whether a point of the output depends on no other point of this buffer: then the buffer may be the output itself.
bool reads_in_place(const Program& program, int buffer);

// Whether two pointwise programs compute the same, even if their ranks differ.
bool is_same_pointwise(const Program& a, const Program& b);

// Whether two programs are equal up to their names; and a hash that is equal for such programs.
bool is_same_code(const Program& a, const Program& b);
std::size_t hash_code(const Program& program);

}  // namespace tessera::ir
