#include "fuzz/run.hpp"

#include "compile/compile.hpp"
#include "core/random.hpp"
#include "driver/cpu/split_reduction.hpp"
#include "ir/arithmetic.hpp"
#include "ir/interpret.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>

namespace tessera::fuzz {

namespace {

constexpr std::size_t margin = 64;  // bytes around the output that nobody may touch
constexpr std::byte untouched{0xA5};

std::size_t elements(const std::vector<std::int64_t>& dims) {
  return static_cast<std::size_t>(std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>()));
}

// The memory of one run.
struct Memory {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<std::byte*> buffers;
  std::vector<std::int64_t> dims;

  Memory(const Sample& sample, std::uint64_t seed) {
    for (std::size_t i = 0; i < sample.dims.size(); ++i) {
      const ir::Type type = sample.program.buffers[i].type;
      const std::size_t count = elements(sample.dims[i]);
      if (i == 0) {
        blocks.emplace_back(count * static_cast<std::size_t>(ir::bits_of(type)) / 8 + 2 * margin, untouched);
      } else {
        blocks.push_back(filled(type, sample.fills[i], count, seed + i));
        blocks.back().reserve(1);  // an address also if there is nothing
      }
      buffers.push_back(blocks.back().data() + (i == 0 ? margin : 0));
      dims.insert(dims.end(), sample.dims[i].begin(), sample.dims[i].end());
    }
  }
  bool has_margins() const {
    const auto is_whole = [](auto begin) {
      return std::all_of(begin, begin + margin, [](std::byte b) { return b == untouched; });
    };
    return is_whole(blocks[0].begin()) && is_whole(blocks[0].end() - static_cast<std::ptrdiff_t>(margin));
  }
};

template <class T>
bool is_alike(T a, T b, const Known& known) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (a == b) return true;
    if (!known.is_loose()) return false;
    const double slack = 4 * known.error + std::numeric_limits<T>::min();
    return std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= slack;
  } else {
    return a == b;
  }
}

std::string first_difference(const Sample& sample, const Memory& wanted, const Memory& got) {
  std::ostringstream text;
  ir::with_type(sample.program.buffers[0].type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < elements(sample.dims[0]); ++i) {
      T a{};
      T b{};
      std::memcpy(&a, wanted.buffers[0] + i * sizeof(T), sizeof(T));
      std::memcpy(&b, got.buffers[0] + i * sizeof(T), sizeof(T));
      if (is_alike(a, b, sample.stored)) continue;
      text.precision(17);
      text << "element " << i << ": the interpreter gives " << +a << ", the compiled program " << +b;
      if (sample.stored.is_loose()) text << " (allowed: " << 4 * sample.stored.error << ")";
      return;
    }
  });
  return text.str();
}

// Other tiles than the compiler's, where it was free to choose them: that changes nothing.
std::vector<std::int64_t> other_tiles(const Sample& sample, std::uint64_t seed) {
  std::vector<std::int64_t> extents = compile::choose_tiling(sample.program).extents;
  if (!sample.program.tile.empty()) return extents;
  core::Random random(seed);
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const std::int64_t small[] = {0, 3, 7, sample.dims[0][axis]};
    if (extents[axis] != 0) extents[axis] = small[random.below(std::size(small))];
  }
  return extents;
}

}  // namespace

namespace {

// What the device makes of it.
void run_on(driver::Driver& driver, const Sample& sample, Memory& memory) {
  driver::Launch launch;
  launch.executable = &driver.compile(sample.program);
  launch.elements = static_cast<std::int64_t>(elements(sample.dims[0]));
  launch.dims.assign(memory.dims.data(), memory.dims.size());
  launch.scalars.assign(sample.scalars.data(), sample.scalars.size());
  std::vector<std::byte*> taken;
  for (std::size_t i = 0; i < memory.blocks.size(); ++i) {
    const std::size_t bytes = std::max<std::size_t>(memory.blocks[i].size(), 64);
    taken.push_back(driver.allocate(bytes).address);
    // The output has no margins: a driver takes blocks as they are.
    const std::span<std::byte> contents =
        i == 0 ? std::span(memory.blocks[i]).subspan(margin, memory.blocks[i].size() - 2 * margin)
               : std::span(memory.blocks[i]);
    driver.upload(taken[i], contents);
    launch.buffers.push_back(taken[i]);
  }
  driver.launch(launch, 0);
  driver.download(std::span(memory.blocks[0]).subspan(margin, memory.blocks[0].size() - 2 * margin), taken[0]);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    driver.deallocate(taken[i], std::max<std::size_t>(memory.blocks[i].size(), 64));
  }
}

// Runs it as a split reduction, the last part first; false if the program cannot be split.
bool run_split(const Sample& sample, const Memory& memory, std::uint64_t seed) {
  const auto reduction = driver::cpu::SplitReduction::of(sample.program);
  if (!reduction) return false;
  driver::Launch launch;
  launch.buffers.assign(memory.buffers.data(), memory.buffers.size());
  launch.dims.assign(memory.dims.data(), memory.dims.size());
  launch.scalars.assign(sample.scalars.data(), sample.scalars.size());
  const std::int64_t extent = reduction->extent(launch);
  if (extent < 1) return false;
  core::Random random(seed);
  const std::int64_t steps = 1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(extent)));
  const driver::cpu::SplitReduction::Split split{extent, steps, (extent - 1) / steps + 1};
  std::vector<std::byte> partial(reduction->partial_bytes(launch, split));
  launch.partial = partial.data();
  reduction->compile();
  for (std::int64_t part = split.parts; part-- > 0;) reduction->run(launch, split, part);
  reduction->finish(launch, split);
  return true;
}

}  // namespace

std::string difference(const Sample& sample, std::uint64_t data_seed, driver::Driver& driver) {
  ir::verify(sample.program);
  const Memory wanted(sample, data_seed);
  Memory got(sample, data_seed);
  const compile::Tiling tiling{other_tiles(sample, data_seed)};
  ir::interpret(sample.program, wanted.buffers, wanted.dims.data(), sample.scalars.data(), tiling.extents, 0,
                tiling.tiles(sample.dims[0]));
  run_on(driver, sample, got);
  return first_difference(sample, wanted, got);
}

std::string difference(const Sample& sample, std::uint64_t data_seed) {
  ir::verify(sample.program);
  const auto compiled = compile::compile(sample.program);
  const Memory wanted(sample, data_seed);
  const Memory got(sample, data_seed);
  const compile::Tiling tiling{other_tiles(sample, data_seed)};
  ir::interpret(sample.program, wanted.buffers, wanted.dims.data(), sample.scalars.data(), tiling.extents, 0,
                tiling.tiles(sample.dims[0]));
  const std::int64_t tiles = compiled->tiling.tiles(sample.dims[0]);
  // In two pieces, the last one first: tiles do not depend on each other.
  const compile::Arguments arguments{got.buffers.data(), got.dims.data(), sample.scalars.data()};
  compiled->run(arguments, tiles / 2, tiles);
  compiled->run(arguments, 0, tiles / 2);
  if (!got.has_margins()) return "the compiled program writes outside of the output";
  if (std::string found = first_difference(sample, wanted, got); !found.empty()) return found;
  const Memory from_split(sample, data_seed);
  if (!run_split(sample, from_split, data_seed)) return "";
  if (!from_split.has_margins()) return "split, it writes outside the output";
  const std::string what = first_difference(sample, wanted, from_split);
  return what.empty() ? what : "split, " + what;
}

}  // namespace tessera::fuzz
