#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace tessera {

namespace detail {
struct Access;
}

// A list of handles as one argument, such as {a, b}. Borrows them like std::span, so do not store one.
template <class T>
class ArgumentList {
 public:
  static constexpr std::size_t max_in_braces = 8;

  ArgumentList() noexcept = default;

  // A pack instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  template <std::same_as<T>... Item>
    requires(sizeof...(Item) >= 1)
  ArgumentList(const Item&... items) noexcept  // NOLINT(google-explicit-constructor): {a, b} is a list
      : in_braces_{&items...}, size_(sizeof...(Item)) {
    static_assert(sizeof...(Item) <= max_in_braces, "more than eight in braces: pass a std::vector");
  }
  ArgumentList(std::span<const T> items) noexcept  // NOLINT(google-explicit-constructor)
      : contiguous_(items.data()), size_(items.size()) {}
  ArgumentList(const std::vector<T>& items) noexcept  // NOLINT(google-explicit-constructor)
      : ArgumentList(std::span<const T>(items)) {}

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T& operator[](std::size_t index) const noexcept {
    return contiguous_ ? contiguous_[index] : *in_braces_[index];
  }

 private:
  friend struct detail::Access;
  const T* in_braces_[max_in_braces];  // left unset on purpose: only the first size_ are used
  const T* contiguous_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera
