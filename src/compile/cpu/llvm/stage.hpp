#pragma once

#include "compile/cpu/llvm/emitter.hpp"

namespace tessera::compile::cpu {

// A loop nest over the points of `root`. At some points at a time it runs `body`, or else `compute`, and `keep` with
// each of the values.
struct Emitter::Stage {
  ir::Id root = ir::none;
  std::vector<ir::Id> others = {};  // values that are computed together with it
  std::function<void(const Points&)> body = nullptr;
  std::function<Values(const Points&)> compute = nullptr;
  std::function<void(const Point&, const Lanes&)> keep = nullptr;
  int vectors = 1;   // computed at a time along the last axis
  int rows = 1;      // computed at a time along the axis before it
  int channels = 0;  // not 0: the extent of the last axis; lanes then lie along the axis before it
  std::function<llvm::Value*(const Point&)> alignment = nullptr;  // elements until stores are aligned
  bool can_repeat = false;                                        // a point may be computed twice

  void run(const Points& points) const {
    if (body) return body(points);
    const Values values = compute(points);
    for (std::size_t i = 0; i < points.size(); ++i) keep(points[i], values[i]);
  }
};

}  // namespace tessera::compile::cpu
