#include "compile/cpu/code_memory.hpp"

#include <tessera/error.hpp>

#include "core/platform.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tessera::compile::cpu {

namespace {

using core::PageAccess;

// Of each area of a usual region: some hundred kernels. Only pages that are used take memory.
constexpr std::size_t usual_area = std::size_t{4} << 20;

constexpr PerArea<PageAccess> final_access = {PageAccess::read_execute, PageAccess::read, PageAccess::read_write};

[[noreturn]] void refuse(const PerArea<std::size_t>& sizes) {
  throw Error(Errc::out_of_memory, core::text("cannot allocate ", sizes[0] + sizes[1] + sizes[2], " bytes for code"));
}

// The free parts of an area, by their offset.
class FreeParts {
 public:
  explicit FreeParts(std::size_t size) : parts_{{0, size}}, size_(size) {}

  // The offset of `size` bytes; nothing if no part is that large.
  std::optional<std::size_t> take(std::size_t size) {
    const auto found = std::ranges::find_if(parts_, [&](const auto& part) { return part.second >= size; });
    if (found == parts_.end()) return std::nullopt;
    const auto [offset, available] = *found;
    parts_.erase(found);
    if (available > size) parts_.emplace(offset + size, available - size);
    return offset;
  }

  void give_back(std::size_t offset, std::size_t size) {
    auto next = parts_.lower_bound(offset);
    if (next != parts_.end() && next->first == offset + size) {
      size += next->second;
      next = parts_.erase(next);
    }
    if (next != parts_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    parts_.emplace(offset, size);
  }

  bool is_all() const { return parts_.size() == 1 && parts_.begin()->second == size_; }

 private:
  std::map<std::size_t, std::size_t> parts_;
  std::size_t size_;
};

struct Region {
  std::byte* address;
  std::size_t area;  // bytes of each
  PerArea<FreeParts> free;

  std::size_t bytes() const { return area * code_areas; }
  bool has(const std::byte* pages) const { return pages >= address && pages < address + bytes(); }
};

// All regions. The members are called under the mutex.
class Regions {
 public:
  static Regions& instance() {
    static auto& regions = *new Regions;  // never destroyed: code may run until the process is gone
    return regions;
  }

  // One that has so much of each kind, and from it the addresses; null if there is no memory.
  std::optional<PerArea<std::byte*>> take(const PerArea<std::size_t>& sizes) {
    for (const auto& region : regions_) {
      if (auto taken = take_from(*region, sizes)) return taken;
    }
    const std::size_t area = std::max(usual_area, *std::ranges::max_element(sizes));
    std::byte* const address = core::map_pages(area * code_areas, PageAccess::none);
    if (!address) return std::nullopt;
    const FreeParts all(area);
    regions_.push_back(std::make_unique<Region>(Region{address, area, {all, all, all}}));
    return take_from(*regions_.back(), sizes);
  }

  void give_back(std::byte* address, std::size_t size) {
    const auto owner = std::ranges::find_if(regions_, [&](const auto& region) { return region->has(address); });
    Region& region = **owner;
    const auto offset = static_cast<std::size_t>(address - region.address);
    region.free[offset / region.area].give_back(offset % region.area, size);
    if (!std::ranges::all_of(region.free, &FreeParts::is_all)) return;
    core::unmap_pages(region.address, region.bytes());
    regions_.erase(owner);
  }

  std::size_t count() const { return regions_.size(); }

  std::mutex mutex;

 private:
  static std::optional<PerArea<std::byte*>> take_from(Region& region, const PerArea<std::size_t>& sizes) {
    PerArea<std::byte*> taken{};
    for (std::size_t i = 0; i < code_areas; ++i) {
      if (sizes[i] == 0) continue;
      const auto offset = region.free[i].take(sizes[i]);
      if (!offset) {
        while (i-- > 0) {
          if (taken[i])
            region.free[i].give_back(static_cast<std::size_t>(taken[i] - region.address) % region.area, sizes[i]);
        }
        return std::nullopt;
      }
      taken[i] = region.address + i * region.area + *offset;
    }
    return taken;
  }

  std::vector<std::unique_ptr<Region>> regions_;
};

}  // namespace

CodeMemory::CodeMemory(const PerArea<std::size_t>& bytes) {
  const std::size_t page = core::page_size();
  PerArea<std::size_t> sizes{};
  std::ranges::transform(bytes, sizes.begin(), [&](std::size_t size) { return (size + page - 1) / page * page; });
  {
    Regions& regions = Regions::instance();
    const std::scoped_lock lock(regions.mutex);
    const auto taken = regions.take(sizes);
    if (!taken) refuse(sizes);
    for (std::size_t i = 0; i < code_areas; ++i) pages_[i] = {(*taken)[i], sizes[i]};
  }
  CodeMemory owned;  // gives the pages back if they cannot be made writable
  std::swap(owned.pages_, pages_);
  for (const Pages& pages : owned.pages_) {
    if (pages.size != 0 && !core::set_page_access(pages.address, pages.size, PageAccess::read_write)) refuse(sizes);
  }
  std::swap(owned.pages_, pages_);
}

CodeMemory::~CodeMemory() {
  if (size() == 0) return;
  Regions& regions = Regions::instance();
  const std::scoped_lock lock(regions.mutex);
  for (const Pages& pages : pages_) {
    if (pages.size == 0) continue;
    // They stay as accessible as their neighbours, so that they do not split the mapping.
    core::discard_pages(pages.address, pages.size);
    regions.give_back(pages.address, pages.size);
  }
}

std::size_t CodeMemory::size() const noexcept {
  std::size_t bytes = 0;
  for (const Pages& pages : pages_) bytes += pages.size;
  return bytes;
}

void CodeMemory::seal() {
  // Before anyone may execute them: until then no core can have fetched what was in these pages before.
  auto* const code = reinterpret_cast<char*>(pages_[0].address);
  __builtin___clear_cache(code, code + pages_[0].size);
  for (std::size_t i = 0; i < code_areas; ++i) {
    const Pages& pages = pages_[i];
    if (pages.size == 0 || core::set_page_access(pages.address, pages.size, final_access[i])) continue;
    throw Error(Errc::internal,
                core::text("object code: cannot set the protection of its memory: ", std::strerror(errno)));
  }
}

std::size_t code_regions() noexcept {
  const std::scoped_lock lock(Regions::instance().mutex);
  return Regions::instance().count();
}

}  // namespace tessera::compile::cpu
