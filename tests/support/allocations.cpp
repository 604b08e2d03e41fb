// Counts what the program takes from the heap. A file of its own, so that no compiler sees through it.
#include "support/allocations.hpp"

#include "support/program.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace {
std::atomic<std::size_t> count{0};
thread_local std::size_t largest = 0;
thread_local std::int64_t left = -1;  // until one fails; -1: none does
thread_local bool has_failed = false;
}  // namespace

std::size_t tessera::test::allocations() noexcept { return count; }
std::size_t tessera::test::take_largest_allocation() noexcept { return std::exchange(largest, 0); }

void tessera::test::fail_allocation(std::int64_t others) noexcept {
  has_failed = false;
  left = others;
}
bool tessera::test::has_failed_allocation() noexcept {
  left = -1;
  return has_failed;
}

#ifndef TESSERA_TEST_SANITIZED  // sanitizers have their own

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  ++count;
  if (left >= 0 && left-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  largest = std::max(largest, size);
  if (void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size == 0 ? 1 : size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
