#pragma once

#include "plan/plan.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// How several stages become one program. Which stages those are is decided in groups.cpp.
namespace tessera::plan {

// Stages as one program. Its buffer 0 is the output of the last stage.
struct FusedStages {
  std::vector<std::size_t> stages;
  FusedProgram code;
  std::size_t depth = 1;      // the length of the longest chain of stages that recompute their neighbours
  bool is_pointwise = false;  // all stages are pointwise, and their outputs have the same shape
  bool is_uniform = false;    // pointwise, and the inputs have that shape too
  bool skips = false;         // elements of an intermediate result that nothing reads are not computed

  // How many buffers a launch uses.
  std::size_t buffer_count() const;
};

class StageFuser {
 public:
  // The graph, values and options must outlive it.
  StageFuser(const Graph& graph, const std::vector<Value>& values, const FusionOptions& options)
      : graph_(graph), values_(values), options_(options), singles_(graph.stages.size()) {}

  // One stage by itself.
  const FusedStages& single(std::size_t stage);
  // Moves the writer into the reader, whose buffer `input` it writes. Returns why that is impossible; empty if it was
  // done.
  std::string join(FusedStages& reader, std::size_t input, const FusedStages& writer);
  // Gives both the same view of the buffer that the writer writes and the reader reads as `input`; false if there is
  // none.
  bool align(FusedStages& reader, std::size_t input, FusedStages& writer);
  // Improves a group that is complete: fewer axes, and nothing computed that is not read.
  void optimize(FusedStages& fused);

 private:
  using Views = std::map<std::size_t, Shape>;  // the shapes of buffers, where they differ from the kernels' choice

  // Everything that determines a stage's program (kernels::Lowering).
  struct ProgramKey {
    const kernels::Kernel* kernel;
    std::vector<DType> dtypes;
    std::vector<std::vector<std::int64_t>> dims;
    std::vector<std::int64_t> tile;
    std::string variant;
    auto operator<=>(const ProgramKey&) const = default;
  };
  // Two programs to be fused, and the result. Layers of a network are often alike, and then so is every step of fusing
  // them.
  struct Pair {
    std::shared_ptr<const ir::Program> reader;
    std::size_t input;
    std::shared_ptr<const ir::Program> writer;
    std::vector<int> same;
    auto operator<=>(const Pair&) const = default;
  };
  struct PairResult {
    std::shared_ptr<const ir::Program> program;  // null: they cannot be fused
    std::vector<int> kept;                       // which buffers it has, of the reader's and then the writer's own
    std::string reason;
    bool skips = false;
    bool recomputes_halo = false;
  };

  FusedStages single(std::size_t number, const Views& views);
  std::shared_ptr<const ir::Program> program_of(const GraphStage& stage, const StageCall& call,
                                                const kernels::Lowering& lowering);
  FusedStages rebuilt(const std::vector<std::size_t>& stages, const Views& views);
  FusedStages from_the_end(const std::vector<std::size_t>& stages);
  Views view_all_as(const FusedStages& fused, const Shape& shape) const;
  bool view_reader(FusedStages& reader, std::size_t input, const Shape& written, const Views& views);
  const PairResult& fuse(Pair pair);
  void merge_axes(FusedStages& fused);

  const Graph& graph_;
  const std::vector<Value>& values_;
  const FusionOptions& options_;
  std::vector<std::optional<FusedStages>> singles_;  // by stage, once needed
  std::map<ProgramKey, std::shared_ptr<const ir::Program>> programs_;
  std::map<Pair, PairResult> pairs_;
  std::size_t stored_ops_ = 0;  // of pairs_
};

}  // namespace tessera::plan
