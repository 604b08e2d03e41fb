#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tessera::core {

// Identifies contents: among 2^32 different ones, the chance that any two collide is 1 in 2^64. Not cryptographic.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

namespace hash_detail {

inline constexpr std::uint64_t c1 = 0x87c37b91114253d5U;
inline constexpr std::uint64_t c2 = 0x4cf5ad432745937fU;

inline std::uint64_t mix1(std::uint64_t word) noexcept { return std::rotl(word * c1, 31) * c2; }
inline std::uint64_t mix2(std::uint64_t word) noexcept { return std::rotl(word * c2, 33) * c1; }

inline std::uint64_t finish(std::uint64_t word) noexcept {
  word = (word ^ (word >> 33)) * 0xff51afd7ed558ccdU;
  word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53U;
  return word ^ (word >> 33);
}

}  // namespace hash_detail

// MurmurHash3 by Austin Appleby, x64, 128 bits.
inline Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept {
  using namespace hash_detail;
  std::uint64_t high = seed;
  std::uint64_t low = seed;
  std::uint64_t words[2];
  std::size_t at = 0;
  for (; bytes.size() - at >= sizeof words; at += sizeof words) {
    std::memcpy(words, bytes.data() + at, sizeof words);
    high = (std::rotl(high ^ mix1(words[0]), 27) + low) * 5 + 0x52dce729U;
    low = (std::rotl(low ^ mix2(words[1]), 31) + high) * 5 + 0x38495ab5U;
  }
  if (at < bytes.size()) {
    words[0] = words[1] = 0;
    std::memcpy(words, bytes.data() + at, bytes.size() - at);
    high ^= mix1(words[0]);
    low ^= mix2(words[1]);
  }
  high ^= bytes.size();
  low ^= bytes.size();
  high += low;
  low += high;
  high = finish(high);
  low = finish(low);
  high += low;
  low += high;
  return {high, low};
}

}  // namespace tessera::core
