// Pipelines recorded once and run many times.
#include "cases/tiny.hpp"

#include <tbb/flow_graph.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

namespace bench {

namespace {

using tessera::Buffer;
using tessera::Pipeline;

constexpr int stages = 10;
constexpr int repeats = 1000;

// Prebuilt, with empty nodes: the cost of ordering alone.
class EmptyGraph {
 public:
  EmptyGraph() {
    for (int i = 0; i < stages; ++i) {
      nodes_.emplace_back(graph_, [](const tbb::flow::continue_msg&) {});
      if (i > 0) tbb::flow::make_edge(nodes_[static_cast<std::size_t>(i) - 1], nodes_.back());
    }
  }
  void run() {
    nodes_.front().try_put(tbb::flow::continue_msg());
    graph_.wait_for_all();
  }

 private:
  tbb::flow::graph graph_;
  std::deque<tbb::flow::continue_node<tbb::flow::continue_msg>> nodes_;
};

double nanoseconds_each(const std::function<void()>& call) {
  return nanoseconds([&] {
           for (int i = 0; i < repeats; ++i) call();
         }) /
         repeats;
}

// A chain of this many stages over temporaries. Barriers prevent fusion.
std::shared_ptr<Pipeline> chain_of(int count, const tessera::Shape& shape, bool can_fuse) {
  auto pipeline = std::make_shared<Pipeline>(device());
  Buffer last = device().zeros(shape);
  for (int i = 0; i < count; ++i) {
    if (i > 0 && !can_fuse) pipeline->barrier();
    const Buffer next = i + 1 == count ? device().zeros(shape) : pipeline->temporary(shape);
    pipeline->add("scale", {last}, next, {{"factor", i % 2 == 0 ? 2.0 : 0.5}});
    last = next;
  }
  pipeline->compile();
  return pipeline;
}

}  // namespace

Sides tiny_pipeline(bool can_fuse) {
  const auto pipeline = chain_of(stages, {tiny_elements}, can_fuse);
  return {
      [=] { return nanoseconds_each([&] { pipeline->run(); }); },
      [rival = std::make_shared<EmptyGraph>()] { return nanoseconds_each([&] { rival->run(); }); },
  };
}

Sides long_chain() {
  const tessera::Shape shape(std::size_t{16} << 20);
  const auto once = [](const std::shared_ptr<Pipeline>& pipeline) {
    return [=] { return nanoseconds([&] { pipeline->run(); }) / 1e6; };
  };
  return {once(chain_of(stages, shape, true)), once(chain_of(1, shape, true))};
}

}  // namespace bench
