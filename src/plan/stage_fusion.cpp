#include "plan/stage_fusion.hpp"

#include "compile/compile.hpp"
#include "compile/passes/fuse.hpp"
#include "core/text.hpp"
#include "ir/rules.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera::plan {

using core::text;

namespace {

// The results of fusing are stored up to this many ops: some 16 MB.
constexpr std::size_t most_stored_ops = 1 << 16;

// The extents that are compiled into the program: those of 1 and those that the lowering fixes.
std::vector<std::vector<std::int64_t>> program_dims(const kernels::Lowering& lowering) {
  std::vector<std::vector<std::int64_t>> dims;
  for (const Shape& shape : lowering.shapes) {
    std::vector<std::int64_t>& known = dims.emplace_back();
    for (const std::int64_t extent : shape) known.push_back(extent == 1 ? 1 : -1);
  }
  for (const auto& [buffer, axis] : lowering.fixed) {
    dims[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)] =
        lowering.shapes[static_cast<std::size_t>(buffer)][axis];
  }
  return dims;
}

// The shape with leading extents of 1 up to this rank.
Shape padded(const Shape& shape, int rank) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(std::max(0, rank - shape.rank())), 1);
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(std::span<const std::int64_t>(extents));
}

// Whether a program may read only some elements of each group along an axis: every second, say.
bool has_strides(const ir::Program& program) {
  return std::ranges::any_of(program.ops, [](const ir::Op& op) {
    return op.code == ir::Code::mul && op.type == ir::Type::s64 && !op.shape.empty();
  });
}

// For each input of the writer: the same buffer among the reader's, other than `input`, or -1.
std::vector<int> shared_inputs(const FusedProgram& reader, std::size_t input, const FusedProgram& writer) {
  std::vector<int> same;
  for (std::size_t i = 1; i < writer.buffers.size(); ++i) {
    int found = -1;
    for (std::size_t j = 1; j < reader.buffers.size() && found < 0; ++j) {
      const bool is_same = j != input && reader.buffers[j] == writer.buffers[i] && reader.shapes[j] == writer.shapes[i];
      if (is_same) found = static_cast<int>(j);
    }
    same.push_back(found);
  }
  return same;
}

}  // namespace

std::size_t FusedStages::buffer_count() const {
  const auto has_address = [](std::size_t buffer) { return buffer != FusedProgram::nowhere; };
  return static_cast<std::size_t>(std::ranges::count_if(code.buffers, has_address));
}

const FusedStages& StageFuser::single(std::size_t stage) {
  std::optional<FusedStages>& known = singles_[stage];
  if (!known) known = single(stage, {});
  return *known;
}

// Tracing a kernel costs more than everything else that is done for a stage, so stages that are alike share it.
std::shared_ptr<const ir::Program> StageFuser::program_of(const GraphStage& stage, const StageCall& call,
                                                          const kernels::Lowering& lowering) {
  ProgramKey key{stage.kernel, {stage.outputs.front().dtype}, program_dims(lowering), lowering.tile, lowering.variant};
  for (const Use& use : stage.inputs) key.dtypes.push_back(use.dtype);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  auto program = std::make_shared<const ir::Program>(call.program(lowering, key.dims));
  return programs_.emplace(std::move(key), std::move(program)).first->second;
}

FusedStages StageFuser::single(std::size_t number, const Views& views) {
  const GraphStage& stage = graph_.stages[number];
  const Params params = substituted(stage.params, graph_, values_);
  const StageCall call(stage, params);
  kernels::Lowering lowering = call.lower();
  FusedStages fused;
  fused.stages = {number};
  FusedProgram& code = fused.code;
  code.buffers = {stage.outputs.front().buffer};
  for (const Use& use : stage.inputs) code.buffers.push_back(use.buffer);
  for (std::size_t i = 0; i < code.buffers.size(); ++i) {
    if (const auto view = views.find(code.buffers[i]); view != views.end()) lowering.shapes[i] = view->second;
  }
  code.program = program_of(stage, call, lowering);
  if (!stage.tile.empty() && lowering.is_user_code && compile::sees_tiles(*code.program)) {
    lowering.tile = stage.tile;
    code.program = program_of(stage, call, lowering);
  }
  code.shapes = lowering.shapes;
  for (std::size_t i = 0; i < lowering.scalars.size(); ++i) {
    code.scalars.push_back({number, i, lowering.scalars[i].bits()});
  }
  fused.is_pointwise = lowering.is_pointwise;
  fused.is_uniform = fused.is_pointwise && std::ranges::all_of(lowering.shapes, [&](const Shape& shape) {
                       return shape == lowering.shapes.front();
                     });
  return fused;
}

// Fuses the stages again, with these views of their buffers. No stages if that fails.
FusedStages StageFuser::rebuilt(const std::vector<std::size_t>& stages, const Views& views) {
  std::vector<FusedStages> open;
  for (const std::size_t stage : stages) {
    FusedStages fused = single(stage, views);
    for (std::size_t w = open.size(); w-- > 0;) {
      while (true) {
        const auto input = std::find(fused.code.buffers.begin() + 1, fused.code.buffers.end(), open[w].code.buffers[0]);
        if (input == fused.code.buffers.end()) break;
        if (!join(fused, static_cast<std::size_t>(input - fused.code.buffers.begin()), open[w]).empty()) return {};
      }
    }
    open.push_back(std::move(fused));
  }
  return std::move(open.back());
}

// Fuses the stages from the last to the first: then it is known what each one's readers need, and it computes only
// that. No stages if that fails.
FusedStages StageFuser::from_the_end(const std::vector<std::size_t>& stages) {
  std::map<std::size_t, std::size_t> writers;  // by buffer
  for (const std::size_t stage : stages) {
    writers.emplace(graph_.stages[stage].outputs.front().buffer, stage);
  }
  FusedStages fused = single(stages.back());
  for (std::size_t input = 1; input < fused.code.buffers.size();) {
    const auto found = writers.find(fused.code.buffers[input]);
    if (found == writers.end()) {
      ++input;
      continue;
    }
    const FusedStages& writer = single(found->second);
    if (fused.code.shapes[input] != writer.code.shapes[0] || !join(fused, input, writer).empty()) return {};
    input = 1;
  }
  return fused;
}

const StageFuser::PairResult& StageFuser::fuse(Pair pair) {
  if (const auto known = pairs_.find(pair); known != pairs_.end()) return known->second;
  compile::Fused fused = compile::fuse(*pair.reader, static_cast<int>(pair.input), *pair.writer, pair.same);
  PairResult result;
  result.reason = std::move(fused.reason);
  result.skips = fused.skips;
  result.recomputes_halo = fused.recomputes_halo;
  if (fused.program) {
    // The buffer in between is not needed any more, unless its extents are.
    result.kept = compile::drop_unused_buffers(*fused.program);
    result.program = std::make_shared<const ir::Program>(*std::move(fused.program));
  }
  const std::size_t ops = result.program ? result.program->ops.size() : 0;
  if (stored_ops_ + ops > most_stored_ops) {
    pairs_.clear();
    stored_ops_ = 0;
  }
  stored_ops_ += ops;
  return pairs_.emplace(std::move(pair), std::move(result)).first->second;
}

std::string StageFuser::join(FusedStages& reader, std::size_t input, const FusedStages& writer) {
  const auto dtype = static_cast<DType>(writer.code.program->buffers[0].type);
  if (std::ranges::find(options_.dtypes, dtype) == options_.dtypes.end())
    return text("the device can copy ", to_string(dtype), ", but not compute with it");
  const std::vector<int> same = shared_inputs(reader.code, input, writer.code);
  const PairResult& fused = fuse({reader.code.program, input, writer.code.program, same});
  if (!fused.program) return fused.reason;
  FusedProgram& code = reader.code;
  code.buffers[input] = FusedProgram::nowhere;
  for (std::size_t i = 0; i < same.size(); ++i) {
    if (same[i] >= 0) continue;
    code.buffers.push_back(writer.code.buffers[i + 1]);
    code.shapes.push_back(writer.code.shapes[i + 1]);
  }
  code.scalars.insert(code.scalars.end(), writer.code.scalars.begin(), writer.code.scalars.end());
  std::vector<std::size_t> buffers;
  std::vector<Shape> shapes;
  for (const int kept : fused.kept) {
    buffers.push_back(code.buffers[static_cast<std::size_t>(kept)]);
    shapes.push_back(code.shapes[static_cast<std::size_t>(kept)]);
  }
  code.program = fused.program;
  code.buffers = std::move(buffers);
  code.shapes = std::move(shapes);
  std::vector<std::size_t> stages = writer.stages;
  for (const std::size_t stage : reader.stages) {
    if (std::ranges::find(stages, stage) == stages.end()) stages.push_back(stage);
  }
  std::ranges::sort(stages);
  reader.stages = std::move(stages);
  reader.is_uniform = reader.is_uniform && writer.is_uniform;
  reader.is_pointwise = reader.is_pointwise && writer.is_pointwise;
  reader.skips = reader.skips || writer.skips || fused.skips;
  reader.depth = std::max(reader.depth, writer.depth + (fused.recomputes_halo ? 1 : 0));
  return "";
}

StageFuser::Views StageFuser::view_all_as(const FusedStages& fused, const Shape& shape) const {
  Views views;
  for (const std::size_t stage : fused.stages) {
    for (const Use& use : graph_.stages[stage].inputs) views.emplace(use.buffer, shape);
    for (const Use& use : graph_.stages[stage].outputs) views.emplace(use.buffer, shape);
  }
  return views;
}

// Rebuilds the reader with these views, if that makes it read `input` as it is written and leaves its buffers in the
// same order.
bool StageFuser::view_reader(FusedStages& reader, std::size_t input, const Shape& written, const Views& views) {
  FusedStages viewed = rebuilt(reader.stages, views);
  const bool is_usable =
      !viewed.stages.empty() && viewed.code.buffers == reader.code.buffers && viewed.code.shapes[input] == written;
  if (is_usable) reader = std::move(viewed);
  return is_usable;
}

bool StageFuser::align(FusedStages& reader, std::size_t input, FusedStages& writer) {
  const Shape &read = reader.code.shapes[input], &written = writer.code.shapes[0];
  if (read == written) return true;
  if (writer.is_uniform) {
    FusedStages viewed = rebuilt(writer.stages, view_all_as(writer, read));
    if (!viewed.stages.empty()) {
      writer = std::move(viewed);
      return true;
    }
  }
  if (reader.is_uniform && view_reader(reader, input, written, view_all_as(reader, written))) return true;
  if (!reader.is_pointwise || reader.stages.size() > 1) return false;
  // With leading extents of 1, and merged axes if need be: so does a matrix product have its output.
  for (const bool is_merged : {false, true}) {
    std::vector<Shape> shapes = reader.code.shapes;
    if (is_merged) kernels::merge_axes(shapes);
    Views views;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      views.emplace(reader.code.buffers[i], padded(shapes[i], written.rank()));
    if (views.at(reader.code.buffers[input]) == written && view_reader(reader, input, written, views)) return true;
  }
  return false;
}

// A pointwise program does not depend on its axes, and is fastest with as few as possible.
void StageFuser::merge_axes(FusedStages& fused) {
  if (!fused.is_pointwise) return;
  std::vector<std::size_t> buffers;
  std::vector<Shape> shapes;
  const Shape& output = graph_.stages[fused.stages.back()].outputs.front().shape;
  // False if a buffer is used with two shapes.
  const auto add = [&](const Use& use) {
    const auto known = std::ranges::find(buffers, use.buffer);
    if (known != buffers.end()) return shapes[static_cast<std::size_t>(known - buffers.begin())] == use.shape;
    buffers.push_back(use.buffer);
    shapes.push_back(use.shape);
    return true;
  };
  if (!add(graph_.stages[fused.stages.back()].outputs.front())) return;
  for (const std::size_t stage : fused.stages) {
    const GraphStage& of = graph_.stages[stage];
    if (of.outputs.front().shape != output || !add(of.outputs.front())) return;
    for (const Use& use : of.inputs) {
      if (!add(use)) return;
    }
  }
  kernels::merge_axes(shapes);
  Views views;
  for (std::size_t i = 0; i < buffers.size(); ++i) views.emplace(buffers[i], shapes[i]);
  FusedStages merged = rebuilt(fused.stages, views);
  if (!merged.stages.empty() && merged.buffer_count() <= options_.most_buffers) fused = std::move(merged);
}

void StageFuser::optimize(FusedStages& fused) {
  merge_axes(fused);
  const auto reads_groups = [&](std::size_t stage) { return has_strides(*single(stage).code.program); };
  if (!fused.is_pointwise && fused.stages.size() > 2 && std::ranges::any_of(fused.stages, reads_groups)) {
    FusedStages from_end = from_the_end(fused.stages);
    const bool is_better =
        from_end.skips && from_end.stages == fused.stages && from_end.buffer_count() <= options_.most_buffers;
    if (is_better) fused = std::move(from_end);
  }
  if (fused.skips) {
    ir::Program program = *fused.code.program;
    compile::deinterleave_inputs(program);
    fused.code.program = std::make_shared<const ir::Program>(std::move(program));
  }
}

}  // namespace tessera::plan
