#include "driver/gpu/long_launches.hpp"

#include <algorithm>
#include <utility>

namespace tessera::driver::gpu {

namespace {

// What a loop whose count depends on data is taken for.
constexpr std::int64_t assumed_steps = 1 << 16;
// A program with up to twice as many operations counts as a plain one.
constexpr std::int64_t usual_operations = 32;

}  // namespace

void add_cut(std::vector<Dispatch>& calls, Dispatch whole, const compile::gpu::Kernel& kernel, const LaunchSize& size,
             std::int64_t most_work) {
  const std::int64_t steps = size.steps < compile::gpu::Kernel::uncounted ? size.steps : assumed_steps;
  const std::int64_t work_per_piece =
      steps * kernel.group * std::max<std::int64_t>(1, size.operations / usual_operations);
  const std::int64_t at_once = std::max<std::int64_t>(1, most_work / work_per_piece);
  if (size.pieces <= at_once) {
    whole.work = std::max<std::int64_t>(size.pieces, 1) * work_per_piece;
    calls.push_back(std::move(whole));
    return;
  }
  for (std::int64_t first = 0; first < size.pieces; first += at_once) {
    const std::int64_t count = std::min(at_once, size.pieces - first);
    Dispatch& part = calls.emplace_back(whole);
    kernel.select(part.arguments, first, count);
    part.groups = static_cast<std::uint32_t>(std::min<std::int64_t>(whole.groups, count));
    part.work = count * work_per_piece;
  }
}

std::vector<std::span<Dispatch>> split_into_submissions(std::span<Dispatch> calls, std::int64_t most_work) {
  std::vector<std::span<Dispatch>> submissions;
  std::size_t first = 0;
  std::int64_t work = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > first && work + calls[i].work > most_work) {
      submissions.push_back(calls.subspan(first, i - first));
      calls[i].waits = calls[i].waits_for_submissions = true;
      first = i;
      work = 0;
    }
    work += calls[i].work;
  }
  submissions.push_back(calls.subspan(first));
  return submissions;
}

}  // namespace tessera::driver::gpu
