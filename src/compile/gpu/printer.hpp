#pragma once

#include "compile/gpu/dialect.hpp"
#include "compile/gpu/source.hpp"
#include "compile/passes/value_analysis.hpp"
#include "core/text.hpp"
#include "ir/ir.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::compile::gpu {

// The device, for messages: "llvmpipe (vulkan)".
std::string full_name(const Target& target);

// How the values of a program are kept (kept.cpp).
//
// An s64 that is computed from places alone (coordinates, extents, small numbers) is one of 32 bits: no buffer that a
// kernel can use has as many elements. Where the device has no 64-bit integers, numbers that come from floats are kept
// in 32 bits too: those from farthest_place on become that, but the ends of s64 those of s32, which come round alike.
// So they can be compared with places, be moved by some, and say where to read, as long as no axis is longer than
// longest_axis. What else is done with them is unsupported, and so are others.
std::vector<Kept> kept_as(const ir::Program& program, const std::vector<bool>& is_live, const Target& target);
inline constexpr std::int64_t farthest_place = std::int64_t{1} << 30;
inline constexpr std::int64_t longest_axis = std::int64_t{1} << 28;
bool has_far_places(const ir::Program& program, const Target& target);

// The words of a value in scratch memory.
constexpr int words_of(Kept kept) noexcept { return kept == Kept::f64 || kept == Kept::s64 ? 2 : 1; }
// The points of a value in tiles of this shape (launch.cpp), for the extents of a launch; without them `unknown`, if
// one of its extents is.
inline constexpr std::int64_t unknown = -1;
std::int64_t points_of(const ir::Program& program, ir::Id id, const Tiling& tiling, const std::int64_t* dims);

// Whether a program must be computed tile by tile (kernels.cpp).
bool needs_tiles(const ir::Program& program);
// What every text begins with (kernels.cpp).
std::string head(const Target& target);
// A point at a time.
Tiling single_points(const ir::Program& program);

// A matrix product, and what is done to each of its elements by itself (products.cpp).
struct Product {
  ir::Id mma = ir::none;
  ir::Id loop = ir::none;   // that adds up such mmas; none: there is one
  ir::Id value = ir::none;  // the product: what the loop leaves, or the mma itself
};
std::optional<Product> product_of(const ir::Program& program);

// How a workgroup does a block of a product: so many of its invocations along the rows and columns, each with so many
// neighbours either way, and so much of the inner axis at a time as its memory has room for.
struct Blocking {
  int lanes[2] = {1, 1};
  int each = 4;
  int depth = 1;

  int extent(std::size_t axis) const { return lanes[axis] * each; }
  // Elements of an operand's block from one place of the inner axis to the next. Of the left operand neighbours along
  // the inner axis are written together: those in between keep them out of each other's banks of the memory.
  int stride(std::size_t operand) const { return extent(operand) + (operand == 0 ? 4 : 0); }
};
// For a product whose inner axis has so many elements; 0: any number. Empty if there is hardly any room.
std::optional<Blocking> blocking_of(const Target& target, Kept kept, std::int64_t inner);

// Prints one program.
//
// As the CPU's emitter does, it asks for a value at a *point*, and asking prints statements. There are three forms. In
// the first one an invocation computes points of the output, each by itself: the tile is one point. In the second a
// workgroup computes a tile in *stages*: the invocations share the points of each value that Analysis calls
// materialised, which is kept in the workgroup's memory or in scratch memory, with a barrier after it. In the third a
// workgroup computes a *block* of a matrix product: the operands go through the workgroup's memory, and an invocation
// adds up several elements at a time.
class Printer {
 public:
  Printer(const ir::Program& program, const Target& target, Form form);
  Kernel print();

 private:
  using Point = std::vector<std::string>;  // a coordinate for each axis: a variable or a number
  using Known = std::map<std::pair<ir::Id, Point>, std::string>;

  // Values at points (values.cpp): a variable or a number.
  std::string eval(ir::Id id, const Point& point);
  std::string scalar(ir::Id id) { return eval(id, {}); }
  std::string place(ir::Id id, const Point& point = {});  // as a number of 32 bits
  std::string compute(ir::Id id, const Point& point);
  Point operand_point(const ir::Op& op, ir::Id operand, const Point& point) const;
  std::string leaf(ir::Id id, const Point& point);
  std::string reshaped(const ir::Op& op, const Point& point);
  std::string sliced(ir::Id id, const Point& point);
  std::string inline_loop(const ir::Op& loop, ir::Id asked, const Point& point);
  std::string inline_mma(ir::Id id, const Point& point);
  std::string inline_reduction(ir::Id id, const Point& point);
  bool loses_bits(const ir::Op& reduction) const;
  void add_exactly(const std::string& sum, const std::string& lost, const std::string& value);
  static std::string with_lost(const std::string& sum, const std::string& lost);
  Point mma_point(ir::Id operand, const Point& point, const std::string& row, const std::string& column) const;

  // Arithmetic (arithmetic.cpp).
  Kept kept(ir::Id id) const { return kept_[static_cast<std::size_t>(id)]; }
  std::string as(Kept to, ir::Id id, const std::string& value) const;  // of a value whose form is another
  std::string elementwise(ir::Id id, const std::vector<std::string>& x);
  void note_function(ir::Code code, Kept kept);
  std::string unary(const ir::Op& op, Kept kept, const std::string& x) const;
  std::string binary(const ir::Op& op, ir::Type type, Kept kept, const std::string& a, const std::string& b) const;
  std::string wrapping(Kept kept, const std::string& a, std::string_view sign, const std::string& b) const;
  std::string converted(const ir::Op& op, ir::Id operand, const std::string& given) const;
  std::string combined(ir::Code code, Kept kept, ir::Type type, const std::string& a, const std::string& b) const;
  std::string identity(const ir::Op& reduction, Kept kept) const;
  std::string is_greater(Kept kept, const std::string& a, const std::string& b) const;  // for argmax
  std::string call(std::string_view name, Kept kept, const std::string& a) const;

  // Memory (memory.cpp).
  std::string loaded(ir::Id id, const Point& point);
  std::string inside_border(const ir::Op& op, std::size_t axis, Kept kept, const std::string& index,
                            const std::string& extent, std::string& is_inside);
  bool is_inside(const ir::Op& op, std::size_t axis) const;
  std::string load_element(int buffer, const std::string& at) const;
  void store_element(const std::string& at, const std::string& value);
  std::string offset(const std::vector<std::string>& indices, const std::vector<std::string>& extents);
  std::string from_scratch(ir::Id id, const Point& point);
  std::string scratch_element(ir::Id id, const std::string& at) const;
  void to_scratch(ir::Id id, const std::string& at, const std::string& value);
  void to_words(const std::string& base, Kept of, const std::string& at, const std::string& value);

  // Whole kernels (kernels.cpp).
  void open_share(const std::string& piece, const std::string& pieces);
  void print_points();
  void print_quads();
  bool is_vector(ir::Id id, std::set<ir::Id>& known) const;
  std::string vector_of(ir::Id id, std::map<ir::Id, std::string>& made);
  std::string_view declared_element(ir::Type type) const;
  std::string declared_buffers() const;

  // Blocks of products (products.cpp).
  void print_blocks();
  std::vector<std::string> started_sums(const std::vector<Point>& points);
  void add_up(std::vector<std::string>& sums);
  void fill_blocks(const std::string& first, const std::string& count, bool is_whole);
  void add_step(const std::vector<std::string>& sums, const std::string& k);
  void store_block(const std::vector<Point>& points);
  // OpenCL has vectors in its language, and compilers for processors take them as they are.
  int sums_at_once() const { return target_.dialect == Dialect::opencl ? 4 : 1; }
  std::string multiplied_and_added(ir::Id mma, const std::string& a, const std::string& b,
                                   const std::string& sum) const;

  // Tiles in stages (stages.cpp).
  void open_tiles();
  void print_tiles();
  void print_region(int region);
  void print_stage(ir::Id id);
  void print_reduction_stage(ir::Id id);
  void print_loop_stage(ir::Id id);
  void print_store();
  void each_point(const std::vector<std::string>& extents, std::vector<ir::Id> ids,
                  const std::function<void(const Point&, const std::string&)>& body);
  Point unravelled(const std::string& number, const std::vector<std::string>& extents);
  std::string product(const std::vector<std::string>& extents);
  std::vector<std::string> extents_of(ir::Id id);
  bool is_own_stage(ir::Id id) const;
  void place_scratch();
  bool is_materialised(ir::Id id) const {
    return has_stages_ && analysis_.is_materialised[static_cast<std::size_t>(id)];
  }
  const std::string& dim(int buffer, int axis) const {
    return dims_[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)];
  }

  // Text.
  void line(const std::string& text);
  void open(const std::string& text);  // a block
  void close();
  // A loop over a count, with a step, which is noted: `extents` are those whose product it is.
  void open_loop(const std::string& counter, const std::string& first, const std::string& count, int step,
                 std::vector<ir::Id> extents);
  void close_loop();
  // A loop inside of a function that is called.
  void note_loop(std::int64_t most);
  // The same around a body that is printed for the counter; several steps in one where steps are few. Or over so many
  // at most, without extents.
  void count_up(const std::string& first, const std::string& count, int step, std::vector<ir::Id> extents,
                const std::function<void(const std::string&)>& body, std::int64_t most = 0);
  std::string name(std::string_view stem) { return core::text(stem, ++names_); }
  std::string declare(Kept kept, const std::string& value);
  std::string declare_place(const std::string& value);
  static std::string plus(const std::string& a, const std::string& b);
  static std::string times(const std::string& a, const std::string& b);
  void forget() { known_.pop_back(); }

  const ir::Program& program_;
  const Target& target_;
  Words words_;
  Tiling tiling_;
  Analysis analysis_;
  std::vector<Kept> kept_;
  std::optional<Product> product_;  // the third form
  Blocking blocking_;
  bool has_stages_ = false;  // the second
  bool has_quads_ = false;   // the first, four points at a time

  std::string body_;
  int depth_ = 1;
  int names_ = 0;
  std::vector<Known> known_;
  std::vector<std::vector<std::string>> dims_;
  std::vector<std::string> scalars_;
  std::vector<std::string> origins_, blocks_, tile_dims_;
  std::map<int, std::string> quads_;  // by buffer: the four elements that were read
  int component_ = 0;                 // which of the four is computed
  ir::Id computing_ = ir::none;

  // Where materialised values are: an array of the workgroup's, or a variable with the place in scratch memory.
  struct Place {
    bool is_shared = false;
    std::string name;
    std::int64_t elements = 0;  // of the array
  };
  std::map<ir::Id, Place> scratch_of_;
  std::map<ir::Id, std::string> spare_of_;  // of what a loop carries: where the next values go
  std::int64_t shared_used_ = 0;
  bool uses_reduction_memory_ = false;
  std::vector<int> open_loops_;
  Kernel result_;
};

}  // namespace tessera::compile::gpu
