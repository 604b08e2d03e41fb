// Which stages become one launch.
#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "ir/cost.hpp"
#include "ir/rules.hpp"
#include "plan/stage_fusion.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

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

// Why a stage without a kernel is a group of its own.
std::string own_reason(const GraphStage& stage) {
  if (stage.op == StageOp::barrier) return "a barrier";
  return stage.is_between_devices ? "a copy between devices" : "a host function";
}

// The graph with a new version of a buffer whenever a stage writes it, so that a group can use both the old and the new
// contents of a buffer that is written again, and never confuses them.
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
  std::vector<std::size_t> memory;  // by version: the buffer
};

// Larger groups take long to plan and do not run faster: additions and products over 4 MiB take 19 µs a stage in groups
// of 10, 26 in groups of 25 and 58 in groups of 100; a pass over the memory takes 120.
constexpr std::size_t most_stages = 32;

// The longest chain of stages that read neighbouring elements of each other's results: each has to compute more
// neighbours for the next. A blur takes 0.13 ms by itself, 0.19 as one of 8, 0.36 as one of 16, and 5.6 as one of 32.
constexpr std::size_t most_depth = 8;

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<Value>& values, const FusionOptions& options)
      : versions_(graph),
        graph_(versions_.graph),
        most_buffers_(options.most_buffers),
        fuser_(graph_, values, options),
        writer_(graph_.buffers.size()),
        writers_of_(graph.buffers.size()) {
    find_readers();
  }

  std::vector<Group> run();

 private:
  struct Candidate {
    Group group;
    std::optional<FusedStages> fused;  // of kernels
    std::size_t segment = 0;           // the number of barriers before it
    bool is_absorbed = false;          // by a later candidate
  };

  void find_readers();
  std::string obstacle(const Candidate& writer, std::size_t index, std::size_t buffer) const;
  std::string written_between(const Candidate& writer, std::size_t index) const;
  static std::string expense(const FusedStages& reader, const FusedStages& writer);
  std::string launch_limit(const FusedStages& joined) const;
  std::string fuse_input(FusedStages& reader, std::size_t input);
  void add_kernel(std::size_t stage);
  void add(Candidate candidate);
  Group finished(Candidate& candidate);
  bool is_same_memory(std::size_t a, std::size_t b) const { return versions_.memory[a] == versions_.memory[b]; }
  void to_buffers(std::vector<std::size_t>& versions) const;

  const Versioned versions_;
  const Graph& graph_;  // the one with versions: all buffer numbers below are versions
  const std::size_t most_buffers_;
  StageFuser fuser_;
  std::vector<Candidate> candidates_;
  std::size_t segment_ = 0;
  std::vector<std::optional<std::size_t>> writer_;    // by version: an index into candidates_
  std::vector<std::vector<std::size_t>> writers_of_;  // by buffer: indices into candidates_, in order
  std::vector<std::vector<std::size_t>> readers_of_;  // by version: stages
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

// Why the writer cannot be fused into the reader, whatever the two compute; empty if it can.
std::string Grouping::obstacle(const Candidate& writer, std::size_t index, std::size_t buffer) const {
  const std::string& name = graph_.buffers[buffer].name;
  const GraphBuffer::Kind kind = graph_.buffers[buffer].kind;
  if (kind == GraphBuffer::Kind::own) return text(name, " belongs to the caller and must be written");
  if (kind == GraphBuffer::Kind::slot) return text(name, " is a slot and must be written");
  if (!writer.fused) return text(name, " is written by ", own_reason(graph_.stages[writer.group.stages.front()]));
  if (writer.segment != segment_) return "a barrier is between them";
  const std::size_t readers = readers_of_[buffer].size();
  if (readers > 1) return text(name, " is read by ", readers, " stages");
  return written_between(writer, index);
}

// Whether something that the writer reads is overwritten before the reader, which would then read the new contents.
std::string Grouping::written_between(const Candidate& writer, std::size_t index) const {
  std::optional<std::size_t> first;  // the first candidate that overwrites an input
  std::size_t overwritten = 0;
  for (const std::size_t read : writer.group.inputs) {
    const std::vector<std::size_t>& writers = writers_of_[versions_.memory[read]];
    for (auto later = writers.rbegin(); later != writers.rend() && *later > index; ++later) {
      if (candidates_[*later].is_absorbed || (first && *first <= *later)) continue;
      first = *later;
      overwritten = read;
    }
  }
  if (!first) return "";
  return text(graph_.buffers[overwritten].name, ", which ", graph_.stages[writer.fused->stages.back()].label,
              " reads, is overwritten in between");
}

// Whether recomputing the writer wherever it is read would cost more than storing its result.
std::string Grouping::expense(const FusedStages& reader, const FusedStages& writer) {
  const auto any = [](const FusedStages& fused, auto is) {
    return std::ranges::any_of(fused.code.program->ops, [&](const ir::Op& op) { return is(op.code); });
  };
  const auto is_expensive = [](ir::Code code) {
    return ir::is_reduction(code) || code == ir::Code::mma || code == ir::Code::loop;
  };
  if (any(reader, [](ir::Code code) { return code == ir::Code::mma; }))
    return "a matrix product reads its operands many times";
  const std::int64_t written = writer.code.shapes[0].elements(), computed = reader.code.shapes[0].elements();
  if (2 * written <= computed && (any(writer, is_expensive) || ir::weight(*writer.code.program) > 1)) {
    return "it is read many times, and costs more to compute than to store";
  }
  return "";
}

// Why the joined stages cannot be one launch; empty if they can.
std::string Grouping::launch_limit(const FusedStages& joined) const {
  if (joined.depth > most_depth)
    return text("at most ", most_depth, " stages that read neighbouring elements share a launch");
  if (const std::size_t count = joined.buffer_count(); count > most_buffers_)
    return text("together they use ", count, " buffers, and a launch on this device can use ", most_buffers_);
  for (std::size_t i = 1; i < joined.code.buffers.size(); ++i) {
    const std::size_t read = joined.code.buffers[i];
    if (read != FusedProgram::nowhere && is_same_memory(read, joined.code.buffers[0]) &&
        !(joined.code.shapes[i] == joined.code.shapes[0] &&
          ir::reads_in_place(*joined.code.program, static_cast<int>(i)))) {
      return text(graph_.buffers[joined.code.buffers[0]].name,
                  " would be written while neighbouring elements of it are read");
    }
  }
  return "";
}

// Fuses the writer of one of the reader's inputs into the reader. Returns why that, or something before it, is
// impossible; empty if everything was fused.
std::string Grouping::fuse_input(FusedStages& reader, std::size_t input) {
  const std::size_t buffer = reader.code.buffers[input];
  const std::optional<std::size_t> index = writer_[buffer];
  if (!index) return "";  // no stage has written it
  Candidate& writer = candidates_[*index];
  if (std::string why = obstacle(writer, *index, buffer); !why.empty()) return why;
  if (reader.stages.size() + writer.fused->stages.size() > most_stages)
    return text("a launch has at most ", most_stages, " stages");
  if (std::string why = expense(reader, *writer.fused); !why.empty()) return why;
  FusedStages joined = reader, source = *writer.fused;
  if (!fuser_.align(joined, input, source)) return "the stages index the buffer differently";
  while (true) {  // several inputs may be the same buffer
    const auto at = std::find(joined.code.buffers.begin() + 1, joined.code.buffers.end(), buffer);
    if (at == joined.code.buffers.end()) break;
    if (std::string why = fuser_.join(joined, static_cast<std::size_t>(at - joined.code.buffers.begin()), source);
        !why.empty()) {
      return why;
    }
  }
  if (std::string why = launch_limit(joined); !why.empty()) return why;
  reader = std::move(joined);
  writer.is_absorbed = true;
  return writer.group.reason;
}

void Grouping::add_kernel(std::size_t stage) {
  FusedStages fused = fuser_.single(stage);
  std::string reason;
  for (const Use& use : graph_.stages[stage].inputs) {
    const auto found = std::find(fused.code.buffers.begin() + 1, fused.code.buffers.end(), use.buffer);
    if (found == fused.code.buffers.end()) continue;  // fused already
    std::string why = fuse_input(fused, static_cast<std::size_t>(found - fused.code.buffers.begin()));
    if (reason.empty()) reason = std::move(why);
  }
  Candidate candidate;
  Group& group = candidate.group;
  group.reason = std::move(reason);
  group.stages = fused.stages;
  for (std::size_t i = 1; i < fused.code.buffers.size(); ++i) {
    const std::size_t buffer = fused.code.buffers[i];
    if (buffer != FusedProgram::nowhere && !has(group.inputs, buffer)) group.inputs.push_back(buffer);
  }
  group.outputs = {fused.code.buffers[0]};
  candidate.segment = segment_;
  candidate.fused = std::move(fused);
  add(std::move(candidate));
}

void Grouping::add(Candidate candidate) {
  for (const std::size_t buffer : candidate.group.outputs) {
    writer_[buffer] = candidates_.size();
    writers_of_[versions_.memory[buffer]].push_back(candidates_.size());
  }
  candidates_.push_back(std::move(candidate));
}

// Replaces versions by the buffers that they are versions of.
void Grouping::to_buffers(std::vector<std::size_t>& versions) const {
  for (std::size_t& version : versions) {
    if (version != FusedProgram::nowhere) version = versions_.memory[version];
  }
}

Group Grouping::finished(Candidate& candidate) {
  Group group = std::move(candidate.group);
  to_buffers(group.inputs);
  to_buffers(group.outputs);
  if (!candidate.fused || group.stages.size() == 1) return group;
  fuser_.optimize(*candidate.fused);
  to_buffers(candidate.fused->code.buffers);
  group.fused = std::make_shared<FusedProgram>(std::move(candidate.fused->code));
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
    Candidate candidate{single_group(stage, s), std::nullopt, segment_};
    if (s > 0) candidate.group.reason = own_reason(stage);
    add(std::move(candidate));
  }
  std::vector<Group> groups;
  for (Candidate& candidate : candidates_) {
    if (!candidate.is_absorbed) groups.push_back(finished(candidate));
  }
  return groups;
}

}  // namespace

std::vector<Group> groups_of(const Graph& graph, const std::vector<Value>& values, const FusionOptions& options) {
  if (options.is_on) return Grouping(graph, values, options).run();
  std::vector<Group> groups;
  groups.reserve(graph.stages.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) groups.push_back(single_group(graph.stages[s], s));
  for (std::size_t s = 1; s < groups.size(); ++s) {
    groups[s].reason = graph.stages[s].kernel ? "fusion is switched off" : own_reason(graph.stages[s]);
  }
  return groups;
}

}  // namespace tessera::plan
