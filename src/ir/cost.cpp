#include "ir/cost.hpp"

#include "ir/ranges.hpp"

#include <algorithm>
#include <vector>

namespace tessera::ir {

int weight(const Program& program) {
  // Roughly in sixteenths of the cost of moving four bytes; a loop or a matrix product is assumed to read its operands
  // 32 times.
  constexpr int plain = 2, function = 32, repeated = 16 * 32, unit = 16;
  int sum = 0;
  for (const Op& op : program.ops) {
    const bool is_function = (op.code >= Code::exp && op.code <= Code::erf) || op.code == Code::pow;
    if (op.code == Code::loop || op.code == Code::mma) {
      sum += repeated;
    } else if (!op.shape.empty()) {
      sum += is_function ? function : plain;
    }
  }
  return std::max(1, sum / unit);
}

namespace {

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) { return a > unlimited - b ? unlimited : a + b; }
std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? unlimited : result;
}

// Counts the points of one launch.
class StepCount {
 public:
  StepCount(const Program& program, std::span<const std::int64_t> dims) : program_(program) {
    const auto rank = static_cast<std::size_t>(program.buffers.front().rank());
    std::vector<std::int64_t> tile = program.tile;
    tile.resize(rank, 0);
    ranges_ = find_ranges(program, {.dims = dims.data(), .tile = tile});
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (tile[axis] > 0) tiles_ = saturated_product(tiles_, (dims[axis] + tile[axis] - 1) / tile[axis]);
    }
  }

  std::int64_t find() const {
    std::int64_t sum = 0;
    for (std::size_t region = 0; region < program_.regions.size(); ++region) {
      const std::int64_t runs = runs_of(region);
      for (const Id id : program_.regions[region].ops) sum = saturated_sum(sum, saturated_product(runs, points(id)));
    }
    return sum;
  }

 private:
  std::int64_t most(Id id) const { return std::max<std::int64_t>(0, ranges_[static_cast<std::size_t>(id)].high); }
  std::int64_t points(Id id) const {
    const Op& op = program_[id];
    std::int64_t points = 1;
    for (const Id extent : op.shape) points = saturated_product(points, most(extent));
    if (op.code == Code::mma) points = saturated_product(points, most(program_[op.operands[0]].shape.back()));
    return points;
  }
  std::int64_t runs_of(std::size_t region) const {
    std::int64_t runs = tiles_;
    while (program_.regions[region].parent >= 0) {
      runs = saturated_product(runs, most(program_[program_.regions[region].loop].operands[0]));
      region = static_cast<std::size_t>(program_.regions[region].parent);
    }
    return runs;
  }

  const Program& program_;
  std::vector<Range> ranges_;
  std::int64_t tiles_ = 1;
};

}  // namespace

std::int64_t steps(const Program& program, std::span<const std::int64_t> dims) {
  return StepCount(program, dims).find();
}

std::int64_t cost(const Program& program, std::span<const std::int64_t> dims, std::int64_t bytes) {
  // Pointwise kernels keep the cost of their bytes, and 4 KiB of cost are at most 16,000 steps: some 16 µs even if none
  // of them is vectorized.
  constexpr std::int64_t steps_per_byte = 4;
  const std::int64_t count = steps(program, dims);
  if (count == unlimited) return unlimited;
  return std::max(saturated_product(bytes, weight(program)), count / steps_per_byte);
}

}  // namespace tessera::ir
