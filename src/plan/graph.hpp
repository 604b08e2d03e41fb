#pragma once

#include <tessera/dtype.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/stage.hpp>

#include "ir/ir.hpp"
#include "kernels/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::plan {

// A pipeline as the planner sees it: stages that use numbered buffers. Nothing here knows about memory.
struct GraphBuffer {
  enum class Kind : std::uint8_t {
    own,        // the caller's: always written
    slot,       // bound by each run
    temporary,  // lives inside a run
  };
  Kind kind = Kind::own;
  std::string name;  // "frame", "temporary 0", "buffer 2"
  DType dtype = f32;
  Shape shape = {};
};
std::string_view to_string(GraphBuffer::Kind kind) noexcept;

// A buffer as a stage sees it.
struct Use {
  static constexpr std::size_t nothing = ~std::size_t{0};

  std::size_t buffer = 0;  // nothing: the stage was given something unusable, which has been reported as a problem
  DType dtype = f32;
  Shape shape = {};

  std::size_t bytes() const { return shape.size_bytes(dtype); }
};

struct GraphStage {
  StageOp op = StageOp::run_kernel;
  std::string label;  // its name in messages: "sharpen"
  // For a kernel, and for a copy, which is one too.
  const kernels::Kernel* kernel = nullptr;
  Params params = {};  // values may refer to parameters of the pipeline
  std::vector<Use> inputs = {};
  std::vector<Use> outputs = {};        // a kernel has one
  std::vector<std::int64_t> tile = {};  // the tile of a kernel's output, if the caller chose it
  bool is_between_devices = false;      // a copy to or from another device, which counts as a call here

  // "stage 2 [sharpen]": how messages begin.
  std::string describe(std::size_t number) const;
};

struct Graph {
  std::vector<GraphBuffer> buffers;
  std::vector<GraphStage> stages;
  std::vector<Param> params;  // with their default values

  // The index of the parameter; params.size() if there is none.
  std::size_t param_number(std::string_view name) const noexcept;
};

// Replaces references to the pipeline's parameters by their values, which are in the order of graph.params.
// Errc::unknown_parameter with the nearest name.
Value substituted(const Value& value, const Graph& graph, const std::vector<Value>& values);
Params substituted(const Params& params, const Graph& graph, const std::vector<Value>& values);
// Whether a value refers to a parameter of the pipeline.
bool uses_parameters(const Params& params);

// One mistake in a stage.
struct Problem {
  std::size_t stage = 0;
  Errc code = Errc::invalid_argument;
  std::string what;
};
// Temporaries that are read before any stage has written them.
std::vector<Problem> order_problems(const Graph& graph);
// Probably unintended: stages whose output is never read.
std::vector<std::string> order_warnings(const Graph& graph);
// Throws the problems, of which there is at least one, as one Error in the order of the stages. Its text lists the
// first 100: a generated pipeline may have as many as it has stages.
inline constexpr std::size_t most_listed = 100;
[[noreturn]] void throw_problems(const Graph& graph, const std::vector<Problem>& problems);

// What determines the program of a stage, besides the kernel and the types: two stages with the same form differ only
// in their scalars.
struct StageForm {
  explicit StageForm(kernels::Lowering&& lowering);
  bool operator==(const StageForm&) const = default;

  std::vector<Shape> shapes;
  std::vector<std::pair<int, int>> fixed;
  std::string variant;
  std::vector<std::int64_t> tile;
  bool is_pointwise;
};

// The call of a kernel stage: its lowering, and its program over the lowering's axes for these extents (-1: any).
// Refers to the stage and to `params`, which must be substituted and outlive it.
struct StageCall {
  StageCall(const GraphStage& stage, const Params& params);
  StageCall(const StageCall&) = delete;
  StageCall& operator=(const StageCall&) = delete;

  kernels::Lowering lower() const { return call_.kernel.lower(call_); }
  ir::Program program(const kernels::Lowering& lowering, const std::vector<std::vector<std::int64_t>>& dims) const {
    return kernels::trace(call_, lowering, dims);
  }

 private:
  std::vector<kernels::Operand> inputs_;
  kernels::Arguments arguments_;
  kernels::Call call_;
};

}  // namespace tessera::plan
