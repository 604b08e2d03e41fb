#pragma once

#include "compile/dump.hpp"
#include "compile/gpu/source.hpp"
#include "driver/driver.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/split_64bit.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace tessera::driver::gpu {

// A program and its kernels: one form for many output elements, one for few.
class GpuExecutable final : public Executable {
 public:
  GpuExecutable(ir::Program given, const compile::gpu::Target& target)
      : given_(std::move(given)),
        split_(split_64bit(given_, target)),
        program_(split_ ? *split_ : given_),
        choice_(compile::gpu::choice_of(program_)) {}

  struct Code {
    compile::gpu::Kernel kernel;
    std::unique_ptr<Module> module;
  };

  const ir::Program& given() const noexcept { return given_; }
  // The program that is compiled.
  const ir::Program& program() const noexcept { return program_; }
  bool is_split() const noexcept { return split_.has_value(); }

  // The code for a launch. The first thread that needs it compiles; others wait.
  const Code& code(Api& api, const Launch& launch) {
    const compile::gpu::Form form = compile::gpu::best_form(choice_, program_, launch.dims.data());
    Slot& slot = slots_[form == compile::gpu::Form::few ? 1 : 0];
    if (const Code* ready = slot.ready.load(std::memory_order_acquire)) return *ready;
    const std::scoped_lock lock(slot.mutex);
    if (slot.code) return *slot.code;
    slot.code = made(api, api.target(), form, launch);
    slot.ready.store(slot.code.get(), std::memory_order_release);
    set_ready();
    return *slot.code;
  }

 private:
  std::unique_ptr<Code> made(Api& api, const compile::gpu::Target& target, compile::gpu::Form form,
                             const Launch& launch) const {
    auto code = std::make_unique<Code>();
    code->kernel = compile::gpu::compile(program_, target, form);
    // A launch that will be refused need not wait for the device's compiler.
    if (!is_split()) code->kernel.check(program_, launch.dims.data(), launch.scalars.data());
    try {
      code->module = api.compile(code->kernel, program_.name);
      return code;
    } catch (const GroupTooLarge& error) {
      if (error.most() < 1 || error.most() >= target.group) throw;
      compile::gpu::Target smaller = target;
      smaller.group = static_cast<int>(std::bit_floor(static_cast<unsigned>(error.most())));
      return made(api, smaller, form, launch);
    }
  }

  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Code> code;
    std::atomic<const Code*> ready{nullptr};
  };

  const ir::Program given_;
  const std::optional<ir::Program> split_;
  const ir::Program& program_;
  const compile::gpu::Choice choice_;
  std::array<Slot, 2> slots_;
};

// The launch's executable, which the GPU driver created and so may modify.
inline GpuExecutable& executable_of(const Launch& launch) {
  return const_cast<GpuExecutable&>(static_cast<const GpuExecutable&>(*launch.executable));
}

}  // namespace tessera::driver::gpu
