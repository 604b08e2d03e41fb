#include <tessera/stream_policy.hpp>

#include <tessera/detail/operation_task.hpp>
#include <tessera/error.hpp>

#include "operation/operation_cache.hpp"
#include "operation/run_state.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace tessera {

StreamPolicy::~StreamPolicy() = default;

namespace {

using detail::Access;
using detail::engine::DeviceState;

// One stream for each device and index, created on first use.
class Streams {
 public:
  Stream of(const Device& device, std::uint64_t index) {
    const std::scoped_lock lock(mutex_);
    Stream& stream = streams_[{Access::get(device), index}];
    if (!stream) stream = device.stream();
    return stream;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<DeviceState*, std::uint64_t>, Stream> streams_;
};

class RoundRobin final : public StreamPolicy {
 public:
  explicit RoundRobin(unsigned count) : count_(count) {}
  Stream stream_for(const Device& device, std::uint64_t) override { return streams_.of(device, next_++ % count_); }

 private:
  const unsigned count_;
  std::atomic<std::uint64_t> next_{0};
  Streams streams_;
};

// A stream for each task would accumulate: the id of a task selects one of a fixed number.
class PerTask final : public StreamPolicy {
 public:
  Stream stream_for(const Device& device, std::uint64_t task) override {
    return streams_.of(device, task % max_streams);
  }

 private:
  static constexpr std::uint64_t max_streams = 64;
  Streams streams_;
};

struct Policy {
  std::mutex mutex;
  std::shared_ptr<StreamPolicy> chosen;
  std::atomic<bool> is_chosen{false};
};

Policy& policy() {
  static auto& made = *new Policy();
  return made;
}

}  // namespace

std::shared_ptr<StreamPolicy> round_robin_streams(unsigned count) {
  if (count == 0) throw Error(Errc::invalid_argument, "[round_robin_streams] the number of streams must be at least 1");
  return std::make_shared<RoundRobin>(count);
}
std::shared_ptr<StreamPolicy> single_stream() { return std::make_shared<RoundRobin>(1); }
std::shared_ptr<StreamPolicy> stream_per_task() { return std::make_shared<PerTask>(); }

void set_stream_policy(std::shared_ptr<StreamPolicy> chosen) {
  Policy& current = policy();
  std::shared_ptr<StreamPolicy> replaced;  // released after the lock
  const std::scoped_lock lock(current.mutex);
  replaced = std::exchange(current.chosen, std::move(chosen));
  current.is_chosen = static_cast<bool>(current.chosen);
}

namespace detail::operation {

bool has_stream_policy() noexcept { return policy().is_chosen.load(std::memory_order_relaxed); }

Stream stream_for(engine::DeviceState& device, const RunOptions& options) {
  const std::uint64_t task = options.task ? options.task->id : 0;
  Policy& current = policy();
  if (current.is_chosen.load(std::memory_order_relaxed)) {
    std::shared_ptr<StreamPolicy> chosen;
    {
      const std::scoped_lock lock(current.mutex);
      chosen = current.chosen;
    }
    if (chosen) return chosen->stream_for(Access::make<Device>(Ref<engine::DeviceState>(&device)), task);
  }
  const std::shared_ptr<OperationCache> cache = OperationCache::of(device);
  if (!cache) return {};
  const std::uint32_t next = cache->next_stream.fetch_add(1, std::memory_order_relaxed);
  return cache->streams[next % OperationCache::stream_count];
}

}  // namespace detail::operation

}  // namespace tessera
