#pragma once

#include "core/failure.hpp"
#include "engine/work.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

// Compiling takes far longer than most commands, so it is not part of a command's own time: it has spans of its own in
// traces and in a pipeline's last_run(), and deadlines that are missed because of it say so.
namespace tessera::plan {
struct CompiledGroup;
}

namespace tessera::detail::engine {

// The compilations of a device that are running, and the last ones that were. Any thread.
class Compilations {
 public:
  std::uint64_t begin(std::string_view label) noexcept;
  void end(std::uint64_t number) noexcept;
  // What was being compiled for a good part of this time; empty if nothing was.
  std::string during(Clock::time_point from, Clock::time_point until) const;

 private:
  struct Span {
    std::uint64_t number;
    std::string label;
    Clock::time_point begin;
    Clock::time_point end = Clock::time_point::max();
  };
  static constexpr std::size_t most = 64;

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::deque<Span> spans_;
};

// Compiles the code of a kernel item that has started, if that is not done yet.
core::FailurePtr compile_if_needed(Work& work) noexcept;

// Compiles the code of all groups, on this thread and on the device's workers. Returns the failure of the first group
// that has one.
core::FailurePtr compile_all(DeviceState& device, std::span<const plan::CompiledGroup> groups);

// Why an item that could not start before its deadline was cancelled; its stream allows it this much time.
std::string too_late(const DeviceState& device, Clock::time_point deadline, Clock::duration allowed);

}  // namespace tessera::detail::engine
