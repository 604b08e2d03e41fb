#pragma once

#include <initializer_list>

namespace tessera::driver::gpu {

// Opens the first library that exists; null if none does. Pass the versioned name first, as Linux distributions have
// it, then the plain one: Android has only "libEGL.so". It is never closed: drivers leave threads and exit handlers
// behind.
void* open_library(std::initializer_list<const char*> names) noexcept;

}  // namespace tessera::driver::gpu
