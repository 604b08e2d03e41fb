#pragma once

#include "kernels/kernel.hpp"
#include "operation/call_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::detail::operation {

// Everything that the plan of a batch depends on: some hundred words.
using BatchKey = std::vector<std::uint64_t>;
struct BatchKeyHash {
  std::size_t operator()(const BatchKey& key) const noexcept;
};

// Both overwrite `words`, and need numbered operands.
//
// The exact key: all parameters of the calls, but not their positional values, which a plan takes for each run.
void write_exact_key(const CallBatch& batch, BatchKey& words);
// The form key: what the kernels derived from their parameters (one plan for each call that was not dropped). Leaves
// out the numbers that only become scalars of launches, such as seeds.
void write_form_key(const CallBatch& batch, std::span<const kernels::Lowering> kernel_plans, BatchKey& words);

}  // namespace tessera::detail::operation
