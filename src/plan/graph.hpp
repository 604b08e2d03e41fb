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

// A pipeline as the planner sees it: stages that use buffers, which are numbers. Nothing here knows whose memory it is.
struct GraphBuffer {
  enum class Kind : std::uint8_t {
    own,        // the caller's: always written
    slot,       // comes with each run
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

  std::size_t buffer = 0;  // nothing: what the stage was given is no buffer that it can use, which is a problem
  DType dtype = f32;
  Shape shape = {};

  std::size_t bytes() const { return shape.size_bytes(dtype); }
};

struct GraphStage {
  StageOp op = StageOp::run_kernel;
  std::string label;  // what it is called in messages: "sharpen"
  // Of a kernel, and of a copy, which is one.
  const kernels::Kernel* kernel = nullptr;
  Params params = {};  // may have values that stand for parameters of the pipeline
  std::vector<Use> inputs = {};
  std::vector<Use> outputs = {};        // of a kernel one
  std::vector<std::int64_t> tile = {};  // of a kernel's output, if the caller chose it
  bool is_between_devices = false;      // a copy whose other buffer is another device's: here as a call

  // "stage 2 [sharpen]": the beginning of a message.
  std::string describe(std::size_t number) const;
};

struct Graph {
  std::vector<GraphBuffer> buffers;
  std::vector<GraphStage> stages;
  std::vector<Param> params;  // with their defaults

  // The number of the parameter; params.size() if there is none.
  std::size_t param_number(std::string_view name) const noexcept;
};

// A value, or parameters, with the values of the pipeline's parameters in the place of their names; values in the order
// of the graph's params. Errc::unknown_parameter with the nearest name.
Value substituted(const Value& value, const Graph& graph, const std::vector<Value>& values);
Params substituted(const Params& params, const Graph& graph, const std::vector<Value>& values);
// Whether they have a parameter of the pipeline in them.
bool uses_parameters(const Params& params);

// One mistake of a stage's.
struct Problem {
  std::size_t stage = 0;
  Errc code = Errc::invalid_argument;
  std::string what;
};
// What can be seen from the order of the stages: temporaries that are read before anything was written into them.
std::vector<Problem> order_problems(const Graph& graph);
// What is allowed but hardly meant: temporaries that nobody reads.
std::vector<std::string> order_warnings(const Graph& graph);
// All of them as one Error, in the order of the stages; they must not be empty.
[[noreturn]] void throw_problems(const Graph& graph, const std::vector<Problem>& problems);

// What the program of a stage follows from, beside the kernel and the types: stages of one form differ in their scalars
// alone.
struct StageForm {
  explicit StageForm(kernels::Lowering&& plan);
  bool operator==(const StageForm&) const = default;

  std::vector<Shape> shapes;
  std::vector<std::pair<int, int>> fixed;
  std::string variant;
  std::vector<std::int64_t> tile;
  bool is_pointwise;
};

// How a kernel stage is done, as fusion wants to see it: its plan, and its program over the axes that the plan has,
// made for these extents (-1: any). The call looks at the stage and at `params`, which must be substituted and outlive
// it.
struct StageCall {
  StageCall(const GraphStage& stage, const Params& params);
  StageCall(const StageCall&) = delete;
  StageCall& operator=(const StageCall&) = delete;

  kernels::Lowering plan() const { return call_.kernel.lower(call_); }
  ir::Program program(const kernels::Lowering& plan, const std::vector<std::vector<std::int64_t>>& dims) const {
    return kernels::trace(call_, plan, dims);
  }

 private:
  std::vector<kernels::Operand> inputs_;
  kernels::Arguments arguments_;
  kernels::Call call_;
};

}  // namespace tessera::plan
