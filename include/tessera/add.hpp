#pragma once

#include <tessera/detail/export.hpp>

// Belongs with kernels.hpp, but tessera.hpp leaves it out: in programs with `using namespace tessera` and a kernel of
// their own called `add`, that name would be ambiguous.
namespace tessera {

class Buffer;

// a + b. Runs on the output's device and blocks, like Device::run, and throws as it does.
TESSERA_API void add(const Buffer& a, const Buffer& b, const Buffer& output);

}  // namespace tessera
