#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::compile {

// Caches compiled code on disk. Any number of processes and threads may share a folder.
//
// It never fails: without a folder, permission or disk space, nothing is found and nothing stored. A file that is
// damaged, truncated, or could have been written by another user is ignored, and replaced by the next store.
//
// A key is everything that the content depends on, as bytes. A file is named by the key's SHA-256 and holds the key
// itself beside the content: what is found was stored under exactly that key.
class DiskCache {
 public:
  static constexpr std::uint64_t default_limit = 256U << 20;

  // An empty path switches the cache off. The first store creates the folder, accessible to this user alone.
  explicit DiskCache(std::filesystem::path folder = default_folder(), std::uint64_t limit = default_limit);

  // $TESSERA_CACHE_DIR, $XDG_CACHE_HOME/tessera or $HOME/.cache/tessera; empty if none is set, or TESSERA_CACHE_DIR is
  // empty or "off".
  static std::filesystem::path default_folder();

  std::optional<std::vector<std::byte>> find(std::string_view key) const noexcept;
  void store(std::string_view key, std::span<const std::byte> content) noexcept;

  // If the files take more than the limit, removes the least recently used until they take at most three quarters of
  // it. Some stores do this too.
  void trim() noexcept;

 private:
  void write(const std::filesystem::path& target, std::string_view key, std::span<const std::byte> content) const;
  void remove_oldest() const;

  std::filesystem::path folder_;
  std::uint64_t limit_;
};

}  // namespace tessera::compile
