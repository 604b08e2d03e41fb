#pragma once

#include "driver/driver.hpp"
#include "plan/call_cache.hpp"
#include "plan/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::plan {

// Work that moves at most this many bytes runs on the submitting thread, under the order lock, if nothing is ahead of
// it: 4 KiB take less than 0.2 µs, handing over to a worker at least 0.3 µs (bench: "independent tiny commands").
inline constexpr std::int64_t small_bytes = 4096;

// One group of a plan, ready to be launched once its buffers have memory.
struct CompiledGroup {
  bool is_host = false;        // a call, a copy between devices or a barrier, which has neither inputs nor outputs
  std::string label;           // "blur+sharpen"
  std::size_t stage = 0;       // its first stage
  std::string context;         // how messages about it begin: "stage 2 "
  driver::Launch launch = {};  // for a kernel; without addresses
  std::vector<std::size_t> operands;  // the buffers of the launch, in its order; FusedProgram::nowhere: no memory
  std::vector<std::size_t> inputs;    // buffers
  std::vector<std::size_t> outputs;
  std::vector<Use> input_uses = {};  // for a call
  std::vector<Use> output_uses = {};
};

// A graph that has been checked, grouped and compiled for a device and certain values of its parameters. Immutable.
struct CompiledPlan {
  Graph graph;
  Plan plan;
  std::vector<std::string> warnings;
  std::vector<CompiledGroup> groups;
  std::vector<std::optional<StageForm>> forms;  // by stage: for fused stages that use parameters
  std::vector<std::size_t> slots;               // which buffers are slots
  std::vector<std::size_t> used;                // which are used at all; if temporaries share memory, the first
  std::vector<bool> is_written;                 // by buffer
  bool is_small = false;                        // runs on the submitting thread if nothing is ahead of it
  bool is_all_kernels = false;                  // a device with a queue can start it as a whole
};

// Where a plan is compiled.
struct Compiler {
  CallCache& calls;
  driver::Driver& driver;
};

// Compiles a graph for these values of its parameters. Throws everything that is wrong as one Error, together with the
// problems that are known already.
void compile(const Compiler& compiler, Graph of, const std::vector<Value>& values, bool fuse,
             std::vector<Problem> problems, CompiledPlan& plan);

// The scalars of a plan's groups for these parameter values; nothing if the values change more than scalars.
struct Patch {
  std::size_t group;
  std::vector<std::uint64_t> scalars;
};
std::optional<std::vector<Patch>> patches_of(const Compiler& compiler, const CompiledPlan& plan,
                                             const std::vector<Value>& values);

// Compiles a stage as a group of its own; throws the first problem.
CompiledGroup compile_stage(const Compiler& compiler, const GraphStage& stage, std::size_t number,
                            const Params& params);
// Adds all problems of a stage that failed to compile: its parameters, the number of its inputs, their types and shapes
// (stage_checks.cpp). Without `has_operands` the operands are known to be wrong, and only the parameters are checked.
void find_problems(const Compiler& compiler, const Graph& graph, std::size_t number, const std::vector<Value>& values,
                   bool has_operands, std::vector<Problem>& problems);

}  // namespace tessera::plan
