#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>

#include <concepts>
#include <limits>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace tessera {

namespace detail {
[[noreturn]] TESSERA_API void throw_does_not_fit(double value, DType dtype);
}

// Contiguous elements: std::vector<float>, std::span<const float>, float[3].
template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && Element<std::ranges::range_value_t<R>>;

// The values of a call such as buffer<float>({1, 2, 3}, …): in braces, or any contiguous range, which it borrows.
// A value in braces that T cannot represent throws Errc::overflow: buffer<std::uint8_t>({300}).
template <Element T>
class Values {
 public:
  Values() noexcept = default;

  // A pack instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  template <class... V>
    requires(sizeof...(V) >= 1 && (std::is_arithmetic_v<V> && ...))
  Values(V... values)  // NOLINT(google-explicit-constructor)
      : own_{checked(values)...}, span_(own_) {}

  template <std::ranges::contiguous_range R>
    requires std::same_as<std::ranges::range_value_t<R>, T>
  Values(const R& range)  // NOLINT(google-explicit-constructor)
      : span_(std::ranges::data(range), std::ranges::size(range)) {}

  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  std::span<const T> span() const noexcept { return span_; }

 private:
  template <class V>
  static T checked(V value) {
    if constexpr (std::is_integral_v<T>) {
      const auto number = static_cast<long double>(value);  // holds every 64-bit integer
      const bool fits = number >= static_cast<long double>(std::numeric_limits<T>::min()) &&
                        number <= static_cast<long double>(std::numeric_limits<T>::max()) &&
                        static_cast<long double>(static_cast<T>(value)) == number;
      if (!fits) detail::throw_does_not_fit(static_cast<double>(value), dtype_of<T>);
    }
    return static_cast<T>(value);
  }

  std::vector<T> own_;
  std::span<const T> span_;
};

}  // namespace tessera
