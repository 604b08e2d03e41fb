#include "graph/plan.hpp"

#include <algorithm>

namespace tessera::graph {

namespace {

std::vector<std::size_t> buffers_of(const std::vector<Use>& uses) {
  std::vector<std::size_t> buffers;
  buffers.reserve(uses.size());
  for (const Use& use : uses) buffers.push_back(use.buffer);
  return buffers;
}

std::string_view reason_of(const PipelineStage& stage, bool fuse) {
  switch (stage.op) {
    case StageOp::barrier:
      return "a barrier";
    case StageOp::call:
      return "a function of the program's";
    case StageOp::run_kernel:
    case StageOp::copy_buffer:
      break;
  }
  return fuse ? "each kernel is launched by itself" : "fusion is switched off";
}

}  // namespace

std::vector<Group> groups_of(const PipelineGraph& graph, const std::vector<Value>&, bool fuse) {
  std::vector<Group> groups;
  groups.reserve(graph.stages.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    const PipelineStage& stage = graph.stages[s];
    groups.push_back({.stages = {s},
                      .inputs = buffers_of(stage.inputs),
                      .outputs = buffers_of(stage.outputs),
                      .reason = s == 0 ? "" : std::string(reason_of(stage, fuse))});
  }
  return groups;
}

}  // namespace tessera::graph
