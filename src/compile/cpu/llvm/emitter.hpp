#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"
#include "compile/cpu/llvm/element_math.hpp"
#include "compile/cpu/llvm/lane_analysis.hpp"
#include "compile/cpu/llvm/plugin.hpp"
#include "ir/ir.hpp"

#include <array>
#include <functional>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetFolder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tessera::compile::cpu {

// Emits one program as LLVM IR.
//
// The output is computed point by point, `lanes` neighbours along the last axis at a time. A value is not an array: it
// is evaluated at a *point*, which emits the instructions. So element-wise chains fuse by themselves, a loop or a
// matrix product has its accumulators in registers, and evaluating several points at once (`Points`) blocks them in
// registers. Values that ValueAnalysis calls materialised are the exception: a *stage* computes one for the whole tile
// and stores it in scratch memory.
//
// The plain form has these functions:
//   i64 scratch(ptr dims)                          bytes of scratch memory that a call needs; absent if none
//   void kernel(ptr buffers, ptr dims, ptr scalars, ptr scratch, i64 begin, i64 end)
//   kernel_can_stream                              an alias of kernel, if the streaming form exists
// The streaming form has:
//   void kernel_streaming(…)                       the same with non-temporal stores
//
// The class holds what is known while a function is emitted; its parts are in files by topic, named below. Arithmetic
// that needs none of it is in ElementMath and VectorMath, decisions made before anything is emitted in LaneAnalysis.
class Emitter {
 public:
  Emitter(llvm::Module& module, const ir::Program& program, const Tiling& tiling, const Host& host);
  void emit(Form form);

 private:
  // A value at one point: one scalar for all lanes; or, for indices, base + lane * stride; or a vector.
  struct Lanes {
    llvm::Value* base = nullptr;
    llvm::Value* stride = nullptr;  // i64
    bool is_vector = false;

    bool is_uniform() const { return !is_vector && !stride; }
    friend bool operator==(const Lanes&, const Lanes&) = default;
    friend auto operator<=>(const Lanes&, const Lanes&) = default;
  };
  using Point = llvm::SmallVector<Lanes, 4>;  // a coordinate (i64) for each axis
  using Points = std::vector<Point>;
  using Values = std::vector<Lanes>;

  // The computed values that the code being emitted can use, by value and point.
  using Known = std::map<std::pair<ir::Id, Point>, Lanes>;

  struct Stage;  // a loop nest over the points of one value

  // A prefetch of the memory `ahead` + `bytes` bytes after an element.
  struct Prefetch {
    llvm::Value* base = nullptr;
    llvm::Value* start = nullptr;
    std::int64_t bytes = 0;
    llvm::Type* element = nullptr;
    llvm::Value* ahead = nullptr;
    bool is_write = false;
  };

  // Values at points (values.cpp).
  Values eval(ir::Id id, const Points& points);
  Lanes eval(ir::Id id, const Point& point) { return eval(id, Points{point})[0]; }
  Values eval_whole(ir::Id id, const Points& points);                // in all bits of its type
  llvm::Value* scalar(ir::Id id) { return eval(id, Point{}).base; }  // of a value of rank 0
  llvm::Value* extent(ir::Id id);                                    // the same of an extent, which is never negative
  Values compute(ir::Id id, const Points& points);
  bool is_known(ir::Id id, const Points& points) const;
  void eval_operands(ir::Id id, const Points& points);
  bool keeps_points(ir::Id id) const;
  bool is_in_scratch(ir::Id id) const;
  std::vector<ir::Id> operands_of(ir::Id id) const;
  Points operand_points(const ir::Op& op, ir::Id operand, const Points& points);
  Point operand_point(const ir::Op& op, ir::Id operand, const Point& point);
  Lanes compute_one(ir::Id id, const Point& point);
  Lanes reshaped(const ir::Op& op, const Point& point);
  Lanes sliced(const ir::Op& op, const Point& point);
  bool slice_is_inside(const ir::Op& op, std::size_t axis) const;
  void known_insert(ir::Id id, const Point& point, const Lanes& value);

  // Loops at each point (inline_loops.cpp).
  Values inline_loop(const ir::Op& loop, ir::Id wanted, const Points& points);
  Values inline_mma(const ir::Op& op, const Points& points);
  Values inline_reduction(const ir::Op& op, const Points& points);
  Values accumulate(llvm::Value* count, const Values& initial,
                    const std::function<Values(llvm::Value* counter, const Values& sums)>& step);
  bool is_in_blocks(const ir::Op& reduction, llvm::Value* count) const;
  Values sum_of_blocks(llvm::Value* count, Values zeros,
                       const std::function<Values(llvm::Value* first, llvm::Value* count)>& block);

  // Element-wise ops and indices (arithmetic.cpp).
  int scratch_bits(ir::Id id) const;  // of an element of a materialised value
  llvm::Type* scratch_type(ir::Id id);
  llvm::Value* vector(const Lanes& value);  // one element for each lane
  llvm::Value* full(const Lanes& value) { return lanes_ == 1 ? value.base : vector(value); }
  Lanes uniform(llvm::Value* value) const { return {value, nullptr, false}; }
  Lanes varying(llvm::Value* value) const { return {value, nullptr, lanes_ > 1}; }
  Lanes elementwise(ir::Id id, std::span<const Lanes> operands);
  llvm::Value* resized(ir::Id id, llvm::Value* value, int bits);  // extends or truncates an integer
  Lanes resized(ir::Id id, Lanes value, int bits);
  llvm::Value* converted_narrow(ir::Id id, llvm::Value* x);
  Lanes add_indices(const Lanes& a, const Lanes& b);
  Lanes mul_indices(const Lanes& a, const Lanes& b);
  llvm::Value* index_in_group(const Lanes& index, const Lanes& size);
  std::pair<llvm::Value*, std::int64_t> without_number(llvm::Value* index);
  llvm::Value* element_at(llvm::Type* element, llvm::Value* base, llvm::Value* index);  // its address
  llvm::Value* apply(ir::Id id, std::span<llvm::Value*> x);
  llvm::Value* i64(std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); }

  // Sums of products (product_sums.cpp).
  llvm::Value* product_sum(ir::Id id, const Widths::ProductSum& sum, std::span<llvm::Value* const> x);
  llvm::Value* byte_sum(const Widths::ByteSum& sum, std::span<llvm::Value* const> x);
  llvm::Value* factor_of(const Widths::ProductSum::Term& term);
  llvm::Value* factor_of(const Widths::ByteSum::Term& term);
  // The same for vectors that fill registers, at all points together; nothing if it has to be done as above.
  std::optional<Values> paired_product_sums(ir::Id id, const std::vector<Values>& operands);
  std::optional<Values> paired_byte_sums(ir::Id id, const std::vector<Values>& operands);
  struct PairedSums;
  std::vector<std::array<llvm::Value*, 2>> paired_halves(const PairedSums& sums, unsigned first, llvm::Value* number);
  bool multiplies_bytes() const;

  // Memory (memory.cpp).
  static constexpr std::int64_t cache_line = 64;
  static llvm::Align align_of(const llvm::Type* element) {
    return llvm::Align(static_cast<std::uint64_t>(element->getScalarSizeInBits()) / 8);
  }
  Lanes loaded(ir::Id id, const Point& point);
  // What a load or pick reads: its address, its extents, and the part that is present, which begins at `starts`.
  struct Source {
    llvm::Value* base = nullptr;
    llvm::Type* element = nullptr;                       // in memory
    std::vector<llvm::Value*> extents, present, starts;  // no starts: it begins at 0
  };
  Source source_of(const ir::Op& op);
  Lanes element_offset(const Source& source, std::span<const Lanes> indices);
  struct CheckedIndices;
  CheckedIndices checked_indices(ir::Id id, const Source& source, const Point& point);
  Lanes load_checked(ir::Id id, const Source& source, const Point& point, const CheckedIndices& checked);
  bool is_inside(const ir::Op& op, std::size_t axis) const;
  llvm::Value* inside_border(const ir::Op& op, const Source& source, std::size_t axis, llvm::Value* index,
                             llvm::Value*& is_inside);
  // With `ahead`: prefetches the memory that many bytes further on.
  Lanes load_from(llvm::Value* base, llvm::Type* element, const Lanes& offset, llvm::Value* ahead = nullptr);
  llvm::Value* load_lane_by_lane(const ir::Op& op, const Source& source, const Values& indices);
  llvm::Value* load_scalar_checked(const ir::Op& op, const Source& source, std::span<llvm::Value* const> indices);
  Lanes from_scratch(ir::Id id, const Point& point);
  void to_scratch(ir::Id id, const Point& point, const Lanes& value);
  void store_at(llvm::Value* base, ir::Type type, const Lanes& offset, const Lanes& value, bool streaming);
  llvm::Value* dim(int buffer, int axis) {
    return dims_[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)];
  }
  Lanes offset_of(std::span<const Lanes> indices, std::span<llvm::Value* const> extents);

  // Loads out of groups (group_loads.cpp).
  // Groups of `step` neighbours, of which each lane takes element `which` of the next group; 1: no groups.
  struct Group {
    std::int64_t step = 1;
    std::int64_t which = 0;
  };
  Group group_of(const ir::Op& op, std::span<const Lanes> indices, const Lanes& offset, bool is_safe) const;
  std::int64_t which_of_group(ir::Id index, std::int64_t step) const;
  Lanes load_group(const ir::Op& op, const Source& source, const Lanes& offset, const Group& group);
  llvm::Value* load_fourth_bytes(llvm::Value* address, std::int64_t which);
  llvm::Value* looked_up(const ir::Op& load, const Point& point);

  // Prefetches (prefetch.cpp).
  llvm::Value* bytes_ahead(int buffer);
  llvm::Value* bytes_ahead(const ir::Op& op) { return op.code == ir::Code::load ? bytes_ahead(op.index) : nullptr; }
  void prefetch(Prefetch wanted);
  void emit_prefetches();
  void note_first_load(const ir::Op& op, std::int64_t step);
  void prefetch_next_tile(const Point& point);

  // Outputs of a few channels (pixels.cpp).
  int channels_of_pixels() const;
  bool reads_by_lane(const ir::Op& load) const;
  bool is_same_for_pixels(ir::Id id) const;
  unsigned bytes_of_pixel(const ir::Op& load) const;
  llvm::Value* gathered_channel(ir::Id id, const Point& point, const Source& source, std::span<const Lanes> indices);
  llvm::Value* gathered_words(const Source& source, llvm::Value* pixels, unsigned bytes);
  llvm::Value* once_for_channels(ir::Id id, Point point, const std::function<llvm::Value*()>& compute);
  void store_pixels(ir::Type type, const Lanes& first, std::span<const Lanes> channels);
  llvm::Value* load_three_bytes(llvm::Value* address);
  llvm::Value* without_fourth_bytes(llvm::Value* words);

  // Scratch memory (scratch.cpp).
  std::int64_t full_extent(ir::Id extent) const;
  std::vector<llvm::Value*> scratch_extents(ir::Id id);
  llvm::Value* scratch_bytes(ir::Id id);
  std::vector<ir::Id> read_by(const std::vector<ir::Id>& stage) const;
  std::vector<std::vector<ir::Id>> scratch_slots() const;
  llvm::Value* bytes_of_slot(const std::vector<ir::Id>& slot);
  void allocate_scratch();
  void emit_scratch_function();

  // Reductions along the last axis (row_reduction.cpp).
  struct RowReduction;
  Lanes reduced_row(ir::Id id, const Point& first, llvm::Value* length);

  // Loads along rows (row_loads.cpp).
  std::pair<llvm::Value*, llvm::Value*> safe_range(const Stage& stage, const Points& rows, llvm::Value* extent);
  std::vector<ir::Id> open_counters(ir::Id index) const;
  std::optional<Values> extremes(ir::Id index);
  // The entry of a point or a shape for the axis that lanes lie along.
  auto& along_row(auto& of) const { return of[of.size() - row_from_end_]; }
  int row_axis(const ir::Op& load) const;
  bool is_row_load(ir::Id id) const;  // that may cross the border along a row
  void find_row_loads(ir::Id root, ir::Id extent, std::vector<ir::Id>& found, std::vector<bool>& seen) const;

  // Functions and tiles (kernel_function.cpp).
  bool can_stream() const;
  void use_lanes(int bits, int narrowest);
  void begin_function(llvm::Function* function);
  void load_dims(llvm::Value* dims);
  void emit_kernel(const char* name, bool streaming);
  void emit_tile(llvm::Value* tile_number);
  std::vector<llvm::Value*> extents_of(ir::Id id);
  void for_each(llvm::Value* begin, llvm::Value* end, std::int64_t step, const std::function<void(llvm::Value*)>& body);

  // Stages (stages.cpp). Each computes values for the tile, or is a loop.
  std::vector<std::vector<ir::Id>> stages_of(int region) const;
  bool has_stages() const;
  bool is_own_stage(ir::Id id) const;
  std::vector<ir::Id> loads_along_with(ir::Id id) const;
  int rows_for(ir::Id root) const;
  void emit_region(int region);
  void emit_materialised(ir::Id id, const std::vector<ir::Id>& others);
  void emit_row_reduction(ir::Id id);
  void emit_loop_stage(ir::Id id);
  Values compute_anew(ir::Id id, const Points& points);

  // The output (store.cpp).
  void emit_store();
  void choose_store_shape(Stage& stage);
  std::vector<llvm::Value*> stored_extents();
  Lanes output_offset(const Point& point);
  Values stored_values(const Points& points);
  int vectors_for(int cost) const;
  bool is_long_chain() const;

  // Loops over points (loop_nest.cpp).
  void emit_nest(const std::vector<llvm::Value*>& extents, const Stage& stage);
  void emit_axis(const std::vector<llvm::Value*>& extents, const Stage& stage, const Point& outer);
  void emit_row(llvm::Value* extent, const Stage& stage, const Points& rows);
  void emit_row_body(const Stage& stage, const Points& rows, llvm::Value* j, int lanes, int vectors);

  void keep_side_by_side(Values& values);
  const Widths& widths() const { return *analysis_.widths; }
  bool is_materialised(ir::Id id) const { return analysis_.is_materialised[static_cast<std::size_t>(id)]; }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const ir::Program& program_;
  const Tiling& tiling_;
  const Host& host_;
  LaneAnalysis analysis_;
  llvm::IRBuilder<llvm::TargetFolder> b_;  // it folds min and max of numbers too
  ElementMath math_;

  int natural_lanes_ = 1;
  bool are_lanes_doubled_ = false;  // natural_lanes_ are those of two registers
  int lanes_ = 1;                   // of the code being emitted now
  std::size_t row_from_end_ = 1;    // which axis they lie along: the last, or the one before it
  bool is_chain_ = false;           // see is_long_chain
  int chain_length_ = 0;            // so far
  bool streaming_ = false;          // the function being emitted uses non-temporal stores
  std::vector<Known> known_;
  std::vector<ir::Id> safe_loads_;  // loads whose index along the row is inside…
  Values safe_indices_;             // …at points whose coordinate along the row is one of these

  // The function being emitted.
  llvm::Function* function_ = nullptr;
  std::vector<llvm::Value*> buffers_;
  std::vector<std::vector<llvm::Value*>> dims_;
  llvm::Value* scalars_ = nullptr;
  llvm::Value* scratch_ = nullptr;
  std::map<ir::Id, llvm::Value*> scratch_of_;
  std::map<ir::Id, llvm::Value*> spare_of_;  // by carried value: where the next one goes
  std::vector<Prefetch> prefetches_;         // that the loop body being emitted needs
  llvm::BasicBlock* body_block_ = nullptr;   // its first block
  ir::Id computing_ = ir::none;              // the materialised value that is being computed
  std::vector<llvm::Value*> origins_, blocks_, tile_dims_;
  std::vector<llvm::Value*> next_origins_;   // of the next tile
  std::map<int, std::int64_t> first_loads_;  // by buffer: elements that stages load for each element of the output
};

}  // namespace tessera::compile::cpu
