#pragma once

#include "engine/submission.hpp"

namespace tessera::detail::engine {

// Makes the checks of a call that need no lock, and binds it to its memory. Throws an Error that names the culprit;
// group.label is set as soon as the kernel is known.
void prepare(DeviceState& device, const Call& call, BoundGroup& group);

}  // namespace tessera::detail::engine
