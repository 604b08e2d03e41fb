// Loads along the rows of a stage that may cross the border of what they read: the part of a row where they never do.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"
#include "compile/cpu/llvm/stage.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

// The loop counters that an index depends on.
std::vector<Id> counters_of(const ir::Program& program, Id index) {
  std::vector<Id> found, open = {index};
  std::vector<bool> seen(program.ops.size());
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    if (is_counter(program[id])) found.push_back(id);
    open.insert(open.end(), program[id].operands.begin(), program[id].operands.end());
  }
  return found;
}

// Whether an index is linear in each of these counters: then it is greatest and least at the ends of their loops.
bool is_linear_in(const ir::Program& program, Id index, const std::vector<Id>& counters) {
  enum class Degree : std::uint8_t { none, linear, other };
  std::vector<Degree> degrees;
  for (Id id = 0; id <= index; ++id) {
    const ir::Op& op = program[id];
    std::vector<Degree> of;
    of.reserve(op.operands.size());
    for (Id operand : op.operands) of.push_back(degrees[static_cast<std::size_t>(operand)]);
    Degree degree = of.empty() ? Degree::none : std::ranges::max(of);
    const bool is_sum = op.code == Code::add || op.code == Code::sub || op.code == Code::broadcast;
    const bool is_multiple = op.code == Code::mul && std::ranges::min(of) == Degree::none;
    if (degree == Degree::linear && !is_sum && !is_multiple) degree = Degree::other;
    if (std::ranges::find(counters, id) != counters.end()) degree = Degree::linear;
    degrees.push_back(degree);
  }
  return degrees.back() != Degree::other;
}

}  // namespace

// The one axis of a load's buffer whose index varies along the rows of the load, and only along them; -1: none.
int Emitter::row_axis(const ir::Op& load) const {
  const auto is_one = [&](Id of) {
    std::int64_t value = 0;
    return ir::is_constant(program_, of, value) && value == 1;
  };
  int found = -1;
  const std::span<const Id> indices = ir::indices_of(load);
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const Id index = indices[axis];
    const std::vector<Id>& shape = program_[index].shape;
    if (shape.size() < row_from_end_ || along_row(shape) != along_row(load.shape)) continue;
    const auto others = static_cast<std::size_t>(std::ranges::count_if(shape, is_one));
    if (found >= 0 || others + 1 != shape.size() || !is_coordinate(program_, index)) return -1;
    found = static_cast<int>(axis);
  }
  return found;
}

bool Emitter::is_row_load(Id id) const {
  const ir::Op& op = program_[id];
  if (op.code != Code::load && op.code != Code::pick) return false;
  const int axis = row_axis(op);
  return axis >= 0 && !is_inside(op, static_cast<std::size_t>(axis));
}

// Collects the loads that may cross the border along a row, depending on the last coordinate of the stage's points
// alone.
void Emitter::find_row_loads(Id root, Id extent, std::vector<Id>& found, std::vector<bool>& seen) const {
  std::vector<Id> open = {root};
  const auto add = [&](const std::vector<Id>& ids) { open.insert(open.end(), ids.rbegin(), ids.rend()); };
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(id)]) continue;
    seen[static_cast<std::size_t>(id)] = true;
    const ir::Op& op = program_[id];
    if (op.code == Code::loop) {
      add(program_.regions[static_cast<std::size_t>(op.index)].results);
    } else if (op.shape.size() < row_from_end_ || along_row(op.shape) != extent || is_materialised(id)) {
      continue;
    } else if (is_row_load(id)) {
      found.push_back(id);
    } else if (is_elementwise(op.code) || op.code == Code::broadcast || op.code == Code::mma ||
               op.code == Code::result) {
      add(op.operands);
    }
  }
}

// The counters in an index whose loops are not open yet.
std::vector<Id> Emitter::open_counters(Id index) const {
  std::vector<Id> all = counters_of(program_, index);
  std::erase_if(all, [&](Id counter) { return is_known(counter, {Point{}}); });
  return all;
}

// The index at the beginning of a row, with each of its open counters at either end of its loop; nothing if these are
// not its extremes.
std::optional<Emitter::Values> Emitter::extremes(Id index) {
  constexpr std::size_t most_counters = 2;
  const std::vector<Id> counters = open_counters(index);
  const auto count_of = [&](Id counter) {
    const Id loop = program_.regions[static_cast<std::size_t>(program_[counter].region)].loop;
    return program_[loop].operands[0];
  };
  const auto is_ahead = [&](Id counter) {
    return is_coordinate(program_, count_of(counter)) && open_counters(count_of(counter)).empty();
  };
  if (counters.size() > most_counters || !std::ranges::all_of(counters, is_ahead) ||
      (!counters.empty() && !is_linear_in(program_, index, counters)))
    return std::nullopt;
  Point point(program_[index].shape.size(), uniform(i64(0)));
  along_row(point) = {i64(0), i64(1), false};
  Values found;
  for (std::size_t ends = 0; ends < std::size_t{1} << counters.size(); ++ends) {
    const Scope scope(known_);
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const bool is_last = (ends >> i & 1) != 0;
      Value* at = is_last ? b_.CreateSub(scalar(count_of(counters[i])), i64(1)) : i64(0);
      known_insert(counters[i], Point{}, uniform(at));
    }
    found.push_back(eval(index, point));
  }
  return found;
}

// The part of a row where those loads stay inside of their buffers, and need no checks.
std::pair<Value*, Value*> Emitter::safe_range(const Stage& stage, const Points& rows, Value* extent) {
  Value* begin = i64(0);
  Value* end = extent;
  safe_loads_.clear();
  std::vector<Id> loads;
  if (stage.root != ir::none) {
    std::vector<bool> seen(program_.ops.size());
    const ir::Op& root = program_[stage.root];
    if (is_materialised(stage.root)) {
      for (Id operand : root.operands) find_row_loads(operand, along_row(root.shape), loads, seen);
      if (is_row_load(stage.root)) loads.push_back(stage.root);
      std::ranges::copy_if(stage.others, std::back_inserter(loads), [&](Id other) { return is_row_load(other); });
    } else {
      find_row_loads(stage.root, along_row(root.shape), loads, seen);
    }
  }
  const Scope scope(known_);
  lanes_ = natural_lanes_;
  for (Id id : loads) {
    const ir::Op& op = program_[id];
    const int axis = row_axis(op);
    const Id along = ir::indices_of(op)[static_cast<std::size_t>(axis)];
    const std::optional<Values> all = extremes(along);
    const auto stride_of = [](const Lanes& index) -> std::int64_t {
      const auto* stride = llvm::dyn_cast_or_null<llvm::ConstantInt>(index.stride);
      return index.is_vector || !stride ? 0 : stride->getSExtValue();
    };
    if (!all || !std::ranges::all_of(*all, [&](const Lanes& index) { return stride_of(index) >= 1; })) continue;
    for (const Lanes& index : *all) {
      // base + stride * j is inside from ceil(-base / stride) to ceil((extent - base) / stride); a bound below 0 does
      // not matter.
      const std::int64_t stride = stride_of(index);
      const auto steps = [&](Value* distance) {
        return stride == 1 ? distance : b_.CreateSDiv(b_.CreateAdd(distance, i64(stride - 1)), i64(stride));
      };
      // All elements of a group that is loaded together must be inside.
      const std::int64_t which = which_of_group(along, stride);
      Value* first = b_.CreateSub(index.base, i64(which));
      Value* last = b_.CreateAdd(first, i64(stride - 1));
      Value* extent_along = source_of(op).extents[static_cast<std::size_t>(axis)];
      begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, steps(b_.CreateNeg(first)));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, steps(b_.CreateSub(extent_along, last)));
    }
    safe_loads_.push_back(id);
  }
  lanes_ = 1;
  if (stage.alignment) {
    Point row = rows[0];
    row.push_back(uniform(i64(0)));
    begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, stage.alignment(row));
  }
  return {begin, end};
}

}  // namespace tessera::compile::cpu
