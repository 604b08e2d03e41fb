#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/export.hpp>

// A function of kernels.hpp in a header of its own, which tessera.hpp leaves out: programs that begin with
// `using namespace tessera` and have a kernel called `add` would not know which of the two they mean.
namespace tessera {

TESSERA_API void add(const Buffer& a, const Buffer& b, const Buffer& output);  // a + b

}  // namespace tessera
