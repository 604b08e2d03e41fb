#pragma once

#include "plan/graph.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::plan {

// The program of several stages.
struct FusedProgram {
  static constexpr std::size_t nowhere = ~std::size_t{0};

  std::shared_ptr<const ir::Program> program;
  std::vector<std::size_t> buffers;  // the pipeline's, by the program's; nowhere: only its extents matter
  std::vector<Shape> shapes;         // as the program sees them
  struct Scalar {
    std::size_t stage;   // whose plan has it…
    std::size_t number;  // …as this one
    std::uint64_t bits;
  };
  std::vector<Scalar> scalars;
};

// Stages that are launched as one.
struct Group {
  std::vector<std::size_t> stages;   // in order
  std::vector<std::size_t> inputs;   // buffers, as the launch takes them
  std::vector<std::size_t> outputs;  // none for a barrier
  std::string reason = {};           // why it was not fused with what is before it; empty if there is nothing
  std::shared_ptr<const FusedProgram> fused = nullptr;  // of several stages

  // The groups it waits for, the nearest only: set by plan_of(). `ordered_after` are those of them that no buffer tells
  // of, on account of a barrier.
  std::vector<std::size_t> after = {};
  std::vector<std::size_t> ordered_after = {};
  bool is_last = true;  // no other group waits for it
};

// Memory that temporaries share.
struct Place {
  std::size_t bytes = 0;
  std::vector<std::size_t> temporaries;
};

struct Plan {
  std::vector<Group> groups;
  std::vector<Place> places;
  std::vector<std::optional<std::size_t>> place_of;  // by buffer; nothing for what is no temporary, or was fused away
  std::size_t temporary_bytes = 0;                   // what the temporaries would take without sharing
  std::size_t peak = 0;                              // what they take: the sum of the places
  std::size_t bytes_before = 0;                      // read and written by the stages, one by one
  std::size_t bytes_after = 0;                       // and by the groups
};

// Whether stages are fused, how many buffers a launch of several stages may use, and the types that the device computes
// in: others it may only move.
struct Fusing {
  bool is_on = true;
  std::size_t most_buffers = ~std::size_t{0};
  std::vector<DType> dtypes = {std::begin(all_dtypes), std::end(all_dtypes)};
};

// Which stages become one launch, in an order that keeps every buffer's. `values` are those of the parameters. This is
// the place of fusion: whoever fuses looks at StageCall for what a stage computes; may leave out of the inputs and
// outputs those temporaries that only the group's own stages use; must keep to barriers; and says for each group why it
// begins where it does.
std::vector<Group> groups_of(const Graph& graph, const std::vector<Value>& values, const Fusing& fusing);

// The plan of these groups: who waits for whom, and where temporaries live. Two temporaries share a place only if all
// that use the one are before all that use the other in any case, so that sharing never makes a group wait.
Plan plan_of(const Graph& graph, std::vector<Group> groups);

// For people (describe.cpp).
std::string explain(const Graph& graph, const Plan& plan, const std::vector<std::string>& warnings);
std::string to_dot(const Graph& graph, const Plan& plan);

// As JSON, and back (json.cpp). Errc::unsupported for a graph with calls. The caller's own buffers come back as slots.
std::string to_json(const Graph& graph, const PipelineOptions& options);
Graph from_json(std::string_view text, PipelineOptions* options);

}  // namespace tessera::plan
