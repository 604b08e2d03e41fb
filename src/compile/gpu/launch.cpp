// What a launch needs to know about a kernel: workgroups, scratch memory, steps, arguments.
#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/ranges.hpp"
#include "ir/rules.hpp"

#include <algorithm>
#include <bit>

namespace tessera::compile::gpu {

using ir::Id;
using ir::Type;

namespace {

// Larger counts are all treated as this one: no launch has that many of anything.
constexpr std::int64_t endless = Kernel::uncounted;

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? endless : std::min(result, endless);
}

}  // namespace

std::int64_t points_of(const ir::Program& program, Id id, const Tiling& tiling, const std::int64_t* dims) {
  const ir::Facts facts{.dims = dims, .tile = tiling.extents};
  std::int64_t points = 1;
  for (const Id extent : program[id].shape) {
    ir::Range range = ir::find_range(program, extent, facts);
    if (!dims && (!range.is_exact() || range.low < 0 || range.high >= endless)) return unknown;
    if (!range.is_exact()) range.high = ir::KnownNumbers(program, {&extent, 1}).evaluate(facts)[0].value;
    if (range.high <= 0) return 0;
    points = saturated_product(points, range.high);
  }
  return points;
}

void Kernel::check(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const {
  if (!extent_checks.empty()) extent_checks.run(program, dims, most_elements);
  if (numbers.empty() && narrowed.empty()) return;
  const ir::Facts facts{.extents = {0, numbers_range.high},
                        .coordinates = {0, numbers_range.high},
                        .dims = dims,
                        .scalars = scalars,
                        .tile = tiling.extents};
  const auto refuse = [&](Id id, std::string_view what) {
    throw Error(Errc::unsupported,
                core::text("[", program.name, "] ", ir::extent_text(program, id), what, ": ", device,
                           " can have only numbers from ", numbers_range.low, " to ", numbers_range.high, " there"));
  };
  const ir::KnownNumbers::Numbers values = numbers.evaluate(facts);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t value = values[i].value;
    // A negative extent or loop count counts as 0.
    if (value > numbers_range.high || (i >= passed_numbers && value < numbers_range.low))
      refuse(number_ids[i], core::text(" is ", value));
  }
  if (narrowed.empty()) return;
  const std::vector<ir::Range> ranges = ir::find_ranges(program, facts);
  for (const Id id : narrowed) {
    const ir::Range& range = ranges[static_cast<std::size_t>(id)];
    if (!numbers_range.contains(range)) refuse(id, core::text(" may be from ", range.low, " to ", range.high));
  }
}

Kernel::Grid Kernel::grid(const ir::Program& program, const std::int64_t* dims) const {
  const std::size_t rank = program.buffers.front().dims.size();
  Grid grid;
  std::int64_t pieces = 1;
  if (points == 0) {
    pieces = tiling.tiles({dims, rank});
    grid.groups = pieces;
  } else {
    for (std::size_t axis = 0; axis < rank; ++axis) pieces *= dims[axis];
    const std::int64_t at_once = static_cast<std::int64_t>(group) * points;
    grid.groups = (pieces + at_once - 1) / at_once;
  }
  for (std::size_t i = 0; i < scratch_values.size(); ++i) {
    grid.scratch_bytes += points_of(program, scratch_values[i], tiling, dims) * 4 * scratch_words[i];
  }
  return grid;
}

std::int64_t Kernel::steps(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const {
  if (loops.empty()) return 1;
  const ir::Facts facts{.dims = dims, .scalars = scalars, .tile = tiling.extents};
  std::vector<std::int64_t> runs;  // by loop: how often its body runs
  std::int64_t sum = 1;            // the end of a loop is a step too
  for (const Loop& loop : loops) {
    std::int64_t count = loop.extents.empty() ? std::max<std::int64_t>(1, loop.most) : 1;
    for (const ir::Id extent : loop.extents) {
      count = saturated_product(count, std::max<std::int64_t>(1, ir::find_range(program, extent, facts).high));
    }
    if (count < endless) count = (count + loop.shared_by - 1) / loop.shared_by;
    if (!loop.extents.empty() && loop.most != 0) count = std::min(count, loop.most);
    const std::int64_t outer = loop.around < 0 ? 1 : runs[static_cast<std::size_t>(loop.around)];
    runs.push_back(saturated_product(outer, count));
    sum = std::min(sum + saturated_product(outer, count + 1), endless);
  }
  return sum;
}

std::vector<std::uint32_t> Kernel::arguments(const ir::Program& program, const std::int64_t* dims,
                                             const std::uint64_t* scalars, const Grid& grid) const {
  const std::size_t rank = program.buffers.front().dims.size();
  std::vector<std::uint32_t> words;
  words.reserve(static_cast<std::size_t>(argument_words));
  const std::int64_t* const all_dims = dims;
  std::int64_t pieces = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) pieces *= dims[axis];
  if (points == 0) pieces = grid.groups;
  words.push_back(static_cast<std::uint32_t>(pieces));
  words.push_back(static_cast<std::uint32_t>(grid.scratch_bytes / 4));
  words.push_back(0);
  for (const ir::Buffer& buffer : program.buffers) {
    for (std::size_t axis = 0; axis < buffer.dims.size(); ++axis) words.push_back(static_cast<std::uint32_t>(*dims++));
  }
  for (std::size_t i = 0; i < program.scalars.size(); ++i) {
    std::uint64_t bits = scalars[i];
    if (program.scalars[i].type == Type::f32) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
    if (program.scalars[i].type == Type::u8) bits &= 255;
    words.push_back(static_cast<std::uint32_t>(bits));
    words.push_back(static_cast<std::uint32_t>(bits >> 32));
  }
  const ir::Facts facts{.dims = all_dims, .scalars = scalars, .tile = tiling.extents};
  const ir::KnownNumbers::Numbers values = numbers.evaluate(facts);
  for (std::size_t i = 0; i < passed_numbers; ++i) {
    words.push_back(static_cast<std::uint32_t>(std::max<std::int64_t>(0, values[i].value)));
  }
  return words;
}

void Kernel::select(std::vector<std::uint32_t>& arguments, std::int64_t first, std::int64_t count) const {
  // The end too, since a few more workgroups may run: kernels that work in place must not compute a point twice.
  const std::int64_t end = (first + count) * (points == 0 ? 1 : static_cast<std::int64_t>(group) * points);
  arguments[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(arguments[0], end));
  arguments[2] = static_cast<std::uint32_t>(first);
}

}  // namespace tessera::compile::gpu
