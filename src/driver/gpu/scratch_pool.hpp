#pragma once

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/api.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace tessera::driver::gpu {

// Limit for the scratch memory of all workgroups of a launch.
inline constexpr std::int64_t most_scratch = std::int64_t{64} << 20;

struct Scratch {
  std::unique_ptr<Memory> memory;
  std::size_t bytes = 0;
};

// Scratch memory, cached for the next launch that needs a similar amount.
class ScratchPool {
 public:
  explicit ScratchPool(Api& api) : api_(api) {}

  Scratch take(std::size_t wanted) {
    const std::size_t bytes = rounded(wanted);
    {
      const std::scoped_lock lock(mutex_);
      const auto found = free_.lower_bound(bytes);
      if (found != free_.end() && found->first / 2 <= bytes) return take_out(found);
    }
    if (auto memory = api_.allocate(bytes)) return {std::move(memory), bytes};
    trim();
    auto memory = api_.allocate(bytes);
    if (!memory) {
      throw Error(Errc::out_of_memory,
                  core::text("no scratch memory on ", api_.info().name, ": ", bytes, " bytes requested"));
    }
    return {std::move(memory), bytes};
  }
  void give_back(Scratch scratch) noexcept {
    const std::scoped_lock lock(mutex_);
    try {
      free_.emplace(scratch.bytes, std::move(scratch.memory));
    } catch (const std::bad_alloc&) {
      return;  // then it is not cached
    }
    cached_ += scratch.bytes;
    while (cached_ > most_cached) take_out(std::prev(free_.end()));
  }
  std::size_t trim() {
    const std::scoped_lock lock(mutex_);
    free_.clear();
    return std::exchange(cached_, 0);
  }

 private:
  using Free = std::multimap<std::size_t, std::unique_ptr<Memory>>;

  // Rounds up to one of four sizes per power of two.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t unit = std::max<std::size_t>(64, std::bit_floor(bytes) / 4);
    return (bytes + unit - 1) / unit * unit;
  }
  Scratch take_out(Free::iterator found) {
    Scratch scratch{std::move(found->second), found->first};
    free_.erase(found);
    cached_ -= scratch.bytes;
    return scratch;
  }

  static constexpr auto most_cached = static_cast<std::size_t>(most_scratch);
  Api& api_;
  std::mutex mutex_;
  Free free_;
  std::size_t cached_ = 0;  // bytes in free_
};

}  // namespace tessera::driver::gpu
