#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

// Whole files. Throw Errc::io_error with only the reason; the caller adds the file's name.
namespace tessera::media {

// Reads a regular file of at most `limit` bytes. Calls `check` with the first bytes (up to 16) before reading the rest.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uintmax_t limit,
                                 const std::function<void(std::span<const std::byte>)>& check);

// Creates or replaces the file atomically: readers see either the old contents or the new.
void write_file(const std::filesystem::path& path, std::span<const std::byte> content);

}  // namespace tessera::media
