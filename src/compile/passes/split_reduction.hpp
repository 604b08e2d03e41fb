#pragma once

#include "ir/ir.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compile {

// A program that reduces an axis to few elements, taken apart: parts of the axis are reduced by themselves, by any
// number of threads, and what they come to is then put together, in the order of the axis.
//
// Both kinds of programs have the buffers of the program they come from, the first ones with another output, and then
// `part`, which has one axis and no contents; and its scalars, and one more.
struct InParts {
  // One for each reduction: what a part of the axis comes to. The extent of `part` is the part's, and the last scalar
  // says where it begins.
  std::vector<ir::Program> partial;
  // From those to the output. The extent of `part` and the last scalar are the extent of all parts but the last. Then
  // come buffers with what the parts came to, one for each reduction: as the outputs above, with the number of the part
  // as an axis in front.
  ir::Program finish;

  struct Axis {
    int buffer = 0;
    int axis = 0;
  };
  std::optional<Axis> along;  // whose extent the reduced axis has…
  std::int64_t extent = 0;    // …or else this one
  std::vector<bool> is_kept;  // by axis of the output: whether outputs of `partial` have it, or 1 instead
  std::vector<bool> is_read;  // by buffer: whether `partial` reads it
};

// Nothing where it cannot be done, or would not divide the work. More than one reduction counts as one where all go
// along the same axis.
std::optional<InParts> in_parts(const ir::Program& program);

}  // namespace tessera::compile
