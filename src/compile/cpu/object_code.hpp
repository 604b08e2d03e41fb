#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::compile {

// Machine code ready to run, made from a relocatable ELF object for this machine: what a compiler writes and what the
// disk cache keeps. This small loader is all that running cached code takes; no compiler is loaded for it.
//
// The code can call memcpy, memmove, memset, fmod and fmodf and nothing else outside itself. It can be moved, not
// copied; functions stay where they are.
class ObjectCode {
 public:
  // An object that is malformed, or asks for what the loader does not have, is an Error.
  explicit ObjectCode(std::span<const std::byte> bytes);

  // The address of a function that the object defines; Error if it does not.
  void* find(std::string_view name) const;
  void* try_find(std::string_view name) const noexcept;  // null if it does not

  // F is a function type: code.function<void(float*)>("kernel")(data).
  template <class F>
  F* function(std::string_view name) const {
    return reinterpret_cast<F*>(find(name));
  }

  // Memory taken.
  std::size_t size() const noexcept { return memory_.get_deleter().size; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* address) const noexcept;
  };

  std::unique_ptr<std::byte[], Unmap> memory_;
  std::vector<std::pair<std::string, std::byte*>> functions_;
};

}  // namespace tessera::compile
