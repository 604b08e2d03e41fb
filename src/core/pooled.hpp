#pragma once

#include "core/per_thread.hpp"

#include <cstddef>
#include <new>

namespace tessera::core {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool pools_objects = false;  // pooling would hide uses after free
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool pools_objects = false;
#else
inline constexpr bool pools_objects = true;
#endif
#else
inline constexpr bool pools_objects = true;
#endif

// A base for types that are created often: new reuses the memory of objects that this thread has deleted. The C
// library's own free lists are short and not used for over-aligned memory, which made allocation half of the cost of a
// small buffer.
template <class T>
class Pooled {
 public:
  static void* operator new(std::size_t size) {
    if constexpr (pools_objects) {
      if (List* list = PerThread<List>::here(); list && list->first) {
        --list->count;
        Free* taken = list->first;
        list->first = taken->next;
        return taken;
      }
    }
    return ::operator new(size, std::align_val_t(alignof(T)));
  }
  static void operator delete(void* memory) noexcept {
    if constexpr (pools_objects) {
      if (List* list = PerThread<List>::here(); list && list->count < most) {
        ++list->count;
        list->first = ::new (memory) Free{list->first};
        return;
      }
    }
    ::operator delete(memory, std::align_val_t(alignof(T)));
  }

 private:
  static constexpr std::size_t most = 256;
  struct Free {
    Free* next;
  };
  struct List {
    Free* first = nullptr;
    std::size_t count = 0;
    ~List() {
      while (first) {
        Free* next = first->next;
        ::operator delete(static_cast<void*>(first), std::align_val_t(alignof(T)));
        first = next;
      }
    }
  };
};

}  // namespace tessera::core
