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

// How the values of a program are represented (integer_storage.cpp).
//
// An s64 that is computed from indices alone (coordinates, extents, small constants) fits in 32 bits: no buffer that a
// kernel can use has more elements. On a device without 64-bit integers, numbers converted from floats are stored in 32
// bits too: larger ones are clamped to largest_index, and INT64_MIN/MAX become INT32_MIN/MAX, so that overflow wraps
// identically. They can be compared with indices, be offset by them, and be used as indices, as long as no axis is
// longer than longest_axis. Every other use is unsupported, and so are other s64 on such a device.
std::vector<NumberKind> number_kinds(const ir::Program& program, const std::vector<bool>& is_live,
                                     const Target& target);
inline constexpr std::int64_t largest_index = std::int64_t{1} << 30;
inline constexpr std::int64_t longest_axis = std::int64_t{1} << 28;
bool has_clamped_indices(const ir::Program& program, const Target& target);
// The live s64 that are computed from extents, constants and scalars alone and stored in 32 bits: a launch checks that
// they fit.
std::vector<ir::Id> narrow_numbers(const ir::Program& program, const std::vector<bool>& is_live, const Target& target);
// On a device without 64-bit integers: the live values that are computed from s64 scalars. Scalars are usually small,
// and count as indices; a launch checks that all these values fit (Kernel::narrowed).
std::vector<ir::Id> computed_from_scalars(const ir::Program& program, const std::vector<bool>& is_live,
                                          const Target& target);

// The words that a value takes in scratch memory.
constexpr int words_of(NumberKind kind) noexcept { return kind == NumberKind::f64 || kind == NumberKind::s64 ? 2 : 1; }
// The points of a value in tiles of this shape (launch.cpp), for the extents of a launch. Without extents: `unknown` if
// they differ between launches.
inline constexpr std::int64_t unknown = -1;
std::int64_t points_of(const ir::Program& program, ir::Id id, const Tiling& tiling, const std::int64_t* dims);

// Whether a program must be computed tile by tile (kernels.cpp).
bool needs_tiles(const ir::Program& program);
// The first lines of every source (source_text.cpp).
std::string head(const Target& target);
// Tiles of a single point.
Tiling single_points(const ir::Program& program);

// A matrix product, followed by pointwise work at most (products.cpp).
struct Product {
  ir::Id mma = ir::none;
  ir::Id loop = ir::none;   // that adds up such mmas; none: there is a single mma
  ir::Id value = ir::none;  // the product: the result of the loop, or the mma itself
};
std::optional<Product> product_of(const ir::Program& program);

// How a workgroup computes a block of a product: `lanes` invocations along the rows and columns, each with `each` by
// `each` neighbours, and as much of the inner axis at a time as fits in the workgroup's memory.
struct Blocking {
  int lanes[2] = {1, 1};
  int each = 4;
  int depth = 1;

  int extent(std::size_t axis) const { return lanes[axis] * each; }
  // The distance in elements from one index of the inner axis to the next, in an operand's block. Neighbours of the
  // left operand along the inner axis are written together: the padding puts them into different banks of the memory.
  int stride(std::size_t operand) const { return extent(operand) + (operand == 0 ? 4 : 0); }
};
// For a product whose inner axis has this many elements; 0: any number. Nothing if the workgroup's memory is too small.
std::optional<Blocking> blocking_of(const Target& target, NumberKind kind, std::int64_t inner);

// Prints one program.
//
// Like the CPU's emitter, it evaluates a value at a *point*, and evaluating prints statements. There are three forms.
// In the first, an invocation computes points of the output one by one: the tile is a single point. In the second, a
// workgroup computes a tile in *stages*: the invocations share the points of each value that ValueAnalysis calls
// materialised, which is stored in the workgroup's memory or in scratch memory, followed by a barrier. In the third, a
// workgroup computes a *block* of a matrix product: the operands are copied to the workgroup's memory, and an
// invocation adds up several elements at a time.
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
  std::string index(ir::Id id, const Point& point = {});  // clamped to 32 bits
  std::string extent(ir::Id id);                          // of a shape: not negative
  std::string count(ir::Id id);                           // of a loop
  std::string compute(ir::Id id, const Point& point);
  Point operand_point(const ir::Op& op, ir::Id operand, const Point& point) const;
  std::string leaf(ir::Id id, const Point& point);
  std::string reshaped(const ir::Op& op, const Point& point);
  std::string sliced(ir::Id id, const Point& point);
  std::string inline_loop(const ir::Op& loop, ir::Id wanted, const Point& point);
  std::string inline_mma(ir::Id id, const Point& point);
  std::string inline_reduction(ir::Id id, const Point& point);
  bool loses_bits(const ir::Op& reduction) const;
  void add_exactly(const std::string& sum, const std::string& lost, const std::string& value);
  static std::string with_lost(const std::string& sum, const std::string& lost);
  Point mma_point(ir::Id operand, const Point& point, const std::string& row, const std::string& column) const;

  // Arithmetic (arithmetic.cpp).
  NumberKind kind(ir::Id id) const { return kinds_[static_cast<std::size_t>(id)]; }
  std::string as(NumberKind to, ir::Id id, const std::string& value) const;  // converts a value of another kind
  std::string elementwise(ir::Id id, const std::vector<std::string>& x);
  void note_function(ir::Code code, NumberKind kind);
  std::string unary(const ir::Op& op, NumberKind kind, const std::string& x) const;
  std::string binary(const ir::Op& op, ir::Type type, NumberKind kind, const std::string& a,
                     const std::string& b) const;
  std::string wrapping(NumberKind kind, const std::string& a, std::string_view sign, const std::string& b) const;
  std::string converted(const ir::Op& op, ir::Id operand, const std::string& given) const;
  std::string combined(ir::Code code, NumberKind kind, ir::Type type, const std::string& a, const std::string& b) const;
  std::string identity(const ir::Op& reduction, NumberKind kind) const;
  std::string is_greater(NumberKind kind, const std::string& a, const std::string& b) const;  // for argmax
  std::string call(std::string_view name, NumberKind kind, const std::string& a) const;

  // Memory (memory.cpp).
  std::string loaded(ir::Id id, const Point& point);
  std::string inside_border(const ir::Op& op, std::size_t axis, NumberKind kind, const std::string& index,
                            const std::string& extent, std::string& is_inside);
  bool is_inside(const ir::Op& op, std::size_t axis) const;
  std::string load_element(int buffer, const std::string& at) const;
  void store_element(const std::string& at, const std::string& value);
  std::string offset(const std::vector<std::string>& indices, const std::vector<std::string>& extents);
  std::string from_scratch(ir::Id id, const Point& point);
  std::string scratch_element(ir::Id id, const std::string& at) const;
  void to_scratch(ir::Id id, const std::string& at, const std::string& value);
  void to_words(const std::string& base, NumberKind of, const std::string& at, const std::string& value);

  // Whole kernels (kernels.cpp).
  void open_share(const std::string& piece, const std::string& pieces);
  void print_points();

  // Four points at a time (quads.cpp).
  void print_quads();
  void load_quads();
  void store_quad(const std::vector<std::string>& values);
  bool is_vector(ir::Id id, std::set<ir::Id>& known) const;
  std::string vector_of(ir::Id id, std::map<ir::Id, std::string>& made);

  // Around the body (source_text.cpp).
  void declare_arguments();
  void find_numbers();
  std::string_view declared_element(ir::Type type) const;
  std::string declared_buffers() const;
  std::string declared_shared_memory();
  void assemble_source();

  // Blocks of products (products.cpp).
  void print_blocks();
  std::vector<std::string> started_sums(const std::vector<Point>& points);
  void add_up(std::vector<std::string>& sums);
  void fill_blocks(const std::string& first, const std::string& count, bool is_whole);
  void add_step(const std::vector<std::string>& sums, const std::string& k);
  void store_block(const std::vector<Point>& points);
  // OpenCL C has vector types, which compilers for processors map to vector instructions.
  int sums_at_once() const { return target_.dialect == Dialect::opencl ? 4 : 1; }
  std::string multiplied_and_added(ir::Id mma, const std::string& a, const std::string& b,
                                   const std::string& sum) const;

  // Tiles in stages (stages.cpp).
  void open_tiles();
  void print_tiles();
  void print_region(int region);
  void print_stage(ir::Id id);
  void print_barrier();
  void print_reduction_stage(ir::Id id);
  // What an invocation has found of a reduction, in variables.
  struct Partial {
    NumberKind of = NumberKind::f32;
    std::string value;
    std::string where;  // argmax: the index of the value; else empty
  };
  Partial reduced_share(ir::Id id, const Point& point, const std::string& count);
  void combine_partials(const ir::Op& op, const Partial& partial);
  void print_loop_stage(ir::Id id);
  void print_store();
  void each_point(const std::vector<std::string>& extents, std::vector<ir::Id> ids,
                  const std::function<void(const Point&, const std::string&)>& body);
  Point unravelled(const std::string& number, const std::vector<std::string>& extents);
  std::string product(const std::vector<std::string>& extents);
  std::vector<std::string> extents_of(ir::Id id);
  bool is_own_stage(ir::Id id) const;
  void allocate_scratch();
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
  // A loop over a count, which is the product of `extents`, with a step. It is noted for Kernel::steps.
  void open_loop(const std::string& counter, const std::string& first, const std::string& count, int step,
                 std::vector<ir::Id> extents);
  void close_loop();
  // Notes a loop inside a function that is called.
  void note_loop(std::int64_t most);
  // The same around a body that is printed for the counter, unrolled where steps are limited. Without extents the count
  // is at most `most`.
  void count_up(const std::string& first, const std::string& count, int step, std::vector<ir::Id> extents,
                const std::function<void(const std::string&)>& body, std::int64_t most = 0);
  std::string name(std::string_view stem) { return core::text(stem, ++names_); }
  std::string declare(NumberKind kind, const std::string& value);
  std::string declare_index(const std::string& value);
  static std::string plus(const std::string& a, const std::string& b);
  static std::string times(const std::string& a, const std::string& b);
  void forget() { known_.pop_back(); }

  const ir::Program& program_;
  const Target& target_;
  int group_;  // invocations of a workgroup
  Syntax syntax_;
  Tiling tiling_;
  ValueAnalysis analysis_;
  std::vector<NumberKind> kinds_;
  std::optional<Product> product_;  // of the third form
  Blocking blocking_;
  bool has_stages_ = false;  // the second form
  bool has_quads_ = false;   // the first form, four points at a time

  std::string arguments_;  // declarations of the kernel's arguments
  std::string body_;
  int depth_ = 1;
  int names_ = 0;
  std::vector<Known> known_;
  std::vector<std::vector<std::string>> dims_;
  std::vector<std::string> scalars_;
  std::map<ir::Id, std::string> numbers_;  // passed as arguments
  std::vector<std::string> origins_, blocks_, tile_dims_;
  std::map<int, std::string> quads_;  // by buffer: the four elements that were read
  int component_ = 0;                 // which of the four is computed
  ir::Id computing_ = ir::none;

  // Where a materialised value is: an array in the workgroup's memory, or a variable with its offset in scratch memory.
  struct ScratchSlot {
    bool is_shared = false;
    std::string name;
    std::int64_t elements = 0;  // of the array
  };
  std::map<ir::Id, ScratchSlot> scratch_of_;
  std::map<ir::Id, std::string> spare_of_;  // by value that a loop carries: where the next values go
  std::int64_t shared_used_ = 0;
  bool uses_reduction_memory_ = false;
  std::vector<int> open_loops_;
  Kernel result_;
};

}  // namespace tessera::compile::gpu
