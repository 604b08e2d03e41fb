#include "core/stack.hpp"

#include "core/platform.hpp"

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_FAKE_STACK 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_FAKE_STACK 1
#endif
#ifdef TESSERA_FAKE_STACK
#include <sanitizer/asan_interface.h>
#endif

namespace tessera::core {

namespace {

// AddressSanitizer may put local variables elsewhere.
bool is_on_fake_stack([[maybe_unused]] const void* object) noexcept {
#ifdef TESSERA_FAKE_STACK
  void* fake = __asan_get_current_fake_stack();
  return fake && __asan_addr_is_in_fake_stack(fake, const_cast<void*>(object), nullptr, nullptr);
#else
  return false;
#endif
}

}  // namespace

bool is_on_this_stack(const void* object) noexcept {
  const StackRange stack = this_stack();
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  return (address >= stack.low && address < stack.high) || is_on_fake_stack(object);
}

}  // namespace tessera::core
