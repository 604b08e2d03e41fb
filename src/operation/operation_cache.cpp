#include "operation/operation_cache.hpp"

#include "engine/stream_state.hpp"

#include <algorithm>
#include <utility>

namespace tessera::detail::operation {

namespace {
constexpr std::size_t max_plans = 256;
}

std::shared_ptr<const BatchPlan> OperationCache::find(const BatchKey& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second.last_use = ++uses_;
  return found->second.plan;
}

void OperationCache::add(const BatchKey& key, std::shared_ptr<const BatchPlan> plan) {
  decltype(plans_)::node_type evicted;  // destroyed after the lock is released
  const std::scoped_lock lock(mutex_);
  if (plans_.size() >= max_plans) {
    const auto last_use = [](const auto& entry) { return entry.second.last_use; };
    evicted = plans_.extract(std::ranges::min_element(plans_, {}, last_use));
  }
  plans_.insert_or_assign(key, Entry{std::move(plan), ++uses_});
}

std::shared_ptr<OperationCache> OperationCache::of(engine::DeviceState& device) {
  static const char key = 0;
  if (std::shared_ptr<void> kept = device.attachments.get(&key)) return std::static_pointer_cast<OperationCache>(kept);
  auto made = std::make_shared<OperationCache>();
  for (Stream& stream : made->streams) {
    stream = Access::make<Stream>(Ref<engine::StreamState>::adopt(new engine::StreamState(device, {})));
  }
  return std::static_pointer_cast<OperationCache>(device.attachments.put(&key, std::move(made)));
}

}  // namespace tessera::detail::operation
