#pragma once

#include "compile/cpu/llvm/emitter.hpp"

namespace tessera::compile {

// A loop nest: what is computed (`root`, at the nest's own points), and what to do at some points: `body`, or else
// `compute`, and `keep` with each value.
struct Emitter::Stage {
  ir::Id root = ir::none;
  std::vector<ir::Id> others = {};  // that are computed along with it
  std::function<void(const Points&)> body = nullptr;
  std::function<Values(const Points&)> compute = nullptr;
  std::function<void(const Point&, const Lanes&)> keep = nullptr;
  int vectors = 1;   // at a time along the last axis
  int rows = 1;      // at a time along the one before it
  int channels = 0;  // not 0: so many are all of the last axis, and lanes go along the one before it
  std::function<llvm::Value*(const Point&)> alignment = nullptr;  // elements until stores are aligned
  bool can_repeat = false;                                        // computing a point twice gives the same

  void run(const Points& points) const {
    if (body) return body(points);
    const Values values = compute(points);
    for (std::size_t i = 0; i < points.size(); ++i) keep(points[i], values[i]);
  }
};

}  // namespace tessera::compile
