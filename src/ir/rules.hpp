#pragma once

#include "ir/ir.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What may meet what: the rules of types and shapes that the builder applies and the verifier checks.
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
// Surely, whatever the call.
bool is_same_extent(const Program& program, Id a, Id b) noexcept;
bool is_same_shape(const Program& program, std::span<const Id> a, std::span<const Id> b) noexcept;
// Surely as many points.
bool is_same_size(const Program& program, std::span<const Id> a, std::span<const Id> b);
// What the op may be as an extent, if its operands may: only what is known before a tile is computed.
bool is_known_before(const Op& op) noexcept;

// The shape of two that meet; nothing if they do not fit.
std::optional<Extents> broadcast_shape(const Program& program, std::span<const Id> a, std::span<const Id> b);
// Of the operands from `first` on; fails in the user's words if they do not fit.
Extents meet(const Program& program, std::span<const Id> operands);
// Fails unless `from` can be broadcast to exactly `to`.
void check_broadcasts_to(const Program& program, std::span<const Id> from, std::span<const Id> to);

// The type of a point-wise op or a reduction; fails if it cannot be of these operands.
Type result_type(const Program& program, Code code, std::span<const Id> operands);
// Fails unless the shapes of an mma fit.
void check_mma(const Program& program, Id a, Id b, Id c);

}  // namespace tessera::ir
