#pragma once

#include "ir/ir.hpp"

#include <cstddef>

namespace tessera::ir {

// Whether every point of the output depends on the same point of the inputs, of each of them, and on nothing else that
// knows of places: then adjacent axes that all operands step through alike can be taken as one.
bool is_pointwise(const Program& program);

// Whether a point of the output depends on no other point of this buffer: then the buffer may be the output itself.
bool reads_in_place(const Program& program, int buffer);

// Whether two pointwise programs, of whatever ranks, compute the same.
bool is_same_pointwise(const Program& a, const Program& b);

// Whether two programs are the same but for their names; and a number that is equal for such.
bool is_same_code(const Program& a, const Program& b);
std::size_t hash_code(const Program& program);

// What a byte that is read or written costs, roughly, in terms of a copy: 1 for plain arithmetic, more for many
// operations a point, and for loops whose length is not known.
int weight(const Program& program);

}  // namespace tessera::ir
