#pragma once

#include <cstddef>

namespace tessera::test {

// How often operator new was called, by any thread; 0 under sanitizers. For programs that link allocations.cpp.
std::size_t allocations() noexcept;

}  // namespace tessera::test
