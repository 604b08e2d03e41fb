#pragma once

#include "core/hash.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace tessera::compile {

// Compiled code kept on disk from one process to the next. Any number of processes and threads may share a folder.
//
// It never fails: without a folder, a permission or room, nothing is found and nothing kept. A file that is damaged,
// cut short, or could have been written by somebody else is not there, and is replaced by the next store.
class DiskCache {
 public:
  static constexpr std::uint64_t default_limit = 256U << 20;

  // An empty folder switches it off. It is made, for this user alone, with the first store.
  explicit DiskCache(std::filesystem::path folder = default_folder(), std::uint64_t limit = default_limit);

  // $TESSERA_CACHE_DIR, $XDG_CACHE_HOME/tessera or $HOME/.cache/tessera; empty if none is set, or TESSERA_CACHE_DIR is
  // empty or "off".
  static std::filesystem::path default_folder();

  std::optional<std::vector<std::byte>> find(const core::Hash128& key) const noexcept;
  void store(const core::Hash128& key, std::span<const std::byte> content) noexcept;

  // Removes the files that were not used for longest until the rest takes at most three quarters of the limit, if all
  // together take more than the limit. Some stores do it by themselves.
  void trim() noexcept;

 private:
  std::filesystem::path file(const core::Hash128& key) const;
  void write(const core::Hash128& key, std::span<const std::byte> content) const;
  void remove_oldest() const;

  std::filesystem::path folder_;
  std::uint64_t limit_;
};

}  // namespace tessera::compile
