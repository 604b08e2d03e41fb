#pragma once

#include <tessera/stream.hpp>

#include "engine/run_tracking.hpp"
#include "operation/batch_key.hpp"
#include "operation/batch_plan.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tessera::detail::operation {

// What the operations on one device share. Attached to the device; destroyed with its last handle.
struct OperationCache {
  static constexpr std::size_t stream_count = 4;

  std::array<Stream, stream_count> streams;  // of the default stream policy, used in turn
  std::atomic<std::uint32_t> next_stream{0};
  const std::shared_ptr<engine::RunLog> log = std::make_shared<engine::RunLog>();

  // The plans of batches. add() evicts the least recently used one if there are too many.
  std::shared_ptr<const BatchPlan> find(const BatchKey& key);
  void add(const BatchKey& key, std::shared_ptr<const BatchPlan> plan);

  // Null if the device has no handle any more: nothing would destroy the cache then.
  static std::shared_ptr<OperationCache> of(engine::DeviceState& device);

 private:
  struct Entry {
    std::shared_ptr<const BatchPlan> plan;
    std::uint64_t last_use;
  };
  std::mutex mutex_;
  std::unordered_map<BatchKey, Entry, BatchKeyHash> plans_;
  std::uint64_t uses_ = 0;
};

}  // namespace tessera::detail::operation
