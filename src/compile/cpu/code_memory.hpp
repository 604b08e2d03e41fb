#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tessera::compile::cpu {

// The kinds of memory that an object needs.
enum class CodeArea : std::uint8_t { code, constants, data };
inline constexpr std::size_t code_areas = 3;
// One value for each kind.
template <class T>
using PerArea = std::array<T, code_areas>;

// Pages for one object's code, constants and data, within the reach of relocations of each other.
//
// They come from a few large regions that all objects share: a mapping for each object and kind would reach the
// system's limit of mappings (65,530 on Linux) at some 30,000 kernels. Each region has an area for each kind, so that
// neighbours have the same protection and the system keeps them as one mapping. Pages are never writable and executable
// at once: fresh ones are writable until seal().
class CodeMemory {
 public:
  CodeMemory() = default;
  // Throws Errc::out_of_memory. A kind may have no bytes.
  explicit CodeMemory(const PerArea<std::size_t>& bytes);
  ~CodeMemory();
  CodeMemory(CodeMemory&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
  CodeMemory& operator=(CodeMemory&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }

  std::byte* at(CodeArea area) const noexcept { return pages_[static_cast<std::size_t>(area)].address; }
  // Of all pages.
  std::size_t size() const noexcept;

  // Makes the code executable and the constants read-only. Throws Errc::internal if the system refuses.
  void seal();

 private:
  struct Pages {
    std::byte* address = nullptr;
    std::size_t size = 0;
  };
  PerArea<Pages> pages_;
};

// The number of regions, for tests.
std::size_t code_regions() noexcept;

}  // namespace tessera::compile::cpu
