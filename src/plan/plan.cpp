#include "plan/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace tessera::plan {

namespace {

// For each group, the groups that it waits for, directly or not: a bit each.
class Ancestors {
 public:
  explicit Ancestors(const std::vector<Group>& groups) : before_(groups.size()) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::uint64_t>& before = before_[g];
      before.resize(g / 64 + 1);
      for (const std::size_t earlier : groups[g].after) {
        if (is_before(earlier, g)) continue;  // and so are its own ancestors
        before[earlier / 64] |= std::uint64_t{1} << earlier % 64;
        for (std::size_t i = 0; i < before_[earlier].size(); ++i) before[i] |= before_[earlier][i];
      }
    }
  }
  bool is_before(std::size_t earlier, std::size_t later) const {
    return earlier < later && (before_[later][earlier / 64] >> earlier % 64 & 1) != 0;
  }

 private:
  std::vector<std::vector<std::uint64_t>> before_;
};

bool is_barrier(const Graph& graph, const Group& group) {
  return graph.stages[group.stages.front()].op == StageOp::barrier;
}

void add_once(std::vector<std::size_t>& list, std::size_t item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

// The order of the groups, from their buffers and from barriers. Hazards derives the same order when they run.
void set_order(const Graph& graph, std::vector<Group>& groups) {
  struct History {
    std::optional<std::size_t> writer;
    std::vector<std::size_t> readers;
  };
  std::vector<History> history(graph.buffers.size());
  std::optional<std::size_t> barrier;  // the last one so far
  std::size_t segment = 0;             // the first group after it
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
    // A group that waits for another one behind the barrier is behind it too.
    const bool is_behind = std::ranges::any_of(group.after, [&](std::size_t earlier) { return earlier >= segment; });
    if (barrier && *barrier != g && !is_behind) group.ordered_after.push_back(*barrier);

    for (const std::size_t earlier : group.ordered_after) add_once(group.after, earlier);
    for (const std::size_t earlier : group.after) groups[earlier].is_last = false;
    for (const std::size_t buffer : group.inputs) history[buffer].readers.push_back(g);
    for (const std::size_t buffer : group.outputs) history[buffer] = {g, {}};
  }
}

// By buffer: the groups that use it, in order.
std::vector<std::vector<std::size_t>> users_of(const Graph& graph, const std::vector<Group>& groups) {
  std::vector<std::vector<std::size_t>> users(graph.buffers.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto add = [&](std::size_t buffer) {
      if (users[buffer].empty() || users[buffer].back() != g) users[buffer].push_back(g);
    };
    std::ranges::for_each(groups[g].inputs, add);
    std::ranges::for_each(groups[g].outputs, add);
  }
  return users;
}

std::size_t bytes_of(const GraphBuffer& buffer) { return buffer.shape.size_bytes(buffer.dtype); }

// Gives each temporary a block, the largest first: the first block whose other temporaries it can never overlap.
void assign_blocks(const Graph& graph, Plan& plan) {
  const Ancestors ancestors(plan.groups);
  const std::vector<std::vector<std::size_t>> users = users_of(graph, plan.groups);
  const auto is_finished_before = [&](std::size_t a, std::size_t b) {
    return std::ranges::all_of(users[a], [&](std::size_t g) { return ancestors.is_before(g, users[b].front()); });
  };
  std::vector<std::size_t> temporaries;
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].kind == GraphBuffer::Kind::temporary && !users[b].empty()) temporaries.push_back(b);
  }
  std::ranges::sort(temporaries, [&](std::size_t a, std::size_t b) {
    const std::size_t a_bytes = bytes_of(graph.buffers[a]), b_bytes = bytes_of(graph.buffers[b]);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
  });
  plan.block_of.resize(graph.buffers.size());
  // The temporaries in a block are used one after the other. One that is finished before the next begins is finished
  // before all that follow, so only its two neighbours have to be checked.
  using Sequence = std::map<std::size_t, std::size_t>;  // temporaries by first user
  std::vector<Sequence> sequences;                      // by block
  for (const std::size_t temporary : temporaries) {
    const std::size_t first_user = users[temporary].front();
    const auto fits = [&](const Sequence& sequence) {
      const auto next = sequence.lower_bound(first_user);
      return (next == sequence.end() || is_finished_before(temporary, next->second)) &&
             (next == sequence.begin() || is_finished_before(std::prev(next)->second, temporary));
    };
    const auto found = std::ranges::find_if(sequences, fits);
    const auto number = static_cast<std::size_t>(found - sequences.begin());
    if (found == sequences.end()) {
      sequences.emplace_back();
      plan.blocks.emplace_back();
    }
    sequences[number].emplace(first_user, temporary);
    TemporaryBlock& block = plan.blocks[number];
    block.bytes = std::max(block.bytes, bytes_of(graph.buffers[temporary]));
    block.temporaries.push_back(temporary);
    plan.block_of[temporary] = number;
    plan.temporary_bytes += bytes_of(graph.buffers[temporary]);
  }
  for (const TemporaryBlock& block : plan.blocks) plan.peak += block.bytes;
}

}  // namespace

Plan plan_of(const Graph& graph, std::vector<Group> groups) {
  Plan plan;
  plan.groups = std::move(groups);
  set_order(graph, plan.groups);
  assign_blocks(graph, plan);
  for (const GraphStage& stage : graph.stages) {
    for (const Use& use : stage.inputs) plan.bytes_before += use.bytes();
    for (const Use& use : stage.outputs) plan.bytes_before += use.bytes();
  }
  for (const Group& group : plan.groups) {
    for (const std::size_t buffer : group.inputs) plan.bytes_after += bytes_of(graph.buffers[buffer]);
    for (const std::size_t buffer : group.outputs) plan.bytes_after += bytes_of(graph.buffers[buffer]);
  }
  return plan;
}

}  // namespace tessera::plan
