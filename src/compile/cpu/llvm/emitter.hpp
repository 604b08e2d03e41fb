#pragma once

#include "compile/compile.hpp"
#include "compile/cpu/host.hpp"
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

namespace tessera::compile {

// Emits one program as LLVM IR.
//
// The output is computed point by point, `lanes` neighbours along the last axis at a time: a value is not an array but
// what is asked of it at a *point*, and asking emits the instructions. So element-wise chains fuse by themselves, a
// loop or a matrix product keeps its accumulators in registers, and asking at several points at once (`Points`) blocks
// them in registers. Values that Analysis calls materialised are the exception: a *stage* computes one for the whole
// tile and stores it in scratch memory.
//
// Of the plain form these functions come out:
//   i64 scratch(ptr dims)                                              bytes that a call needs
//   void kernel(ptr buffers, ptr dims, ptr scalars, ptr scratch, i64 begin, i64 end)
//   kernel_can_stream                                                  another name of it, if there is the other form
// and of the streaming one:
//   void kernel_streaming(…)                                           the same with non-temporal stores
class Emitter {
 public:
  Emitter(llvm::Module& module, const ir::Program& program, const Tiling& tiling, const Host& host);
  void emit(Form form);

 private:
  // What a value is at one point: one scalar for all lanes; or, for places, base + lane * stride; or a vector.
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

  // What has been computed, by value and point, where the code being emitted can see it.
  using Known = std::map<std::pair<ir::Id, Point>, Lanes>;

  struct Stage;  // a loop nest over the points of one value

  // Of the memory `ahead` bytes after a place and some bytes.
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
  Values inline_loop(const ir::Op& loop, ir::Id asked, const Points& points);
  Values inline_mma(const ir::Op& op, const Points& points);
  Values inline_reduction(const ir::Op& op, const Points& points);
  Values accumulate(llvm::Value* count, const Values& initial,
                    const std::function<Values(llvm::Value* counter, const Values& sums)>& step);
  bool is_in_blocks(const ir::Op& reduction, llvm::Value* count) const;
  Values sum_of_blocks(llvm::Value* count, Values zeros,
                       const std::function<Values(llvm::Value* first, llvm::Value* count)>& block);
  void known_insert(ir::Id id, const Point& point, const Lanes& value);

  // Arithmetic (arithmetic.cpp).
  llvm::Type* element_type(ir::Type type) const;
  llvm::Type* memory_type(ir::Type type) const;  // a boolean takes a byte
  int scratch_bits(ir::Id id) const;             // of an element of a materialised value
  llvm::Type* scratch_type(ir::Id id);
  llvm::Value* vector(const Lanes& value);  // one value a lane
  llvm::Value* full(const Lanes& value) { return lanes_ == 1 ? value.base : vector(value); }
  Lanes uniform(llvm::Value* value) const { return {value, nullptr, false}; }
  Lanes varying(llvm::Value* value) const { return {value, nullptr, lanes_ > 1}; }
  Lanes elementwise(ir::Id id, std::span<const Lanes> operands);
  struct RegisterForms {  // of an instruction, by the bits of registers
    llvm::Intrinsic::ID of_128, of_256, of_512;
  };
  llvm::Value* instruction(const RegisterForms& forms, llvm::Value* a, llvm::Value* b);  // of whole registers
  llvm::Value* resized(ir::Id id, llvm::Value* value, int bits);  // an integer in more bits, or its lower ones
  Lanes resized(ir::Id id, Lanes value, int bits);
  llvm::Value* in_registers(const RegisterForms& forms, llvm::Value* a, llvm::Value* b);
  llvm::Value* upper_half(llvm::Value* a, llvm::Value* b, bool is_signed);
  llvm::Value* average(llvm::Value* a, llvm::Value* b);
  llvm::Value* shifted(ir::Code code, bool is_signed, llvm::Value* a, std::int64_t amount);
  llvm::Value* converted_narrow(ir::Id id, llvm::Value* x);
  Lanes add_places(const Lanes& a, const Lanes& b);
  Lanes mul_places(const Lanes& a, const Lanes& b);
  llvm::Value* place_in_group(const Lanes& place, const Lanes& size);
  std::pair<llvm::Value*, std::int64_t> without_number(llvm::Value* place);
  llvm::Value* element_at(llvm::Type* element, llvm::Value* base, llvm::Value* place);  // its address
  llvm::Value* apply(ir::Id id, std::span<llvm::Value*> x);
  llvm::Value* unary(const ir::Op& op, llvm::Value* x);
  llvm::Value* to_whole(ir::Code code, llvm::Value* x);
  llvm::Value* binary(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* divide(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_power(ir::Type type, llvm::Value* x, llvm::Value* n);
  llvm::Value* minimum(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* multiply_add(ir::Type type, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* converted(ir::Type from, ir::Type to, bool to_nearest, llvm::Value* x);
  llvm::Value* float_to_integer(ir::Type to, llvm::Value* x);
  llvm::Value* float_to_byte(bool to_nearest, llvm::Value* x);
  llvm::Value* identity_of(const ir::Op& reduction);
  llvm::Value* combine(ir::Code reduction, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* total_of(llvm::Value* sum) { return b_.CreateFPCast(sum, like(b_.getDoubleTy(), sum)); }
  llvm::Value* across_lanes(ir::Code reduction, ir::Type type, llvm::Value* value);
  llvm::Value* i64(std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Type* like(llvm::Type* element, llvm::Value* shape_of) const;  // a vector of as many elements, or one

  // Sums of products (product_sums.cpp).
  llvm::Value* product_sum(ir::Id id, const Widths::ProductSum& sum, std::span<llvm::Value* const> x);
  llvm::Value* byte_sum(const Widths::ByteSum& sum, std::span<llvm::Value* const> x);
  llvm::Value* factor_of(const Widths::ProductSum::Term& term);
  llvm::Value* factor_of(const Widths::ByteSum::Term& term);
  // The same of vectors that fill registers, at all points together; nothing: it has to be done as above.
  std::optional<Values> paired_product_sums(ir::Id id, const std::vector<Values>& operands);
  std::optional<Values> paired_byte_sums(ir::Id id, const std::vector<Values>& operands);
  struct PairedSums;
  std::vector<std::array<llvm::Value*, 2>> paired_halves(const PairedSums& sums, unsigned first, llvm::Value* number);
  bool multiplies_bytes() const;

  // Memory (memory.cpp).
  Lanes loaded(ir::Id id, const Point& point);
  llvm::Value* looked_up(const ir::Op& load, const Point& point);
  // What a load or pick reads: where it is, its extents, and what of it is there, from `starts` on.
  struct Source {
    llvm::Value* base = nullptr;
    llvm::Type* element = nullptr;                       // in memory
    std::vector<llvm::Value*> extents, present, starts;  // no starts: from the beginning
  };
  Source source_of(const ir::Op& op);
  Lanes place_of(const Source& source, std::span<const Lanes> indices);
  // Groups of `step` neighbours, of which each lane takes number `which` of the next group; 1: none.
  struct Group {
    std::int64_t step = 1;
    std::int64_t which = 0;
  };
  Group group_of(const ir::Op& op, std::span<const Lanes> places, const Lanes& place, bool is_safe) const;
  std::int64_t which_of_group(ir::Id index, std::int64_t step) const;
  Lanes load_group(const ir::Op& op, const Source& source, const Lanes& place, const Group& group);
  llvm::Value* load_fourth_bytes(llvm::Value* address, std::int64_t which);
  bool is_inside(const ir::Op& op, std::size_t axis) const;
  llvm::Value* inside_border(const ir::Op& op, const Source& source, std::size_t axis, llvm::Value* index,
                             llvm::Value*& is_inside);
  // With `ahead`: what lies that many bytes further on will be needed too.
  Lanes load_from(llvm::Value* base, llvm::Type* element, const Lanes& offset, llvm::Value* ahead = nullptr);
  llvm::Value* bytes_ahead(int buffer);
  llvm::Value* bytes_ahead(const ir::Op& op) { return op.code == ir::Code::load ? bytes_ahead(op.index) : nullptr; }
  llvm::Value* load_lane_by_lane(const ir::Op& op, const Source& source, const Values& indices);
  llvm::Value* load_scalar_checked(const ir::Op& op, const Source& source, std::span<llvm::Value* const> indices);
  llvm::Value* from_memory(ir::Type type, llvm::Value* value);
  llvm::Value* to_memory(ir::Type type, llvm::Value* value);
  Lanes from_scratch(ir::Id id, const Point& point);
  void to_scratch(ir::Id id, const Point& point, const Lanes& value);
  void store_at(llvm::Value* base, ir::Type type, const Lanes& offset, const Lanes& value, bool streaming);
  llvm::Value* dim(int buffer, int axis) {
    return dims_[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)];
  }
  Lanes offset_of(std::span<const Lanes> indices, std::span<llvm::Value* const> extents);
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
  std::vector<std::vector<ir::Id>> scratch_places() const;
  llvm::Value* bytes_of_place(const std::vector<ir::Id>& place);
  void place_scratch();
  void emit_scratch_function();

  // Reductions along the last axis (row_reduction.cpp).
  struct RowReduction;
  Lanes reduced_row(ir::Id id, const Point& first, llvm::Value* length);

  // Loads along rows (row_loads.cpp).
  std::pair<llvm::Value*, llvm::Value*> safe_range(const Stage& stage, const Points& rows, llvm::Value* extent);
  std::vector<ir::Id> open_counters(ir::Id place) const;
  std::optional<Values> extremes(ir::Id place);
  // Of what a point or a shape has for each axis: what is for the axis that lanes lie along.
  auto& along_row(auto& of) const { return of[of.size() - row_from_end_]; }
  int row_axis(const ir::Op& load) const;
  bool is_row_load(ir::Id id) const;  // that may be over the border along a row
  void find_row_loads(ir::Id root, ir::Id extent, std::vector<ir::Id>& found, std::vector<bool>& seen) const;

  // Loop nests and functions (stages.cpp).
  std::vector<std::vector<ir::Id>> stages_of(int region) const;  // each computes values for the tile, or is a loop
  bool can_stream() const;
  void emit_kernel(const char* name, bool streaming);
  void emit_tile(llvm::Value* tile_number);
  void emit_region(int region);
  void emit_materialised(ir::Id id, const std::vector<ir::Id>& others);
  std::vector<ir::Id> loads_along_with(ir::Id id) const;
  void emit_row_reduction(ir::Id id);
  void emit_loop_stage(ir::Id id);
  void emit_store();
  void emit_nest(const std::vector<llvm::Value*>& extents, const Stage& stage);
  void emit_axis(const std::vector<llvm::Value*>& extents, const Stage& stage, const Point& outer);
  void emit_row(llvm::Value* extent, const Stage& stage, const Points& rows);
  void emit_row_body(const Stage& stage, const Points& rows, llvm::Value* j, int lanes, int vectors);
  bool is_own_stage(ir::Id id) const;
  const Widths& widths() const { return *analysis_.widths; }
  bool is_materialised(ir::Id id) const { return analysis_.is_materialised[static_cast<std::size_t>(id)]; }
  void use_lanes(int bits, int narrowest);
  bool has_stages() const;
  int vectors_for(int cost) const;
  int rows_for(ir::Id root) const;
  bool is_long_chain() const;
  void keep_abreast(Values& values);
  Values compute_anew(ir::Id id, const Points& points);
  void for_each(llvm::Value* begin, llvm::Value* end, std::int64_t step, const std::function<void(llvm::Value*)>& body);
  std::vector<llvm::Value*> extents_of(ir::Id id);
  void begin_function(llvm::Function* function);
  void load_dims(llvm::Value* dims);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const ir::Program& program_;
  const Tiling& tiling_;
  const Host& host_;
  LaneAnalysis analysis_;
  llvm::IRBuilder<llvm::TargetFolder> b_;  // it folds min and max of numbers too

  int natural_lanes_ = 1;
  bool are_lanes_doubled_ = false;  // natural_lanes_ are those of two registers
  int lanes_ = 1;                   // of the code being emitted now
  std::size_t row_from_end_ = 1;    // which axis they lie along: the last, or the one before it
  bool is_chain_ = false;           // see is_long_chain
  int chain_length_ = 0;            // so far
  bool streaming_ = false;          // the function being emitted stores past the caches
  std::vector<Known> known_;
  std::vector<ir::Id> safe_loads_;  // loads whose index along the row is inside…
  Values safe_places_;              // …where the last coordinate is one of these

  // Of the function being emitted.
  llvm::Function* function_ = nullptr;
  std::vector<llvm::Value*> buffers_;
  std::vector<std::vector<llvm::Value*>> dims_;
  llvm::Value* scalars_ = nullptr;
  llvm::Value* scratch_ = nullptr;
  std::map<ir::Id, llvm::Value*> scratch_of_;
  std::map<ir::Id, llvm::Value*> spare_of_;  // of carried values: where the next ones go
  std::vector<Prefetch> prefetches_;         // that the loop body being emitted wants
  llvm::BasicBlock* body_block_ = nullptr;   // where it begins
  ir::Id computing_ = ir::none;              // the materialised value that is computed now
  std::vector<llvm::Value*> origins_, blocks_, tile_dims_;
  std::vector<llvm::Value*> next_origins_;   // of the tile after this one
  std::map<int, std::int64_t> first_loads_;  // by buffer: elements that stages load for each of the output's
};

}  // namespace tessera::compile
