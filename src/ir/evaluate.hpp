#pragma once

#include "ir/array.hpp"
#include "ir/ir.hpp"

#include <cstddef>
#include <span>

// The operations of the IR on whole arrays, one at a time.
namespace tessera::ir {

Value single(std::int64_t number);  // rank 0, s64
Value constant(const Op& op);
// A scalar of a call, from its 64 bits.
Value scalar(Type type, std::uint64_t bits);
Value iota(const Dims& dims, int axis);
// `indices` are broadcast to dims.
Value load(const Op& op, const std::byte* buffer, std::span<const std::int64_t> buffer_dims,
           std::span<const Value> indices, const Dims& dims);
// The same for a part of a buffer, which begins at `start`.
Value pick(const Op& op, const Array& part, std::span<const Value> start, std::span<const Value> extents,
           std::span<const Value> indices, const Dims& dims);
// Codes from neg to nearest; the operands have the shape of the result.
Value pointwise(const Op& op, std::span<const Value> operands);
Value reshape(const Value& x, const Dims& dims);
Value transpose(const Array& x, std::span<const std::int64_t> axes);
Value slice(const Array& x, std::span<const Value> start, const Dims& dims);
// Codes from reduce_sum to argmax.
Value reduce(const Op& op, const Array& x);
Value mma(const Value& a, const Value& b, const Value& c);

}  // namespace tessera::ir
