#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>
#include <system_error>
#include <vector>

namespace tessera::test {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TESSERA_TEST_SANITIZED 1
#endif
#endif
#ifdef TESSERA_TEST_SANITIZED
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

// A number in the environment, or `otherwise` if there is none.
inline std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  const std::string_view text = value ? value : "";
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

// How many percent of their rounds repeated and random tests run: TESSERA_TEST_DEPTH, 100 in `make test-all`.
// Sanitizers make a round several times slower.
inline int depth() {
  static const auto percent = number_in_environment("TESSERA_TEST_DEPTH", is_sanitized ? 5 : 20);
  return static_cast<int>(std::clamp<std::uint64_t>(percent, 1, 100));
}
inline int rounds(int full) { return std::max(1, static_cast<int>(std::int64_t{full} * depth() / 100)); }

// Where random tests begin: TESSERA_TEST_SEED, which the Makefile derives from the commit, so that different commits
// try different numbers.
inline std::uint64_t seed() {
  static const std::uint64_t number = number_in_environment("TESSERA_TEST_SEED", 1);
  return number;
}

// All of these at full depth; otherwise `some` of them, chosen by the seed.
template <class T>
std::vector<T> sampled(std::vector<T> all, std::size_t some) {
  if (depth() == 100 || some >= all.size()) return all;
  std::ranges::shuffle(all, std::mt19937_64(seed()));
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(some), all.end());
  return all;
}

}  // namespace tessera::test
