#include "driver/cpu/executable.hpp"

#include "ir/cost.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tessera::driver::cpu {

namespace {

std::atomic<std::uint64_t> compilation_count{0};

std::int64_t elements_of_one_tile(const compile::Compiled& code, std::size_t output_rank) {
  if (code.tiling.extents.size() != output_rank) return 0;  // it tiles by its own rules
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t extent : code.tiling.extents) {
    if (extent != 0) least = std::min(least, extent);
  }
  return least;
}

PieceOrder order_of(const compile::Compiled& code, const ir::Program& program) {
  if (code.is_cut()) return PieceOrder::one_by_one;
  return compile::reads_around(program) ? PieceOrder::forwards : PieceOrder::back_and_forth;
}

}  // namespace

std::uint64_t compilations() noexcept { return compilation_count.load(); }

CpuExecutable::CpuExecutable(ir::Program program) : program_(std::move(program)), weight_(ir::weight(program_)) {}

SplitReduction* CpuExecutable::split_reduction() {
  std::call_once(split_once_, [&] { split_reduction_ = SplitReduction::of(program_); });
  return split_reduction_.get();
}

const compile::Compiled& CpuExecutable::compiled() {
  const std::uint64_t failures_before = failures_.load();
  const std::scoped_lock lock(mutex_);
  if (code_) return *code_;
  if (failures_.load() != failures_before) std::rethrow_exception(error_);  // it failed while this thread waited
  try {
    code_ = native(program_);
    if (!code_) {
      ++compilation_count;
      code_ = compile::compile(program_);
    }
  } catch (...) {
    error_ = std::current_exception();
    ++failures_;
    throw;
  }
  one_tile_ = elements_of_one_tile(*code_, program_.buffers[0].dims.size());
  ready_.store(code_.get(), std::memory_order_release);
  set_ready(order_of(*code_, program_));
  code_->report_readiness(readiness());
  return *code_;
}

}  // namespace tessera::driver::cpu
