#pragma once

#include "engine/executable_plan.hpp"
#include "kernels/kernel.hpp"
#include "operation/batch_key.hpp"
#include "operation/call_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::detail::operation {

struct OperationCache;

// The plan of a batch, and where its launches take the numbers that may differ from batch to batch.
struct BatchPlan {
  std::shared_ptr<const engine::PlanVariant> variant;  // with the numbers of the batch it was made for
  struct Scalar {
    std::size_t group;  // of the plan
    std::size_t index;  // among the scalars of the group's launch
    std::size_t value;  // index into the values of all calls concerned, one call after the other
  };
  std::vector<Scalar> positional;  // of calls with positional values: the values themselves
  std::vector<Scalar> named;       // of calls with named parameters: what the kernels derived from them
};

// Finds or makes the plan of a batch. Holds scratch memory only.
class BatchPlanner {
 public:
  // The plan, with the numbers of this batch. Looks it up by the exact key, then by the form key; both need numbered
  // operands. `cache` may be null. Throws what is wrong with a call.
  std::shared_ptr<const engine::PlanVariant> plan(engine::DeviceState& device, const CallBatch& batch,
                                                  OperationCache* cache);

 private:
  std::shared_ptr<const engine::PlanVariant> variant_of(const CallBatch& batch, const BatchPlan& plan,
                                                        std::span<const kernels::Lowering> kernel_plans);
  void collect_positional_scalars(const CallBatch& batch);
  void collect_named_scalars(const CallBatch& batch, std::span<const kernels::Lowering> kernel_plans);

  BatchKey key_;
  std::vector<std::uint64_t> scalars_;  // as bits
};

}  // namespace tessera::detail::operation
