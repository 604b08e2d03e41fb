#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

// Whole files. What they throw, Errc::io_error, says the reason alone.
namespace tessera::media {

// All of a regular file of at most `limit` bytes. `check` sees the first bytes (up to 16) before the rest is read.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uintmax_t limit,
                                 const std::function<void(std::span<const std::byte>)>& check);

// Replaces the file, or makes it: at once, or not at all. Who reads it meanwhile sees the old one.
void write_file(const std::filesystem::path& path, std::span<const std::byte> content);

}  // namespace tessera::media
