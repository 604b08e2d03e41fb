#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::kernels {

namespace {

// A name, kept forever; the kernel behind it may be replaced.
struct Entry {
  std::string name;
  bool is_built_in = false;
  std::atomic<const Kernel*> kernel{nullptr};
  Entry* next = nullptr;  // in its bucket
};

// Readers take no lock: entries and kernels are never destroyed, and an entry is complete before it is linked into its
// bucket.
class Registry {
 public:
  // Never destroyed: threads may outlive main.
  static Registry& instance() {
    static auto& registry = *new Registry();
    return registry;
  }

  const Kernel* find(std::string_view name) const noexcept {
    const Entry* entry = find_entry(name);
    return entry ? entry->kernel.load(std::memory_order_acquire) : nullptr;
  }

  const Kernel& add(Kernel kernel, bool is_built_in) {
    const std::scoped_lock lock(mutex_);
    check_names(kernel);
    const Kernel& stored = store(std::move(kernel));
    set(stored.name, stored, is_built_in);
    for (const std::string& alias : stored.aliases) set(alias, stored, is_built_in);
    for (const std::string& nickname : stored.nicknames) set(nickname, stored, false);
    return stored;
  }

  const Kernel& adopt(Kernel kernel) {
    const std::scoped_lock lock(mutex_);
    return store(std::move(kernel));
  }

  std::vector<const Entry*> entries() const {
    const std::scoped_lock lock(mutex_);
    std::vector<const Entry*> all;
    all.reserve(entries_.size());
    for (const auto& entry : entries_) all.push_back(entry.get());
    std::ranges::sort(all, {}, &Entry::name);
    return all;
  }

 private:
  static constexpr std::size_t buckets = 1024;  // several times the number of kernels

  Registry() {
    for (auto* list : {elementwise_kernels, reduction_kernels, linear_kernels, generator_kernels, image_filter_kernels,
                       image_color_kernels, image_geometry_kernels, sound_kernels}) {
      for (Kernel& kernel : list()) add(std::move(kernel), true);
    }
  }

  // Hashes a few letters only: a full hash would take longer than the comparison that follows.
  static std::size_t bucket(std::string_view name) noexcept {
    std::size_t hash = name.size();
    if (name.empty()) return hash;
    for (const std::size_t i : {std::size_t{0}, name.size() / 3, name.size() / 2, name.size() - 1}) {
      hash = hash * 37 + static_cast<unsigned char>(name[i]);
    }
    return hash % buckets;
  }

  Entry* find_entry(std::string_view name) const noexcept {
    Entry* entry = heads_[bucket(name)].load(std::memory_order_acquire);
    while (entry && entry->name != name) entry = entry->next;
    return entry;
  }

  // The functions below require the mutex.
  void check_names(const Kernel& kernel) const {
    if (kernel.name.empty()) throw Error(Errc::invalid_argument, "a kernel needs a name");
    const auto check = [&](const std::string& name) {
      const Entry* entry = find_entry(name);
      if (!entry || !entry->is_built_in) return;
      throw Error(Errc::invalid_argument, core::text("[", name, "] is a built-in kernel and cannot be replaced"));
    };
    check(kernel.name);
    for (const std::string& alias : kernel.aliases) check(alias);
  }

  const Kernel& store(Kernel kernel) {
    kernels_.push_back(std::make_unique<Kernel>(std::move(kernel)));
    Kernel& stored = *kernels_.back();
    stored.number = kernels_.size() - 1;
    stored.set_defaults();
    return stored;
  }

  void set(const std::string& name, const Kernel& kernel, bool is_built_in) {
    if (Entry* entry = find_entry(name)) {
      entry->kernel.store(&kernel, std::memory_order_release);
      return;
    }
    entries_.push_back(std::make_unique<Entry>());
    Entry& entry = *entries_.back();
    entry.name = name;
    entry.is_built_in = is_built_in;
    entry.kernel.store(&kernel, std::memory_order_relaxed);
    std::atomic<Entry*>& head = heads_[bucket(name)];
    entry.next = head.load(std::memory_order_relaxed);
    head.store(&entry, std::memory_order_release);
  }

  std::array<std::atomic<Entry*>, buckets> heads_{};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // replaced ones too: callers may still hold them
};

}  // namespace

const Kernel& find(std::string_view name) {
  const Registry& registry = Registry::instance();
  if (const Kernel* kernel = registry.find(name)) [[likely]]
    return *kernel;
  std::vector<std::string_view> names;
  for (const Entry* entry : registry.entries()) names.push_back(entry->name);
  const std::string hint = core::suggestion(name, names);
  throw Error(Errc::unknown_kernel, core::text("there is no kernel ", core::in_quotes(name), hint.empty() ? ";" : hint,
                                               " Device::kernels() lists all"));
}

std::vector<const Kernel*> all() {
  std::vector<const Kernel*> kernels;
  for (const Entry* entry : Registry::instance().entries()) {
    const Kernel* kernel = entry->kernel.load(std::memory_order_acquire);
    if (kernel->name == entry->name) kernels.push_back(kernel);  // else it is an alias
  }
  return kernels;
}

const Kernel& add(Kernel kernel) { return Registry::instance().add(std::move(kernel), false); }
const Kernel& adopt(Kernel kernel) { return Registry::instance().adopt(std::move(kernel)); }

}  // namespace tessera::kernels
