#pragma once

#include "conformance/cases/cases.hpp"

namespace tessera::conformance {

// What the reference interpreter makes of the kernel's program, with small odd tiles along the axes that may be cut.
Tensor interpreted(const Case& of, const Call& call);

}  // namespace tessera::conformance
