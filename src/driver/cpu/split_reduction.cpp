#include "driver/cpu/split_reduction.hpp"

#include "driver/cpu/executable.hpp"
#include "ir/arithmetic.hpp"
#include "ir/cost.hpp"

#include <algorithm>
#include <utility>

namespace tessera::driver::cpu {

namespace {

// Bytes times weight below which splitting does not pay: 70 µs of work for one thread, where waking another takes
// 5 to 20 µs.
constexpr std::int64_t least_work = 16 * piece_bytes;
// With this many tiles the threads are busy without splitting.
constexpr std::int64_t enough_tiles = 64;
// Up to this many output elements, partial results stay small compared to the input, since a part covers at least one
// sum block.
constexpr std::int64_t most_elements = std::int64_t{1} << 14;

constexpr std::size_t cache_line = 64;

std::size_t size_of(const ir::Buffer& buffer) { return static_cast<std::size_t>(ir::bits_of(buffer.type)) / 8; }

// A copy of a launch's arguments with space for the extra buffers, extents and scalars of the split programs.
struct Extended {
  explicit Extended(const Launch& launch)
      : buffers(copied<8>(launch.buffers)), dims(copied<16>(launch.dims)), scalars(copied<4>(launch.scalars)) {}

  compile::Arguments arguments() const { return {buffers.data(), dims.data(), scalars.data()}; }

  core::InlineVector<std::byte*, 8> buffers;
  core::InlineVector<std::int64_t, 16> dims;
  core::InlineVector<std::uint64_t, 4> scalars;

 private:
  template <std::size_t N, class T, std::size_t M>
  static core::InlineVector<T, N> copied(const core::InlineVector<T, M>& from) {
    core::InlineVector<T, N> copy;
    copy.assign(from.data(), from.size());
    return copy;
  }
};

void run_all(const compile::Compiled& code, const compile::Arguments& arguments, std::size_t rank) {
  code.run(arguments, 0, code.tiles(arguments, rank));
}

}  // namespace

std::unique_ptr<SplitReduction> SplitReduction::of(const ir::Program& program) {
  std::optional<compile::SplitReduction> programs = compile::split_reduction(program);
  if (!programs) return nullptr;
  return std::unique_ptr<SplitReduction>(
      new SplitReduction(std::move(*programs), compile::choose_tiling(program), ir::weight(program)));
}

SplitReduction::SplitReduction(compile::SplitReduction programs, compile::Tiling tiling, int weight)
    : programs_(std::move(programs)), tiling_(std::move(tiling)), weight_(weight) {}

std::int64_t SplitReduction::extent(const Launch& launch) const {
  if (!programs_.along) return programs_.extent;
  auto at = static_cast<std::size_t>(programs_.along->axis);
  for (int buffer = 0; buffer < programs_.along->buffer; ++buffer) {
    at += programs_.finish.buffers[static_cast<std::size_t>(buffer)].dims.size();
  }
  return launch.dims[at];
}

std::int64_t SplitReduction::bytes_read(const Launch& launch) const {
  std::int64_t bytes = 0;
  const std::int64_t* dims = launch.dims.data();
  for (std::size_t buffer = 0; buffer < programs_.is_read.size(); ++buffer) {
    const ir::Buffer& of = programs_.finish.buffers[buffer];
    auto size = static_cast<std::int64_t>(size_of(of));
    for (int axis = 0; axis < of.rank(); ++axis) size *= dims[axis];
    if (programs_.is_read[buffer]) bytes += size;
    dims += of.rank();
  }
  return bytes;
}

std::optional<SplitReduction::Split> SplitReduction::split(const Launch& launch) const {
  const bool are_few = launch.elements <= most_elements && tiling_.tiles({launch.dims.data(), rank()}) < enough_tiles;
  const std::int64_t extent = this->extent(launch), bytes = are_few ? bytes_read(launch) : 0;
  if (extent == 0 || bytes * weight_ < least_work) return std::nullopt;
  const std::int64_t blocks = piece_bytes / std::max<std::int64_t>(1, bytes / extent) / ir::sum_block;
  const std::int64_t steps = std::max<std::int64_t>(1, blocks) * ir::sum_block;
  if (steps >= extent) return std::nullopt;
  return Split{.extent = extent, .steps = steps, .parts = (extent - 1) / steps + 1};
}

std::int64_t SplitReduction::partial_elements(const Launch& launch) const {
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < rank(); ++axis) elements *= partial_dim(launch, axis);
  return elements;
}

std::size_t SplitReduction::partial_bytes(const Launch& launch, const Split& split, std::size_t reduction) const {
  const auto elements = static_cast<std::size_t>(split.parts * partial_elements(launch));
  return (elements * size_of(programs_.partial[reduction].buffers[0]) + cache_line - 1) / cache_line * cache_line;
}

std::size_t SplitReduction::partial_bytes(const Launch& launch, const Split& split) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < programs_.partial.size(); ++i) bytes += partial_bytes(launch, split, i);
  return bytes;
}

void SplitReduction::compile() {
  if (is_compiled_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  if (is_compiled_.load(std::memory_order_relaxed)) return;
  partial_.clear();
  for (const ir::Program& program : programs_.partial) partial_.push_back(compile::compile(program));
  finish_ = compile::compile(programs_.finish);
  is_compiled_.store(true, std::memory_order_release);
}

void SplitReduction::run(const Launch& launch, const Split& split, std::int64_t part) const {
  const std::int64_t begin = part * split.steps, elements = partial_elements(launch);
  Extended extended(launch);
  for (std::size_t axis = 0; axis < rank(); ++axis) extended.dims[axis] = partial_dim(launch, axis);
  extended.buffers.push_back(nullptr);
  extended.scalars.push_back(static_cast<std::uint64_t>(begin));
  extended.dims.push_back(std::min(split.steps, split.extent - begin));
  std::byte* results = launch.partial;
  for (std::size_t i = 0; i < partial_.size(); ++i) {
    const std::size_t size = size_of(programs_.partial[i].buffers[0]);
    extended.buffers[0] = results + static_cast<std::size_t>(part * elements) * size;
    run_all(*partial_[i], extended.arguments(), rank());
    results += partial_bytes(launch, split, i);
  }
}

void SplitReduction::finish(const Launch& launch, const Split& split) const {
  Extended extended(launch);
  extended.buffers.push_back(nullptr);
  extended.dims.push_back(split.steps);
  extended.scalars.push_back(static_cast<std::uint64_t>(split.steps));
  std::byte* results = launch.partial;
  for (std::size_t i = 0; i < programs_.partial.size(); ++i) {
    extended.buffers.push_back(results);
    extended.dims.push_back(split.parts);
    for (std::size_t axis = 0; axis < rank(); ++axis) extended.dims.push_back(partial_dim(launch, axis));
    results += partial_bytes(launch, split, i);
  }
  run_all(*finish_, extended.arguments(), rank());
}

}  // namespace tessera::driver::cpu
