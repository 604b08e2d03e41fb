#include "driver/cpu/executable.hpp"

#include "ir/analysis.hpp"

#include <utility>

namespace tessera::driver::cpu {

namespace {

std::atomic<std::uint64_t> compilation_count{0};

}  // namespace

std::uint64_t compilations() noexcept { return compilation_count.load(); }

CpuExecutable::CpuExecutable(ir::Program program) : program_(std::move(program)), weight_(ir::weight(program_)) {}

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
  ready_.store(code_.get(), std::memory_order_release);
  return *code_;
}

}  // namespace tessera::driver::cpu
