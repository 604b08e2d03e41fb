#pragma once

#include "ir/ir.hpp"
#include "ir/rules.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::ir {

// Builds a program. Equal ops become one value where it is visible: inner regions use values of outer ones, never the
// other way round. Integer arithmetic of rank 0 is folded at once, so that extents stay canonical.
//
// Mistakes throw Errc::invalid_kernel, with a message for the author of the kernel. Axes count from 0.
class Builder {
 public:
  Builder(std::string name, std::vector<Buffer> buffers, std::vector<Scalar> scalars,
          std::vector<std::int64_t> tile = {});

  void reserve(std::size_t ops);  // for a program of about this many ops

  const Program& program() const noexcept { return program_; }
  const Op& operator[](Id id) const { return program_[id]; }
  int rank(Id id) const { return static_cast<int>(program_[id].shape.size()); }
  bool is_visible(Id id) const noexcept;  // from the region where ops are added now

  Id integer(Type type, std::int64_t value);  // of an integer type or boolean
  Id number(Type type, double value);         // of a float
  Id index(std::int64_t value) { return integer(Type::s64, value); }
  Id scalar(int number);
  Id dim(int buffer, int axis);
  Id tile_dim(int axis);
  Id origin(int axis);
  Id block(int axis);
  Id iota(const Extents& shape, int axis);
  Extents tile_shape();

  Id load(int buffer, const std::vector<Id>& indices, Border border, std::vector<std::int64_t> steps = {});
  Id unary(Code code, Id a);
  Id binary(Code code, Id a, Id b);
  Id select(Id condition, Id yes, Id no);
  Id fma(Id a, Id b, Id c);
  Id convert(Code code, Type type, Id a);  // Code::convert or nearest

  Id broadcast(Id a, const Extents& shape);
  Id reshape(Id a, const Extents& shape);
  Id transpose(Id a, const std::vector<std::int64_t>& axes);
  Id slice(Id a, const std::vector<Id>& start, const Extents& shape);
  // Reads a part, which begins at `start`, of a buffer with these extents, at `indices`.
  Id pick(Id a, const std::vector<Id>& start, const Extents& extents, const std::vector<Id>& indices, Border border,
          std::vector<std::int64_t> steps = {});
  Id reduce(Code code, Id a, int axis);
  Id mma(Id a, Id b, Id c);

  // Ops added between the two are the body of the loop; arguments() are its counter and carried values.
  void begin_loop(Id count, const std::vector<Id>& initial);
  const std::vector<Id>& arguments() const { return program_.regions[static_cast<std::size_t>(region_)].arguments; }
  std::vector<Id> end_loop(const std::vector<Id>& results);
  bool is_in_loop() const noexcept { return region_ != 0; }

  void same_extent(SameExtent same);
  // Stores the output, which ends the program.
  Program store(Id value) &&;

  // Adds an op unchecked: the caller is responsible for its type and shape.
  Id make(Op op);

 private:
  Id append(Op op);
  Id leaf(Code code, Type type, int axis, int index);
  std::optional<Id> folded(Code code, Id a, Id b);
  std::optional<Id> simplified(Code code, Id a, Id b);
  void check_shape(const Extents& shape) const;
  void check_index(Id id, std::string_view what, bool is_single) const;

  struct OpenLoop {
    Id count;
    std::vector<Id> initial;
  };

  Program program_;
  int region_ = 0;
  std::vector<OpenLoop> open_;
  std::vector<bool> is_known_;  // may be an extent
  std::unordered_multimap<std::size_t, Id> known_ops_;
};

}  // namespace tessera::ir
