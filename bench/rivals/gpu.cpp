#include "rivals/gpu.hpp"

#include "harness.hpp"

namespace bench {

std::size_t fastest(std::span<const Call> calls) {
  std::vector<double> best(calls.size(), std::numeric_limits<double>::infinity());
  // Alternating, so that disturbances affect all of them.
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) best[i] = std::min(best[i], nanoseconds(calls[i]));
  }
  return static_cast<std::size_t>(std::ranges::min_element(best) - best.begin());
}

#ifndef TESSERA_BENCH_VULKAN
namespace vulkan {
Call submit_and_wait(const std::string&, Wait, int) { return nullptr; }
GpuKernel add_relu_scale(const std::string&, std::span<const float>, std::span<const float>, float) { return {}; }
}  // namespace vulkan
#endif

#ifndef TESSERA_BENCH_OPENCL
namespace opencl {
Call submit_and_wait(const std::string&, Wait) { return nullptr; }
GpuKernel add_relu_scale(const std::string&, std::span<const float>, std::span<const float>, float) { return {}; }
}  // namespace opencl
#endif

}  // namespace bench
