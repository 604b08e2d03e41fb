#include "fuzz/run.hpp"

#include <tessera/error.hpp>

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
#include <optional>
#include <sstream>

namespace tessera::fuzz {

namespace {

// Around each buffer are bytes that nobody may write, and that show if they were read: as a number of any type they are
// large.
constexpr std::size_t margin = 64;
constexpr std::byte untouched{0x5A};

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
      std::vector<std::byte> contents(count * static_cast<std::size_t>(ir::bits_of(type)) / 8, untouched);
      if (i > 0) contents = filled(type, sample.fills[i], count, seed + i);
      std::vector<std::byte>& block = blocks.emplace_back(contents.size() + 2 * margin, untouched);
      std::ranges::copy(contents, block.begin() + margin);
      buffers.push_back(block.data() + margin);
      dims.insert(dims.end(), sample.dims[i].begin(), sample.dims[i].end());
    }
  }
  bool has_margins() const {
    const auto is_whole = [](auto begin) {
      return std::all_of(begin, begin + margin, [](std::byte b) { return b == untouched; });
    };
    return std::ranges::all_of(blocks, [&](const std::vector<std::byte>& block) {
      return is_whole(block.begin()) && is_whole(block.end() - static_cast<std::ptrdiff_t>(margin));
    });
  }
  // A buffer and the margin behind it.
  std::span<std::byte> with_margin(std::size_t i) { return std::span(blocks[i]).subspan(margin); }
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
  // A kernel sees blocks from their beginning: the margin is behind the buffer.
  std::vector<std::byte*> taken;
  for (std::size_t i = 0; i < memory.blocks.size(); ++i) {
    taken.push_back(driver.allocate(memory.with_margin(i).size()).address);
    driver.upload(taken[i], memory.with_margin(i));
    launch.buffers.push_back(taken[i]);
  }
  const auto give_back = [&] {
    for (std::size_t i = 0; i < taken.size(); ++i) driver.deallocate(taken[i], memory.with_margin(i).size());
  };
  try {
    const std::int64_t pieces = driver.pieces(launch);
    for (std::int64_t piece = 0; piece < pieces; ++piece) driver.launch(launch, piece);
  } catch (const Error&) {
    give_back();
    throw;
  }
  for (std::size_t i = 0; i < taken.size(); ++i) driver.download(memory.with_margin(i), taken[i]);
  give_back();
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

namespace {

// What refuses to run has this code; nothing if it ran.
std::optional<Errc> refusal(const std::function<void()>& run) {
  try {
    run();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == Errc::unsupported) throw;
    return error.code();
  }
}

std::optional<Errc> interpret(const Sample& sample, const Memory& memory, std::uint64_t seed) {
  const compile::Tiling tiling{other_tiles(sample, seed)};
  return refusal([&] {
    ir::interpret(sample.program, memory.buffers, memory.dims.data(), sample.scalars.data(), tiling.extents, 0,
                  tiling.tiles(sample.dims[0]));
  });
}

std::string refused_differently(std::optional<Errc> wanted, std::optional<Errc> got) {
  const auto word = [](std::optional<Errc> code) { return code ? std::string(to_string(*code)) : "a result"; };
  return "the interpreter gives " + word(wanted) + ", the compiled program " + word(got);
}

void run_compiled(const Sample& sample, const Memory& memory) {
  const auto compiled = compile::compile(sample.program);
  const std::int64_t tiles = compiled->tiling.tiles(sample.dims[0]);
  if (tiles == 0) return;
  // In two pieces, the last one first: tiles do not depend on each other.
  const compile::Arguments arguments{memory.buffers.data(), memory.dims.data(), sample.scalars.data()};
  compiled->run(arguments, tiles / 2, tiles);
  compiled->run(arguments, 0, tiles / 2);
}

}  // namespace

std::string difference(const Sample& sample, std::uint64_t data_seed, driver::Driver& driver) {
  ir::verify(sample.program);
  const Memory wanted(sample, data_seed);
  Memory got(sample, data_seed);
  const std::optional<Errc> refused = interpret(sample, wanted, data_seed);
  const std::optional<Errc> refused_by_device = refusal([&] { run_on(driver, sample, got); });
  if (refused != refused_by_device) return refused_differently(refused, refused_by_device);
  if (refused) return "";
  if (!got.has_margins()) return "the device writes outside of a buffer";
  return first_difference(sample, wanted, got);
}

std::string difference(const Sample& sample, std::uint64_t data_seed) {
  ir::verify(sample.program);
  const Memory wanted(sample, data_seed), got(sample, data_seed);
  const std::optional<Errc> refused = interpret(sample, wanted, data_seed);
  const std::optional<Errc> refused_compiled = refusal([&] { run_compiled(sample, got); });
  if (refused != refused_compiled) return refused_differently(refused, refused_compiled);
  if (refused) return "";
  if (!got.has_margins()) return "the compiled program writes outside of a buffer";
  if (std::string found = first_difference(sample, wanted, got); !found.empty()) return found;
  const Memory from_split(sample, data_seed);
  if (!run_split(sample, from_split, data_seed)) return "";
  if (!from_split.has_margins()) return "split, it writes outside of a buffer";
  const std::string what = first_difference(sample, wanted, from_split);
  return what.empty() ? what : "split, " + what;
}

}  // namespace tessera::fuzz
