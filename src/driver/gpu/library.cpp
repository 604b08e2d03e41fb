#include "driver/gpu/library.hpp"

#include <dlfcn.h>

namespace tessera::driver::gpu {

void* open_library(std::initializer_list<const char*> names) noexcept {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace tessera::driver::gpu
