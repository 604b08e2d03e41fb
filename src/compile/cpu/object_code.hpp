#pragma once

#include "compile/cpu/code_memory.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::compile::cpu {

// Machine code ready to run, loaded from a relocatable ELF object for this machine, as the compiler writes it and the
// disk cache stores it. This small loader is all that cached code needs; no compiler is loaded.
//
// The code can call memcpy, memmove, memset, fmod and fmodf, and nothing else outside itself. Moving an ObjectCode
// leaves its functions where they are.
class ObjectCode {
 public:
  // Throws an Error if the object is malformed, or needs something that the loader lacks.
  explicit ObjectCode(std::span<const std::byte> bytes);

  // The address of a function that the object defines; an Error if it does not.
  void* find(std::string_view name) const;
  void* try_find(std::string_view name) const noexcept;  // null if it does not

  // F is a function type: code.function<void(float*)>("kernel")(data).
  template <class F>
  F* function(std::string_view name) const {
    return reinterpret_cast<F*>(find(name));
  }

  // The bytes of memory that it takes.
  std::size_t size() const noexcept { return memory_.size(); }

 private:
  CodeMemory memory_;
  std::vector<std::pair<std::string, std::byte*>> functions_;
};

}  // namespace tessera::compile::cpu
