#pragma once

#include "ir/ir.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compile {

// A program that reduces an axis to few elements, split: parts of the axis are reduced separately, by any number of
// threads, and the partial results are then combined in the order of the axis.
//
// All these programs have the buffers of the original one (`partial` with another output), then the buffer `part`,
// which has one axis and no contents; and its scalars, and one more.
struct SplitReduction {
  // One for each reduction: the result for a part of the axis. The extent of `part` is the part's, and the last scalar
  // is where it begins.
  std::vector<ir::Program> partial;
  // Computes the output from the partial results. The extent of `part` and the last scalar are the extent of all parts
  // but the last. Then come buffers with the partial results, one for each reduction: like the outputs above, with the
  // number of the part as an axis in front.
  ir::Program finish;

  struct Axis {
    int buffer = 0;
    int axis = 0;
  };
  std::optional<Axis> along;  // the reduced axis is as long as this one…
  std::int64_t extent = 0;    // …or has this extent
  std::vector<bool> is_kept;  // by axis of the output: whether outputs of `partial` have it too, or an extent of 1
  std::vector<bool> is_read;  // by buffer: whether `partial` reads it
};

// Nothing if the program cannot be split, or splitting would not divide the work. It may have several reductions along
// the same axis.
std::optional<SplitReduction> split_reduction(const ir::Program& program);

}  // namespace tessera::compile
