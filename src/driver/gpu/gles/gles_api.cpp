#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/gles/objects.hpp"
#include "driver/gpu/gles/open.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tessera::driver::gpu {

namespace gles {

namespace {

constexpr int best_group = 128;

GlesMemory& memory_of(Memory& memory) { return static_cast<GlesMemory&>(memory); }

// A call in terms of OpenGL ES object names: when the device is lost, modules and memory may be destroyed before the
// worker gets to it.
struct Call {
  GLuint program;
  GLint location;
  std::vector<GLuint> buffers;
  std::vector<GLint> arguments;
  Grid groups;
  bool waits;
};
using Calls = std::vector<Call>;

std::shared_ptr<const Calls> calls_of(std::span<const Dispatch> dispatches, std::uint32_t most_groups) {
  auto calls = std::make_shared<Calls>();
  calls->reserve(dispatches.size());
  for (const Dispatch& dispatch : dispatches) {
    const auto& module = static_cast<const GlesModule&>(*dispatch.module);
    const Grid groups = Grid::of(dispatch.groups, most_groups);
    Call& call = calls->emplace_back(Call{module.program(), module.location(), {}, {}, groups, dispatch.waits});
    for (Memory* buffer : dispatch.buffers) call.buffers.push_back(memory_of(*buffer).object());
    if (call.location >= 0) call.arguments.assign(dispatch.arguments.begin(), dispatch.arguments.end());
  }
  return calls;
}

class GlesRecording final : public Recording {
 public:
  explicit GlesRecording(std::shared_ptr<const Calls> calls) : calls_(std::move(calls)) {}
  const std::shared_ptr<const Calls>& calls() const noexcept { return calls_; }

 private:
  std::shared_ptr<const Calls> calls_;
};

// Runs on the worker.
void put(const Calls& calls) {
  const Functions& gl = *functions();
  // Makes writes of shaders visible to later shaders and copies.
  const auto barrier = [&] { gl.glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT); };
  const Call* before = nullptr;
  for (const Call& call : calls) {
    if (call.waits && before) barrier();
    // Skip redundant state changes: validating them costs more than a small kernel.
    if (!before || call.program != before->program) gl.glUseProgram(call.program);
    for (std::size_t i = 0; i < call.buffers.size(); ++i) {
      if (before && i < before->buffers.size() && call.buffers[i] == before->buffers[i]) continue;
      gl.glBindBufferBase(GL_SHADER_STORAGE_BUFFER, static_cast<GLuint>(i), call.buffers[i]);
    }
    before = &call;
    if (!call.arguments.empty()) {
      gl.glUniform1iv(call.location, static_cast<GLsizei>(call.arguments.size()), call.arguments.data());
    }
    gl.glDispatchCompute(call.groups.x, call.groups.y, 1);
  }
  barrier();
}

compile::gpu::Target target_of(const Found& found) {
  compile::gpu::Target target;
  target.dialect = compile::gpu::Dialect::gles;
  target.device = found.info.name;
  target.group =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(std::clamp(found.group_invocations, 1, best_group))));
  target.shared_bytes = found.shared_bytes;
  target.most_buffers = found.blocks;
  target.most_argument_words = found.uniform_components;
  if (found.info.name.find("llvmpipe") != std::string::npos) {
    target.most_steps = compile::gpu::mesa_most_steps;
    target.product_block = compile::gpu::mesa_product_block;
  }
  return target;
}

class GlesApi final : public Api {
 public:
  explicit GlesApi(const Found& found) : worker_(std::make_shared<Worker>(found)), target_(target_of(found)) {}

  const DeviceInfo& info() const override { return worker_->found().info; }
  const compile::gpu::Target& target() const override { return target_; }
  std::size_t most_buffer_bytes() const override { return worker_->found().block_bytes; }
  std::uint32_t most_groups() const override {
    return Grid::most(worker_->found().most_groups[0], worker_->found().most_groups[1]);
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    return bytes <= most_buffer_bytes() ? GlesMemory::make(worker_, bytes) : nullptr;
  }
  void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) override {
    memory_of(to).upload(offset, from);
  }
  void download(std::span<std::byte> to, Memory& from, std::size_t offset) override {
    memory_of(from).download(to, offset);
  }
  void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) override { memory_of(to).fill_zero(offset, bytes); }

  std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) override {
    return std::make_unique<GlesModule>(worker_, kernel, name);
  }

  std::uint64_t submit(std::span<const Dispatch> calls) override {
    return worker_->submit([made = made_of(calls)] { put(*made); });
  }
  std::unique_ptr<Recording> record(std::span<const Dispatch> calls) override {
    return std::make_unique<GlesRecording>(made_of(calls));
  }
  std::uint64_t submit(Recording& recording) override {
    return worker_->submit([calls = static_cast<const GlesRecording&>(recording).calls()] { put(*calls); });
  }
  Progress wait(std::uint64_t number, Clock::time_point until) override {
    return worker_->completions().wait(number, until);
  }
  void lose(std::string why) override { worker_->lose(why); }

 private:
  std::shared_ptr<const Calls> made_of(std::span<const Dispatch> calls) const {
    return calls_of(calls, worker_->found().most_groups[0]);
  }

  std::shared_ptr<Worker> worker_;
  compile::gpu::Target target_;
};

}  // namespace

std::unique_ptr<Api> open(const Found& found) { return std::make_unique<GlesApi>(found); }

}  // namespace gles

std::vector<DeviceInfo> gles_devices() {
  if (!gles::device()) return {};
  return {gles::device()->info};
}

std::unique_ptr<Api> open_gles(std::size_t number) {
  if (number > 0 || !gles::device()) {
    throw Error(Errc::unknown_device, core::text("there is no OpenGL ES device ", number));
  }
  return gles::open(*gles::device());
}

}  // namespace tessera::driver::gpu
