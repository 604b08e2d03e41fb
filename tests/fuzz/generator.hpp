#pragma once

#include "fuzz/choices.hpp"
#include "fuzz/known.hpp"
#include "fuzz/sample.hpp"
#include "ir/builder.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tessera::fuzz {

struct Extent {
  ir::Id id = ir::none;
  std::int64_t most = 1;   // what it is when the program runs
  bool is_one = false;     // for sure
  std::int64_t value = 1;  // as `most`, but negative if it is
};
using Shape = std::vector<Extent>;

struct Value {
  ir::Id id = ir::none;
  ir::Type type = ir::Type::s64;
  Shape shape;
  Known known;

  std::size_t rank() const noexcept { return shape.size(); }
};

// Makes a valid program of random operations. Of other types than these are only places, and what follows from them.
class Generator {
 public:
  explicit Generator(Choices& choices, const std::vector<ir::Type>& types = all_types);
  Sample make();

 private:
  using Test = std::function<bool(const Value&)>;

  // What the program is about.
  void declare();
  std::vector<std::int64_t> random_dims(std::size_t rank);
  void declare_input();
  void declare_tile();
  void declare_scalars();
  void make_extents();
  void add_extent();
  void add_extent(ir::Code code, const Extent& a, const Extent& b, std::int64_t value);
  void add_huge_tile();

  // Values to choose from. The latest is the simplest choice.
  std::optional<Value> pick(const Test& test);
  std::optional<Value> pick_of_type(ir::Type type, const Shape& meets, bool may_be_loose);
  Value operand_like(const Value& a, bool may_be_loose);
  Value& keep(Value value);

  // Extents and their meeting.
  std::optional<Shape> meet(const Shape& a, const Shape& b) const;
  bool is_same(const Extent& a, const Extent& b) const { return a.id == b.id || (a.is_one && b.is_one); }
  bool broadcasts_to(const Shape& from, const Shape& to) const;
  ir::Extents ids(const Shape& shape) const;
  Shape tile_shape() const { return tile_; }
  Extent one() const { return {one_, 1, true, 1}; }
  bool affords(const Shape& shape, double times = 1);

  // Steps: each adds a value or does nothing.
  bool step();
  void add_leaf();
  void add_load();
  void add_load_like();
  void add_unary();
  void add_binary();
  void add_fixed_point();
  void add_comparison();
  void add_select();
  void add_fma();
  void add_conversion();
  void add_broadcast();
  void add_reshape();
  void add_transpose();
  void add_slice();
  void add_reduction();
  void add_mma();
  void add_loop();

  // Operations that know what is known of their results.
  Value constant(ir::Type type, double number);
  Value output_index(std::size_t axis);
  Value binary(ir::Code code, const Value& a, const Value& b, const Known& known);
  Value unary(ir::Code code, const Value& a, const Known& known);
  Value clamped(const Value& a, double most);
  Value tame(const Value& a) { return is_tame(a.known) ? a : clamped(a, 4); }
  Value positive(const Value& a);  // |a| + 1/2
  std::optional<Value> integer_binary(ir::Code code, const Value& a, const Value& b);
  std::optional<Value> float_binary(ir::Code code, Value a, Value b);
  Value sum_of(ir::Code code, Value a, Value b);
  std::optional<Value> float_quotient(Value a, Value b);
  std::optional<Value> float_power(Value a, Value b);
  std::optional<Value> float_unary(ir::Code code, const Value& a);
  Value transposed(Value a);
  Value broadcast_to(const Value& a, const Shape& shape);
  std::optional<Value> converted_to(const Value& a, ir::Type type, ir::Code code = ir::Code::convert);
  std::optional<Value> reduced(ir::Code code, Value a, std::size_t axis);
  Value index_for(std::size_t buffer, std::size_t axis, const Shape& meets);

  // Loops.
  struct Carried {
    Value initial;
    bool is_sum = false;  // seen by nothing but the sum itself
  };
  Value loop_count();
  std::vector<Carried> pick_carried();
  Value next_free(const Value& argument);
  Value next_sum(const Value& argument, Known& added);

  // What is stored.
  std::optional<Value> fitted(Value a);
  Value final_value();

  Choices& choices_;
  Sample sample_;
  std::vector<ir::Buffer> buffers_;
  std::vector<ir::Scalar> scalars_;
  std::vector<std::int64_t> tile_extents_;
  std::optional<ir::Builder> builder_;
  ir::Id one_ = ir::none;
  Shape tile_;
  std::vector<Shape> dims_;      // of the buffers
  std::vector<Extent> extents_;  // for new shapes
  std::vector<Value> pool_;
  double cost_ = 0;
  double times_ = 1;  // how often what is made now runs
  int depth_ = 0;     // of loops
};

}  // namespace tessera::fuzz
