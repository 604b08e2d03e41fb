#pragma once

#include "plan/graph.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::plan {

// The program of several fused stages.
struct FusedProgram {
  static constexpr std::size_t nowhere = ~std::size_t{0};

  std::shared_ptr<const ir::Program> program;
  std::vector<std::size_t> buffers;  // the graph's, by the program's; nowhere: only the extents matter
  std::vector<Shape> shapes;         // as the program sees them
  struct Scalar {
    std::size_t stage;
    std::size_t number;  // its index in the stage's plan
    std::uint64_t bits;
  };
  std::vector<Scalar> scalars;
};

// Stages that are launched as one.
struct Group {
  std::vector<std::size_t> stages;   // in order
  std::vector<std::size_t> inputs;   // buffers, as the launch takes them
  std::vector<std::size_t> outputs;  // none for a barrier
  std::string reason = {};           // why it was not fused with an earlier group; empty if there is none
  std::shared_ptr<const FusedProgram> fused = nullptr;  // if it has several stages

  // The groups that it waits for directly, set by plan_of(). `ordered_after` are the ones that follow from barriers,
  // not from buffers.
  std::vector<std::size_t> after = {};
  std::vector<std::size_t> ordered_after = {};
  bool is_last = true;  // no other group waits for it
};

// Memory that temporaries share.
struct TemporaryBlock {
  std::size_t bytes = 0;
  std::vector<std::size_t> temporaries;
};

struct Plan {
  std::vector<Group> groups;
  std::vector<TemporaryBlock> blocks;
  std::vector<std::optional<std::size_t>> block_of;  // by buffer; empty unless it is a temporary that needs memory
  std::size_t temporary_bytes = 0;                   // the size of all temporaries without sharing
  std::size_t peak = 0;                              // the size of all blocks
  std::size_t bytes_before = 0;                      // read and written if each stage were launched by itself
  std::size_t bytes_after = 0;                       // read and written by the groups
};

struct FusionOptions {
  bool is_on = true;
  std::size_t most_buffers = ~std::size_t{0};  // per launch
  // The types that the device computes in: others it may only copy.
  std::vector<DType> dtypes = {std::begin(all_dtypes), std::end(all_dtypes)};
};

// Fuses stages into groups, one launch each, in an order that respects every buffer (groups.cpp). `values` are those of
// the parameters. Temporaries that only one group uses are not among its inputs and outputs; no group crosses a
// barrier; each group says why it was not fused with an earlier one.
std::vector<Group> groups_of(const Graph& graph, const std::vector<Value>& values, const FusionOptions& options);

// The plan of these groups: who waits for whom, and which temporaries share memory. Two temporaries share a block only
// if every group that uses one of them waits for all that use the other anyway, so that sharing never makes a group
// wait.
Plan plan_of(const Graph& graph, std::vector<Group> groups);

// For human readers (describe.cpp).
std::string explain(const Graph& graph, const Plan& plan, const std::vector<std::string>& warnings);
std::string to_dot(const Graph& graph, const Plan& plan);

// To JSON, and back (json.cpp). Errc::unsupported for a graph with calls. The caller's own buffers come back as slots.
std::string to_json(const Graph& graph, const PipelineOptions& options);
Graph from_json(std::string_view text, PipelineOptions* options);

}  // namespace tessera::plan
