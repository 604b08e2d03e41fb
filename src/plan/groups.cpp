#include "compile/compile.hpp"
#include "compile/passes/fuse.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "ir/rules.hpp"
#include "plan/plan.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

namespace tessera::plan {

using core::text;

namespace {

std::vector<std::size_t> buffers_of(const std::vector<Use>& uses) {
  std::vector<std::size_t> buffers;
  buffers.reserve(uses.size());
  for (const Use& use : uses) buffers.push_back(use.buffer);
  return buffers;
}

bool has(const std::vector<std::size_t>& list, std::size_t item) { return std::ranges::find(list, item) != list.end(); }

// A stage by itself.
Group single_group(const GraphStage& stage, std::size_t number) {
  return {.stages = {number}, .inputs = buffers_of(stage.inputs), .outputs = buffers_of(stage.outputs), .reason = ""};
}

// Why a stage that is no kernel is by itself.
std::string own_reason(const GraphStage& stage) {
  if (stage.op == StageOp::barrier) return "a barrier";
  return stage.is_between_devices ? "a copy between devices" : "a function of the program's";
}

// The graph with a buffer of its own for each value: what a stage writes is another buffer than what was there before.
// So a group may use both the old and the new value of a buffer that is written again, and never takes one for the
// other.
struct Versioned {
  explicit Versioned(const Graph& of) : graph(of) {
    std::vector<std::size_t> current(graph.buffers.size());
    std::iota(current.begin(), current.end(), std::size_t{0});
    memory = current;
    for (GraphStage& stage : graph.stages) {
      for (Use& use : stage.inputs) use.buffer = current[use.buffer];
      for (Use& use : stage.outputs) {
        const GraphBuffer& buffer = of.buffers[use.buffer];
        current[use.buffer] = graph.buffers.size();
        memory.push_back(use.buffer);
        use.buffer = graph.buffers.size();
        graph.buffers.push_back(buffer);
      }
    }
  }

  Graph graph;
  std::vector<std::size_t> memory;  // by version: the buffer that it is a value of
};

using Views = std::map<std::size_t, Shape>;  // how buffers are seen, if not as the kernels would

// The extents that the program is made for: those of 1 and those that the plan fixes.
std::vector<std::vector<std::int64_t>> program_dims(const kernels::Lowering& plan) {
  std::vector<std::vector<std::int64_t>> dims;
  for (const Shape& shape : plan.shapes) {
    std::vector<std::int64_t>& known = dims.emplace_back();
    for (const std::int64_t extent : shape) known.push_back(extent == 1 ? 1 : -1);
  }
  for (const auto& [buffer, axis] : plan.fixed) {
    dims[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)] =
        plan.shapes[static_cast<std::size_t>(buffer)][axis];
  }
  return dims;
}

// With extents of 1 before it.
Shape padded(const Shape& shape, int rank) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(std::max(0, rank - shape.rank())), 1);
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(std::span<const std::int64_t>(extents));
}

// All that a stage's program follows from (kernels::Lowering).
struct ProgramKey {
  const kernels::Kernel* kernel;
  std::vector<DType> dtypes;
  std::vector<std::vector<std::int64_t>> dims;
  std::vector<std::int64_t> tile;
  std::string variant;
  auto operator<=>(const ProgramKey&) const = default;
};

// Two programs that were made one, or could not be. Layers are often alike, and so are then all the steps of fusing
// them.
struct Joint {
  std::shared_ptr<const ir::Program> reader;
  std::size_t input;
  std::shared_ptr<const ir::Program> writer;
  std::vector<int> same;
  auto operator<=>(const Joint&) const = default;
};
struct JointResult {
  std::shared_ptr<const ir::Program> program;  // null: there is none
  std::vector<int> kept;                       // which of the reader's and then the writer's own buffers it has
  std::string reason;
  bool skips = false;
  bool recomputes_halo = false;
};

// Of programs that were fused, so many ops are kept at a time: some 16 MB.
constexpr std::size_t most_kept_ops = 1 << 16;

// 32: more make a plan slow to make and no run faster. Additions and products over 4 MiB take 19 µs a stage in groups
// of 10, 26 in groups of 25 and 58 in groups of 100; a pass over the memory takes 120.
constexpr std::size_t most_stages = 32;

// How many stages may read around each point, one what the other computed: each computes more neighbours for the next.
// A blur takes 0.13 ms by itself, 0.19 as one of 8, 0.36 as one of 16, and 5.6 as one of 32.
constexpr std::size_t most_depth = 8;

// Stages as one program.
struct Piece {
  std::vector<std::size_t> stages;
  FusedProgram code;
  std::size_t depth = 1;      // of stages that are computed in parts, one inside of the other
  bool is_pointwise = false;  // all stages are, and have outputs of one shape
  bool is_uniform = false;    // and so have their inputs
  bool skips = false;         // what nobody reads of some stage's output is not computed
};

// Whether a program may read some elements only of each group: every so many along an axis.
bool has_strides(const ir::Program& program) {
  return std::ranges::any_of(program.ops, [](const ir::Op& op) {
    return op.code == ir::Code::mul && op.type == ir::Type::s64 && !op.shape.empty();
  });
}

// How many buffers a launch of it uses.
std::size_t buffer_count(const Piece& piece) {
  const auto has_address = [](std::size_t buffer) { return buffer != FusedProgram::nowhere; };
  return static_cast<std::size_t>(std::ranges::count_if(piece.code.buffers, has_address));
}

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<Value>& values, const Fusing& fusing)
      : versions_(graph),
        graph_(versions_.graph),
        values_(values),
        most_buffers_(fusing.most_buffers),
        dtypes_(fusing.dtypes),
        writer_(graph_.buffers.size()),
        writers_of_(graph.buffers.size()),
        pieces_(graph_.stages.size()) {
    find_readers();
  }

  std::vector<Group> run();

 private:
  struct Made {
    Group group;
    std::optional<Piece> piece;  // if it is made of kernels
    std::size_t segment = 0;     // after how many barriers
    bool is_gone = false;        // into another one
  };

  void find_readers();
  const Piece& piece_of(std::size_t number);
  Piece piece_of(std::size_t number, const Views& views);
  std::shared_ptr<const ir::Program> program_of(const GraphStage& stage, const StageCall& call,
                                                const kernels::Lowering& plan);
  Piece rebuilt(const std::vector<std::size_t>& stages, const Views& views);
  Piece from_the_end(const std::vector<std::size_t>& stages);
  const JointResult& joint(Joint of);
  std::string join(Piece& reader, std::size_t input, const Piece& writer);
  bool align(Piece& reader, std::size_t input, Piece& writer);
  std::string obstacle(const Made& writer, std::size_t place, std::size_t buffer) const;
  std::string written_between(const Made& writer, std::size_t place) const;
  static std::string expense(const Piece& reader, const Piece& writer);
  std::string fuse_input(Piece& reader, std::size_t input);
  void add_kernel(std::size_t stage);
  void merge_axes(Piece& piece);
  void add_made(Made made);
  Group finished(Made& made);
  bool is_same_memory(std::size_t a, std::size_t b) const { return versions_.memory[a] == versions_.memory[b]; }
  void put_memory(std::vector<std::size_t>& versions) const;

  const Versioned versions_;
  const Graph& graph_;  // the one with versions, as all numbers of buffers below are
  const std::vector<Value>& values_;
  const std::size_t most_buffers_;
  const std::vector<DType>& dtypes_;
  std::vector<Made> made_;
  std::size_t segment_ = 0;
  std::vector<std::optional<std::size_t>> writer_;    // by buffer: a place in made_
  std::vector<std::vector<std::size_t>> writers_of_;  // by memory: places in made_, in order
  std::vector<std::vector<std::size_t>> readers_of_;  // by buffer: stages
  std::vector<std::optional<Piece>> pieces_;          // by stage: as they are, once they were asked for
  std::map<ProgramKey, std::shared_ptr<const ir::Program>> programs_;
  std::map<Joint, JointResult> joints_;
  std::size_t kept_ops_ = 0;  // of joints_
};

void Grouping::find_readers() {
  readers_of_.resize(graph_.buffers.size());
  for (std::size_t s = 0; s < graph_.stages.size(); ++s) {
    for (const Use& use : graph_.stages[s].inputs) {
      std::vector<std::size_t>& readers = readers_of_[use.buffer];
      if (readers.empty() || readers.back() != s) readers.push_back(s);
    }
  }
}

// A stage by itself.
const Piece& Grouping::piece_of(std::size_t number) {
  std::optional<Piece>& piece = pieces_[number];
  if (!piece) piece = piece_of(number, {});
  return *piece;
}

// Tracing a kernel costs more than all else that is done for a stage, so it is done once for all stages that are alike.
std::shared_ptr<const ir::Program> Grouping::program_of(const GraphStage& stage, const StageCall& call,
                                                        const kernels::Lowering& plan) {
  ProgramKey key{stage.kernel, {stage.outputs.front().dtype}, program_dims(plan), plan.tile, plan.variant};
  for (const Use& use : stage.inputs) key.dtypes.push_back(use.dtype);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  auto program = std::make_shared<const ir::Program>(call.program(plan, key.dims));
  return programs_.emplace(std::move(key), std::move(program)).first->second;
}

Piece Grouping::piece_of(std::size_t number, const Views& views) {
  const GraphStage& stage = graph_.stages[number];
  const Params params = substituted(stage.params, graph_, values_);
  const StageCall call(stage, params);
  kernels::Lowering plan = call.plan();
  Piece piece;
  piece.stages = {number};
  FusedProgram& code = piece.code;
  code.buffers = {stage.outputs.front().buffer};
  for (const Use& use : stage.inputs) code.buffers.push_back(use.buffer);
  for (std::size_t i = 0; i < code.buffers.size(); ++i) {
    if (const auto view = views.find(code.buffers[i]); view != views.end()) plan.shapes[i] = view->second;
  }
  code.program = program_of(stage, call, plan);
  if (!stage.tile.empty() && plan.is_unknown && compile::sees_tiles(*code.program)) {
    plan.tile = stage.tile;
    code.program = program_of(stage, call, plan);
  }
  code.shapes = plan.shapes;
  for (std::size_t i = 0; i < plan.scalars.size(); ++i) {
    code.scalars.push_back({number, i, plan.scalars[i].bits()});
  }
  piece.is_pointwise = plan.is_pointwise;
  piece.is_uniform = piece.is_pointwise &&
                     std::ranges::all_of(plan.shapes, [&](const Shape& shape) { return shape == plan.shapes.front(); });
  return piece;
}

// The stages as one, all over again, with these views; what could be fused once can be again.
Piece Grouping::rebuilt(const std::vector<std::size_t>& stages, const Views& views) {
  std::vector<Piece> open;
  for (const std::size_t stage : stages) {
    Piece piece = piece_of(stage, views);
    for (std::size_t w = open.size(); w-- > 0;) {
      while (true) {
        const auto input = std::find(piece.code.buffers.begin() + 1, piece.code.buffers.end(), open[w].code.buffers[0]);
        if (input == piece.code.buffers.end()) break;
        if (!join(piece, static_cast<std::size_t>(input - piece.code.buffers.begin()), open[w]).empty()) return {};
      }
    }
    open.push_back(std::move(piece));
  }
  return std::move(open.back());
}

// The stages as one, beginning with the last: so each knows what of its output is read, and computes no more. Nothing
// if that cannot be.
Piece Grouping::from_the_end(const std::vector<std::size_t>& stages) {
  std::map<std::size_t, std::size_t> writers;  // by buffer
  for (const std::size_t stage : stages) {
    writers.emplace(graph_.stages[stage].outputs.front().buffer, stage);
  }
  Piece piece = piece_of(stages.back());
  for (std::size_t input = 1; input < piece.code.buffers.size();) {
    const auto found = writers.find(piece.code.buffers[input]);
    if (found == writers.end()) {
      ++input;
      continue;
    }
    const Piece& writer = piece_of(found->second);
    if (piece.code.shapes[input] != writer.code.shapes[0] || !join(piece, input, writer).empty()) return {};
    input = 1;
  }
  return piece;
}

const JointResult& Grouping::joint(Joint of) {
  if (const auto known = joints_.find(of); known != joints_.end()) return known->second;
  compile::Fused fused = compile::fuse(*of.reader, static_cast<int>(of.input), *of.writer, of.same);
  JointResult result;
  result.reason = std::move(fused.reason);
  result.skips = fused.skips;
  result.recomputes_halo = fused.recomputes_halo;
  if (fused.program) {
    // Where only the values matter, what was in between is not needed any more.
    result.kept = compile::drop_unused_buffers(*fused.program);
    result.program = std::make_shared<const ir::Program>(*std::move(fused.program));
  }
  const std::size_t ops = result.program ? result.program->ops.size() : 0;
  if (kept_ops_ + ops > most_kept_ops) {
    joints_.clear();
    kept_ops_ = 0;
  }
  kept_ops_ += ops;
  return joints_.emplace(std::move(of), std::move(result)).first->second;
}

// Puts the writer into the reader, whose buffer number `input` it writes; why not, if it cannot be.
std::string Grouping::join(Piece& reader, std::size_t input, const Piece& writer) {
  const auto dtype = static_cast<DType>(writer.code.program->buffers[0].type);
  if (std::ranges::find(dtypes_, dtype) == dtypes_.end())
    return text("the device does not compute in ", to_string(dtype), ", it only moves it");
  std::vector<int> same;
  for (std::size_t i = 1; i < writer.code.buffers.size(); ++i) {
    int found = -1;
    for (std::size_t j = 1; j < reader.code.buffers.size() && found < 0; ++j) {
      const bool is_same = reader.code.buffers[j] == writer.code.buffers[i] && j != input &&
                           reader.code.shapes[j] == writer.code.shapes[i];
      if (is_same) found = static_cast<int>(j);
    }
    same.push_back(found);
  }
  const JointResult& fused = joint({reader.code.program, input, writer.code.program, same});
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
    if (!has(stages, stage)) stages.push_back(stage);
  }
  std::ranges::sort(stages);
  reader.stages = std::move(stages);
  reader.is_uniform = reader.is_uniform && writer.is_uniform;
  reader.is_pointwise = reader.is_pointwise && writer.is_pointwise;
  reader.skips = reader.skips || writer.skips || fused.skips;
  reader.depth = std::max(reader.depth, writer.depth + (fused.recomputes_halo ? 1 : 0));
  return "";
}

// Lets both see what one writes and the other reads with the same axes.
bool Grouping::align(Piece& reader, std::size_t input, Piece& writer) {
  const Shape &read = reader.code.shapes[input], &written = writer.code.shapes[0];
  if (read == written) return true;
  const auto all_as = [&](const Piece& piece, const Shape& shape) {
    Views views;
    for (const std::size_t stage : piece.stages) {
      for (const Use& use : graph_.stages[stage].inputs) views.emplace(use.buffer, shape);
      for (const Use& use : graph_.stages[stage].outputs) views.emplace(use.buffer, shape);
    }
    return views;
  };
  // Seen anew, the reader has its buffers in the same places.
  const auto see_reader = [&](const Views& views) {
    Piece seen = rebuilt(reader.stages, views);
    const bool is_same =
        !seen.stages.empty() && seen.code.buffers == reader.code.buffers && seen.code.shapes[input] == written;
    if (is_same) reader = std::move(seen);
    return is_same;
  };
  if (writer.is_uniform) {
    Piece seen = rebuilt(writer.stages, all_as(writer, read));
    if (!seen.stages.empty()) {
      writer = std::move(seen);
      return true;
    }
  }
  if (reader.is_uniform && see_reader(all_as(reader, written))) return true;
  if (!reader.is_pointwise || reader.stages.size() > 1) return false;
  // With fewer axes that say the same, and extents of 1 before them: as a product of matrices has its output.
  for (const bool is_merged : {false, true}) {
    std::vector<Shape> shapes = reader.code.shapes;
    if (is_merged) kernels::merge_axes(shapes);
    Views views;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      views.emplace(reader.code.buffers[i], padded(shapes[i], written.rank()));
    if (views.at(reader.code.buffers[input]) == written && see_reader(views)) return true;
  }
  return false;
}

// Why the writer cannot be put into the reader, whatever the two compute; empty if it can.
std::string Grouping::obstacle(const Made& writer, std::size_t place, std::size_t buffer) const {
  const std::string& name = graph_.buffers[buffer].name;
  const GraphBuffer::Kind kind = graph_.buffers[buffer].kind;
  if (kind == GraphBuffer::Kind::own) return text(name, " is the caller's own and is written");
  if (kind == GraphBuffer::Kind::slot) return text(name, " is a slot and is written");
  if (!writer.piece) return text(name, " is written by ", own_reason(graph_.stages[writer.group.stages.front()]));
  if (writer.segment != segment_) return "a barrier is between them";
  const std::size_t readers = readers_of_[buffer].size();
  if (readers > 1) return text(name, " is read by ", readers, " stages");
  return written_between(writer, place);
}

// What the writer reads and another one writes after it, before the reader: the reader would find that instead.
std::string Grouping::written_between(const Made& writer, std::size_t place) const {
  std::optional<std::size_t> first;  // of those that write such
  std::size_t written = 0;
  for (const std::size_t read : writer.group.inputs) {
    const std::vector<std::size_t>& writers = writers_of_[versions_.memory[read]];
    for (auto later = writers.rbegin(); later != writers.rend() && *later > place; ++later) {
      if (made_[*later].is_gone || (first && *first <= *later)) continue;
      first = *later;
      written = read;
    }
  }
  if (!first) return "";
  return text(graph_.buffers[written].name, ", which ", graph_.stages[writer.piece->stages.back()].label,
              " reads, is written in between");
}

// Whether doing the writer's work again wherever it is read would cost more than keeping its result.
std::string Grouping::expense(const Piece& reader, const Piece& writer) {
  const auto any = [](const Piece& piece, auto is) {
    return std::ranges::any_of(piece.code.program->ops, [&](const ir::Op& op) { return is(op.code); });
  };
  const auto is_much = [](ir::Code code) {
    return ir::is_reduction(code) || code == ir::Code::mma || code == ir::Code::loop;
  };
  if (any(reader, [](ir::Code code) { return code == ir::Code::mma; }))
    return "a product reads its operands many times";
  const std::int64_t written = writer.code.shapes[0].elements(), computed = reader.code.shapes[0].elements();
  if (2 * written <= computed && (any(writer, is_much) || ir::weight(*writer.code.program) > 1)) {
    return "it is read many times, and costs more to compute than to keep";
  }
  return "";
}

// Puts what writes one of the reader's temporaries into it. Why that, or something before it, cannot be; empty if all
// is inside.
std::string Grouping::fuse_input(Piece& reader, std::size_t input) {
  const std::size_t buffer = reader.code.buffers[input];
  const std::optional<std::size_t> place = writer_[buffer];
  if (!place) return "";  // nothing in the pipeline has written it
  Made& writer = made_[*place];
  if (std::string why = obstacle(writer, *place, buffer); !why.empty()) return why;
  if (reader.stages.size() + writer.piece->stages.size() > most_stages)
    return text("a launch is no more than ", most_stages, " stages");
  if (std::string why = expense(reader, *writer.piece); !why.empty()) return why;
  Piece joined = reader, from = *writer.piece;
  if (!align(joined, input, from)) return "the two see its axes differently";
  while (true) {  // it may be several of its inputs
    const auto at = std::find(joined.code.buffers.begin() + 1, joined.code.buffers.end(), buffer);
    if (at == joined.code.buffers.end()) break;
    if (std::string why = join(joined, static_cast<std::size_t>(at - joined.code.buffers.begin()), from);
        !why.empty()) {
      return why;
    }
  }
  if (joined.depth > most_depth)
    return text("no more than ", most_depth, " stages that read around each point are one launch");
  if (const std::size_t count = buffer_count(joined); count > most_buffers_)
    return text("the two use ", count, " buffers, and the device takes ", most_buffers_, " at once");
  for (std::size_t i = 1; i < joined.code.buffers.size(); ++i) {
    const std::size_t read = joined.code.buffers[i];
    if (read != FusedProgram::nowhere && is_same_memory(read, joined.code.buffers[0]) &&
        !(joined.code.shapes[i] == joined.code.shapes[0] &&
          ir::reads_in_place(*joined.code.program, static_cast<int>(i)))) {
      return text(graph_.buffers[joined.code.buffers[0]].name, " is written, and read around each point");
    }
  }
  reader = std::move(joined);
  writer.is_gone = true;
  return writer.group.reason;
}

void Grouping::add_kernel(std::size_t stage) {
  Piece piece = piece_of(stage);
  std::string reason;
  for (const Use& use : graph_.stages[stage].inputs) {
    const auto found = std::find(piece.code.buffers.begin() + 1, piece.code.buffers.end(), use.buffer);
    if (found == piece.code.buffers.end()) continue;  // it is inside already
    std::string why = fuse_input(piece, static_cast<std::size_t>(found - piece.code.buffers.begin()));
    if (reason.empty()) reason = std::move(why);
  }
  Made made;
  made.group.reason = std::move(reason);
  made.group.stages = piece.stages;
  for (std::size_t i = 1; i < piece.code.buffers.size(); ++i) {
    const std::size_t buffer = piece.code.buffers[i];
    if (buffer != FusedProgram::nowhere && !has(made.group.inputs, buffer)) made.group.inputs.push_back(buffer);
  }
  made.group.outputs = {piece.code.buffers[0]};
  made.segment = segment_;
  made.piece = std::move(piece);
  add_made(std::move(made));
}

void Grouping::add_made(Made made) {
  for (const std::size_t buffer : made.group.outputs) {
    writer_[buffer] = made_.size();
    writers_of_[versions_.memory[buffer]].push_back(made_.size());
  }
  made_.push_back(std::move(made));
}

// Point by point, the axes do not matter: as few as there can be are the fastest.
void Grouping::merge_axes(Piece& piece) {
  if (!piece.is_pointwise) return;
  std::vector<std::size_t> buffers;
  std::vector<Shape> shapes;
  const Shape& output = graph_.stages[piece.stages.back()].outputs.front().shape;
  const auto add = [&](const Use& use) {
    const auto known = std::ranges::find(buffers, use.buffer);
    if (known != buffers.end()) return shapes[static_cast<std::size_t>(known - buffers.begin())] == use.shape;
    buffers.push_back(use.buffer);
    shapes.push_back(use.shape);
    return true;
  };
  if (!add(graph_.stages[piece.stages.back()].outputs.front())) return;
  for (const std::size_t stage : piece.stages) {
    const GraphStage& of = graph_.stages[stage];
    if (of.outputs.front().shape != output || !add(of.outputs.front())) return;
    for (const Use& use : of.inputs) {
      if (!add(use)) return;
    }
  }
  kernels::merge_axes(shapes);
  Views views;
  for (std::size_t i = 0; i < buffers.size(); ++i) views.emplace(buffers[i], shapes[i]);
  Piece merged = rebuilt(piece.stages, views);
  if (!merged.stages.empty() && buffer_count(merged) <= most_buffers_) piece = std::move(merged);
}

// The buffers in the place of their versions.
void Grouping::put_memory(std::vector<std::size_t>& versions) const {
  for (std::size_t& version : versions) {
    if (version != FusedProgram::nowhere) version = versions_.memory[version];
  }
}

Group Grouping::finished(Made& made) {
  Group group = std::move(made.group);
  put_memory(group.inputs);
  put_memory(group.outputs);
  if (!made.piece || group.stages.size() == 1) return group;
  merge_axes(*made.piece);
  const auto reads_groups = [&](std::size_t stage) { return has_strides(*piece_of(stage).code.program); };
  if (!made.piece->is_pointwise && group.stages.size() > 2 && std::ranges::any_of(group.stages, reads_groups)) {
    Piece from_end = from_the_end(group.stages);
    const bool is_better = from_end.skips && from_end.stages == group.stages && buffer_count(from_end) <= most_buffers_;
    if (is_better) made.piece = std::move(from_end);
  }
  if (made.piece->skips) {
    ir::Program apart = *made.piece->code.program;
    compile::deinterleave_inputs(apart);
    made.piece->code.program = std::make_shared<const ir::Program>(std::move(apart));
  }
  put_memory(made.piece->code.buffers);
  group.fused = std::make_shared<FusedProgram>(std::move(made.piece->code));
  return group;
}

std::vector<Group> Grouping::run() {
  for (std::size_t s = 0; s < graph_.stages.size(); ++s) {
    const GraphStage& stage = graph_.stages[s];
    if (stage.kernel) {
      add_kernel(s);
      continue;
    }
    if (stage.op == StageOp::barrier) ++segment_;
    Made made{single_group(stage, s), std::nullopt, segment_};
    if (s > 0) made.group.reason = own_reason(stage);
    add_made(std::move(made));
  }
  std::vector<Group> groups;
  for (Made& made : made_) {
    if (!made.is_gone) groups.push_back(finished(made));
  }
  return groups;
}

}  // namespace

std::vector<Group> groups_of(const Graph& graph, const std::vector<Value>& values, const Fusing& fusing) {
  if (fusing.is_on) return Grouping(graph, values, fusing).run();
  std::vector<Group> groups;
  groups.reserve(graph.stages.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) groups.push_back(single_group(graph.stages[s], s));
  for (std::size_t s = 1; s < groups.size(); ++s) {
    groups[s].reason = graph.stages[s].kernel ? "fusion is switched off" : own_reason(graph.stages[s]);
  }
  return groups;
}

}  // namespace tessera::plan
