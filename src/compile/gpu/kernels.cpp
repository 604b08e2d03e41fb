#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"

#include <algorithm>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

// The tiles of a workgroup, along axes that may be split: small enough that the values stored for a part and its
// neighbours usually fit in the workgroup's memory.
constexpr std::int64_t tile_rows = 8, tile_columns = 64;

// In a reduction to fewer elements than this, a workgroup computes each of them.
constexpr std::int64_t few_elements = 4096;
// A matrix with fewer rows or columns than this is not computed in blocks.
constexpr std::int64_t least_block = 16;

Tiling tiles_of(const ir::Program& program) {
  if (!program.tile.empty()) return {program.tile};
  const std::vector<bool> whole = whole_axes(program);
  const bool reduces = std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); });
  Tiling tiling;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const std::int64_t cut = axis + 1 == whole.size() ? tile_columns : axis + 2 == whole.size() ? tile_rows : 1;
    tiling.extents.push_back(whole[axis] ? 0 : reduces ? 1 : cut);
  }
  return tiling;
}

bool reads_wide(const ir::Program& program, const Tiling& tiling) {
  const ValueAnalysis analysis(program, tiling);
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (analysis.is_live[id] && analysis.is_materialised[id] && !is_reduction(program.ops[id].code)) return true;
    const bool is_loop = program.ops[id].code == Code::loop && analysis.is_live[id];
    if (is_loop && !analysis.is_inline_loop[id]) return true;
  }
  return false;
}

}  // namespace

bool needs_tiles(const ir::Program& program) {
  return !program.tile.empty() || sees_tiles(program) || reads_wide(program, tiles_of(program));
}

Tiling single_points(const ir::Program& program) {
  return {std::vector<std::int64_t>(program.buffers.front().dims.size(), 1)};
}

Choice choice_of(const ir::Program& program) {
  if (needs_tiles(program)) return Choice::none;
  if (std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); }))
    return Choice::reduction;
  return product_of(program) ? Choice::product : Choice::none;
}

Form best_form(Choice choice, const ir::Program& program, const std::int64_t* dims) {
  const std::size_t rank = program.buffers.front().dims.size();
  switch (choice) {
    case Choice::reduction: {
      std::int64_t elements = 1;
      for (std::size_t axis = 0; axis < rank; ++axis) elements *= dims[axis];
      return elements < few_elements ? Form::few : Form::many;
    }
    case Choice::product:
      return std::min(dims[rank - 1], dims[rank - 2]) < least_block ? Form::few : Form::many;
    default:
      return Form::many;
  }
}

Printer::Printer(const ir::Program& program, const Target& target, Form form)
    : program_(program),
      target_(target),
      group_(target.group),
      syntax_(target),
      tiling_(needs_tiles(program) ? tiles_of(program) : single_points(program)),
      analysis_(program, tiling_),
      kinds_(number_kinds(program, analysis_.is_live, target)) {
  const Choice choice = choice_of(program);
  has_stages_ = needs_tiles(program) || (form == Form::few && choice == Choice::reduction);
  // A single reduction to single points has the whole workgroup: one invocation would add up rounding errors.
  const auto reductions = std::ranges::count_if(program.ops, [](const ir::Op& op) { return is_reduction(op.code); });
  if (needs_tiles(program) || (has_stages_ && reductions > 1)) group_ = std::min(group_, target.tile_group);
  if (form == Form::many && choice == Choice::product) {
    const Product product = *product_of(program);
    std::int64_t inner = 0;
    ir::is_constant(program, program[program[product.mma].operands[0]].shape.back(), inner);
    if (const std::optional<Blocking> blocking = blocking_of(target, kind(product.mma), inner)) {
      product_ = product;
      blocking_ = *blocking;
      const std::size_t rank = tiling_.extents.size();
      tiling_.extents[rank - 2] = blocking_.extent(0);
      tiling_.extents[rank - 1] = blocking_.extent(1);
    }
  }
  // Four neighbours at a time, if the program is pointwise.
  const auto is_single = [](const ir::Buffer& buffer) { return buffer.rank() == 1; };
  has_quads_ = !has_stages_ && ir::is_pointwise(program) && std::ranges::all_of(program.buffers, is_single);
  known_.emplace_back();
}

// Opens the block of the invocations that have a piece of work. The numbers of those beyond the last piece may overflow
// an int.
void Printer::open_share(const std::string& piece, const std::string& pieces) {
  if (syntax_.is_glsl()) {
    line(text("int ", piece, " = (first_group + group) * ", group_, " + lane;"));
    open(text("if (uint(", piece, ") < uint(", pieces, "))"));
  } else {
    line(text("int ", piece, " = (int)((unsigned)(first_group + group) * ", group_, "u + (unsigned)lane);"));
    open(text("if ((unsigned)", piece, " < (unsigned)", pieces, ")"));
  }
}

// Each invocation computes points of the output.
void Printer::print_points() {
  const std::size_t rank = tiling_.extents.size();
  open_share("at", "pieces");
  tile_dims_.assign(rank, "1");
  origins_ = unravelled("at", dims_.front());
  blocks_ = origins_;
  const Id value = program_.stored();
  const NumberKind to = program_.buffers.front().type == Type::s64 ? NumberKind::s64 : kind(value);
  store_element("at", as(to, value, eval(value, Point(program_[value].shape.size(), "0"))));
  close();
}

namespace {

// The output, and the inputs that are read.
std::vector<int> used_buffers(const ir::Program& program, const std::vector<bool>& is_live) {
  std::set<int> used = {0};
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (is_live[id] && program.ops[id].code == Code::load) used.insert(program.ops[id].index);
  }
  return {used.begin(), used.end()};
}

void check_buffers(const ir::Program& program, const Target& target, std::size_t given) {
  const auto most = static_cast<std::size_t>(target.most_buffers);
  if (given <= most) return;
  throw Error(Errc::unsupported, text("[", program.name, "] uses ", given, " buffers at once, and ", full_name(target),
                                      " takes at most ", most));
}

void check_arguments(const ir::Program& program, const Target& target, int words) {
  if (words <= target.most_argument_words) return;
  throw Error(Errc::unsupported, text("[", program.name, "] needs ", words, " words for extents and scalars, and ",
                                      full_name(target), " takes at most ", target.most_argument_words));
}

}  // namespace

Kernel Printer::print() {
  result_.group = group_;
  result_.tiling = tiling_;
  result_.points = has_stages_ || product_ ? 0 : has_quads_ ? 4 : 1;
  result_.buffers = used_buffers(program_, analysis_.is_live);
  result_.is_written.assign(result_.buffers.size(), false);
  result_.is_written.front() = true;
  if (has_clamped_indices(program_, target_)) result_.most_elements = longest_axis;

  declare_arguments();
  if (product_) {
    print_blocks();
  } else if (has_stages_) {
    print_tiles();
  } else if (has_quads_) {
    print_quads();
  } else {
    print_points();
  }

  const bool has_argument_buffer = target_.dialect == Dialect::vulkan && !result_.has_push_constants;
  check_buffers(program_, target_, result_.buffers.size() + result_.has_scratch + has_argument_buffer);
  check_arguments(program_, target_, result_.argument_words);
  assemble_source();
  return std::move(result_);
}

Kernel print(const ir::Program& program, const Target& target, Form form) {
  return Printer(program, target, form).print();
}

void check(const ir::Program& program, const Target& target) {
  for (const ir::Buffer& buffer : program.buffers) {
    const bool is_missing =
        (buffer.type == Type::f64 && !target.has_f64) || (buffer.type == Type::s64 && !target.has_s64);
    if (!is_missing) continue;
    throw Error(Errc::unsupported, text("[", program.name, "] ", buffer.name, " is ", ir::to_string(buffer.type),
                                        ", which ", full_name(target), " does not have"));
  }
  const std::vector<bool> is_live = ValueAnalysis(program, single_points(program)).is_live;
  check_buffers(program, target, used_buffers(program, is_live).size());
  number_kinds(program, is_live, target);
}

}  // namespace tessera::compile::gpu
