#pragma once

#include "ir/ir.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The rules of types and shapes: the builder applies them, the verifier checks them.
namespace tessera::ir {

using Extents = std::vector<Id>;

constexpr bool is_unary(Code code) noexcept { return code >= Code::neg && code <= Code::bit_not; }
constexpr bool is_binary(Code code) noexcept { return code >= Code::add && code <= Code::ge; }
constexpr bool is_comparison(Code code) noexcept { return code >= Code::eq && code <= Code::ge; }
constexpr bool is_pointwise(Code code) noexcept { return code >= Code::neg && code <= Code::nearest; }
constexpr bool is_reduction(Code code) noexcept { return code >= Code::reduce_sum && code <= Code::argmax; }

// Errc::invalid_kernel: "[name] what".
[[noreturn]] void fail(const Program& program, std::string_view what);

// "tile 0", "dim 1 of x", "16"; "[tile 0, 16]"; "f32[tile 0, 16]", "f32" of rank 0.
std::string extent_text(const Program& program, Id extent);
std::string shape_text(const Program& program, std::span<const Id> shape);
std::string value_text(const Program& program, Id id);

bool is_one(const Program& program, Id extent) noexcept;
// Whether they are equal in every call.
bool is_same_extent(const Program& program, Id a, Id b) noexcept;
bool is_same_shape(const Program& program, std::span<const Id> a, std::span<const Id> b) noexcept;
// Whether the shapes have the same number of points in every call.
bool is_same_size(const Program& program, std::span<const Id> a, std::span<const Id> b);
// Whether an op may be an extent if its operands may: it must be known before a tile is computed.
bool is_known_before(const Op& op) noexcept;

// The shape that two shapes broadcast to; nothing if they do not.
std::optional<Extents> broadcast_shape(const Program& program, std::span<const Id> a, std::span<const Id> b);
// The shape that all operands broadcast to; fails with a message for the user if they do not.
Extents broadcast_all(const Program& program, std::span<const Id> operands);
// Fails unless `from` can be broadcast to exactly `to`.
void check_broadcasts_to(const Program& program, std::span<const Id> from, std::span<const Id> to);

// The type of a pointwise op or a reduction; fails if it does not take these operands.
Type result_type(const Program& program, Code code, std::span<const Id> operands);
// Fails unless the operands of an mma have matching shapes.
void check_mma(const Program& program, Id a, Id b, Id c);

}  // namespace tessera::ir
