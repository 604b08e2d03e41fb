#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::core {

// SHA-256 (FIPS 180-4). Nobody can make two inputs with the same digest, so it names contents. 200 MB/s and more; core/
// hash.hpp is twenty times as fast and enough to notice damage.
using Sha256 = std::array<std::uint8_t, 32>;
Sha256 sha256(std::span<const std::byte> bytes) noexcept;

// 64 digits.
std::string to_hex(const Sha256& digest);

}  // namespace tessera::core
