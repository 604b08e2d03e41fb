#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::test {

// How often operator new was called, by any thread; 0 under sanitizers. For programs that link allocations.cpp.
std::size_t allocations() noexcept;

// The largest allocation by this thread since the last call, in bytes; likewise.
std::size_t take_largest_allocation() noexcept;

// Makes the allocation of this thread that comes after so many others fail; and ends that: whether one has failed.
void fail_allocation(std::int64_t others) noexcept;
bool has_failed_allocation() noexcept;

}  // namespace tessera::test
