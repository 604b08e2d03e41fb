#include "cases/tiny.hpp"

#include <tbb/flow_graph.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>

namespace bench {

namespace {

constexpr int stages = 1000;

// Back and forth between two buffers, so that each stage depends on the previous one and values do not grow.
double factor_of(int stage) { return stage % 2 == 0 ? 2 : 0.5; }

struct Ours {
  tessera::Buffer a = tiny_buffer();
  tessera::Buffer b = tiny_buffer();
};

// Built once, outside the measurement, which gives TBB an advantage.
class Rival {
 public:
  explicit Rival(Kernel kernel) {
    for (int stage = 0; stage < stages; ++stage) {
      const float* input = (stage % 2 == 0 ? a_ : b_).data();
      float* output = (stage % 2 == 0 ? b_ : a_).data();
      nodes_.emplace_back(graph_, [=, factor = static_cast<float>(factor_of(stage))](const tbb::flow::continue_msg&) {
        by_hand(kernel, input, output, tiny_elements, factor);
      });
      if (stage > 0) tbb::flow::make_edge(nodes_[static_cast<std::size_t>(stage) - 1], nodes_.back());
    }
  }
  void run() {
    nodes_.front().try_put(tbb::flow::continue_msg());
    graph_.wait_for_all();
  }

 private:
  TinyArray a_{};
  TinyArray b_{};
  tbb::flow::graph graph_;
  std::deque<tbb::flow::continue_node<tbb::flow::continue_msg>> nodes_;
};

}  // namespace

Sides chain(Kernel kernel, Ahead ahead) {
  return {
      [=, ours = std::make_shared<Ours>()] {
        return nanoseconds([&] {
                 std::optional<tessera::Mapped<float>> view;
                 if (ahead == Ahead::map) view.emplace(ours->a.map<float>());
                 tessera::Command last;
                 for (int stage = 0; stage < stages; ++stage) {
                   const bool is_even = stage % 2 == 0;
                   last = submit(kernel, is_even ? ours->a : ours->b, is_even ? ours->b : ours->a, factor_of(stage));
                 }
                 view.reset();
                 last.wait();
               }) /
               stages;
      },
      [rival = std::make_shared<Rival>(kernel)] { return nanoseconds([&] { rival->run(); }) / stages; },
  };
}

}  // namespace bench
