#include "graph/plan.hpp"

#include <algorithm>
#include <utility>

namespace tessera::graph {

namespace {

// For each group, which groups are before it in any case.
class Ancestors {
 public:
  explicit Ancestors(const std::vector<Group>& groups) : before_(groups.size(), std::vector<bool>(groups.size())) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::size_t earlier : groups[g].after) {
        before_[g][earlier] = true;
        for (std::size_t i = 0; i < earlier; ++i) {
          if (before_[earlier][i]) before_[g][i] = true;
        }
      }
    }
  }
  bool is_before(std::size_t earlier, std::size_t later) const { return before_[later][earlier]; }

 private:
  std::vector<std::vector<bool>> before_;
};

bool is_barrier(const PipelineGraph& graph, const Group& group) {
  return graph.stages[group.stages.front()].op == StageOp::barrier;
}

void add_once(std::vector<std::size_t>& list, std::size_t item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

// The order of the groups, from their buffers and from barriers: as Hazards finds it when they run.
void set_order(const PipelineGraph& graph, std::vector<Group>& groups) {
  struct History {
    std::optional<std::size_t> writer;
    std::vector<std::size_t> readers;
  };
  std::vector<History> history(graph.buffers.size());
  std::optional<std::size_t> barrier;  // the last one
  std::size_t segment = 0;             // where what is after it begins
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (is_barrier(graph, group)) {
      for (std::size_t earlier = segment; earlier < g; ++earlier) {
        if (groups[earlier].is_last) group.ordered_after.push_back(earlier);
      }
      if (group.ordered_after.empty() && barrier) group.ordered_after.push_back(*barrier);
      barrier = g;
      segment = g + 1;
    }
    for (const std::size_t buffer : group.inputs) {
      if (history[buffer].writer) add_once(group.after, *history[buffer].writer);
    }
    for (const std::size_t buffer : group.outputs) {
      if (history[buffer].writer) add_once(group.after, *history[buffer].writer);
      for (const std::size_t reader : history[buffer].readers) add_once(group.after, reader);
    }
    // What is after another one that is behind the barrier is behind it too.
    const bool is_behind = std::ranges::any_of(group.after, [&](std::size_t earlier) { return earlier >= segment; });
    if (barrier && *barrier != g && !is_behind) group.ordered_after.push_back(*barrier);

    for (const std::size_t earlier : group.ordered_after) add_once(group.after, earlier);
    for (const std::size_t earlier : group.after) groups[earlier].is_last = false;
    for (const std::size_t buffer : group.inputs) history[buffer].readers.push_back(g);
    for (const std::size_t buffer : group.outputs) history[buffer] = {g, {}};
  }
}

// By buffer: the groups that use it, in order.
std::vector<std::vector<std::size_t>> users_of(const PipelineGraph& graph, const std::vector<Group>& groups) {
  std::vector<std::vector<std::size_t>> users(graph.buffers.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t buffer : groups[g].inputs) add_once(users[buffer], g);
    for (const std::size_t buffer : groups[g].outputs) add_once(users[buffer], g);
  }
  return users;
}

std::size_t bytes_of(const PipelineBuffer& buffer) { return buffer.shape.size_bytes(buffer.dtype); }

// The largest first, each into the first place where it is never in the way.
void set_places(const PipelineGraph& graph, Plan& plan) {
  const Ancestors ancestors(plan.groups);
  const std::vector<std::vector<std::size_t>> users = users_of(graph, plan.groups);
  const auto is_over_before = [&](std::size_t a, std::size_t b) {
    return std::ranges::all_of(users[a], [&](std::size_t g) { return ancestors.is_before(g, users[b].front()); });
  };
  std::vector<std::size_t> temporaries;
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].kind == PipelineBuffer::Kind::temporary && !users[b].empty()) temporaries.push_back(b);
  }
  std::ranges::sort(temporaries, [&](std::size_t a, std::size_t b) {
    const std::size_t a_bytes = bytes_of(graph.buffers[a]), b_bytes = bytes_of(graph.buffers[b]);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
  });
  plan.place_of.resize(graph.buffers.size());
  for (const std::size_t temporary : temporaries) {
    const auto has_room = [&](const Place& place) {
      return std::ranges::all_of(place.temporaries, [&](std::size_t other) {
        return is_over_before(other, temporary) || is_over_before(temporary, other);
      });
    };
    auto place = std::ranges::find_if(plan.places, has_room);
    if (place == plan.places.end()) place = plan.places.insert(place, Place());
    place->bytes = std::max(place->bytes, bytes_of(graph.buffers[temporary]));
    place->temporaries.push_back(temporary);
    plan.place_of[temporary] = static_cast<std::size_t>(place - plan.places.begin());
    plan.temporary_bytes += bytes_of(graph.buffers[temporary]);
  }
  for (const Place& place : plan.places) plan.peak += place.bytes;
}

}  // namespace

Plan plan_of(const PipelineGraph& graph, std::vector<Group> groups) {
  Plan plan;
  plan.groups = std::move(groups);
  set_order(graph, plan.groups);
  set_places(graph, plan);
  for (const PipelineStage& stage : graph.stages) {
    for (const Use& use : stage.inputs) plan.bytes_before += use.bytes();
    for (const Use& use : stage.outputs) plan.bytes_before += use.bytes();
  }
  for (const Group& group : plan.groups) {
    for (const std::size_t buffer : group.inputs) plan.bytes_after += bytes_of(graph.buffers[buffer]);
    for (const std::size_t buffer : group.outputs) plan.bytes_after += bytes_of(graph.buffers[buffer]);
  }
  return plan;
}

}  // namespace tessera::graph
