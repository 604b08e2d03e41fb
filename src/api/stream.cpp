#include <tessera/stream.hpp>

#include <tessera/device.hpp>

#include "api/kernel_call.hpp"
#include "core/text.hpp"
#include "engine/stream_state.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera {

namespace engine = detail::engine;
using detail::Access;
using detail::Ref;

std::string_view to_string(Priority priority) noexcept {
  switch (priority) {
    case Priority::high:
      return "high";
    case Priority::normal:
      return "normal";
    case Priority::low:
      return "low";
  }
  return "unknown";
}

std::string_view to_string(WhenFull policy) noexcept {
  switch (policy) {
    case WhenFull::block:
      return "block";
    case WhenFull::reject:
      return "reject";
    case WhenFull::drop_oldest:
      return "drop_oldest";
  }
  return "unknown";
}

namespace {

engine::StreamState& state_of(const Ref<engine::StreamState>& state, std::string_view call) {
  if (!state) throw Error(Errc::invalid_argument, core::text("[", call, "] on an empty stream handle"));
  state->device->expect_own_process();
  return *state;
}

}  // namespace

const StreamOptions& Stream::options() const { return state_of(ref_, "options").options; }
Device Stream::device() const { return Access::make<Device>(state_of(ref_, "device").device); }

void Stream::run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params) const {
  engine::StreamState& state = state_of(ref_, "run");
  engine::run(*state.device, detail::KernelCall(inputs, output, params, &state).of(kernel));
}
void Stream::run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params) const {
  engine::StreamState& state = state_of(ref_, "run");
  engine::run(*state.device, detail::KernelCall(inputs, output, params, &state).of(kernel));
}

Command Stream::submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                       const Params& params) const {
  engine::StreamState& state = state_of(ref_, "submit");
  return Access::make<Command>(
      engine::submit(*state.device, detail::KernelCall(inputs, output, params, &state).of(kernel)));
}
Command Stream::submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                       const Params& params) const {
  engine::StreamState& state = state_of(ref_, "submit");
  return Access::make<Command>(
      engine::submit(*state.device, detail::KernelCall(inputs, output, params, &state).of(kernel)));
}

std::size_t Stream::in_flight() const { return state_of(ref_, "in_flight").in_flight(); }
void Stream::synchronize() const { state_of(ref_, "synchronize").synchronize(); }

}  // namespace tessera
