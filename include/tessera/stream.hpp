#pragma once

#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/detail/access.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/params.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tessera {

namespace tile {
class Kernel;
}

// Of the commands that are ready, those with a higher priority start first.
enum class Priority : std::uint8_t { high, normal, low };
TESSERA_API std::string_view to_string(Priority priority) noexcept;

// What happens when a command is submitted to a stream that has max_in_flight unfinished commands.
enum class WhenFull : std::uint8_t {
  block,        // submit blocks until one finishes
  reject,       // the new command fails with Errc::stream_full, without running anything
  drop_oldest,  // the oldest command that has not started is cancelled; if all have started, the new one is. A
                // cancelled command no longer counts, but occupies about 600 bytes until its predecessors finish
};
TESSERA_API std::string_view to_string(WhenFull policy) noexcept;

struct StreamOptions {
  Priority priority = Priority::normal;
  std::size_t max_in_flight = 0;  // 0: no limit
  WhenFull when_full = WhenFull::block;
  // A command that has not started this long after submission is cancelled with Errc::deadline_exceeded; 0: no limit.
  // For a 60 Hz display: 16ms.
  std::chrono::nanoseconds deadline{0};
  // Whether each command waits for the previous one of the stream. Buffers order commands in any case.
  bool in_order = true;
};

// A queue of a device: commands submitted to it run in order and share a priority, a limit and a deadline.
// Streams are never needed for correct results: buffers order commands by themselves.
//
//   Stream frames = device.stream({.max_in_flight = 2, .when_full = WhenFull::drop_oldest});
//   frames.submit("relu", {in}, out);
class TESSERA_API Stream {
 public:
  // An empty handle, on which every member except operator bool and operator== throws Errc::invalid_argument.
  Stream() noexcept = default;

  const StreamOptions& options() const;
  Device device() const;

  // Like Device::run and Device::submit, on this stream. Unlike Device::submit, submit blocks if the stream is full and
  // has WhenFull::block (the default, with a max_in_flight).
  void run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  void run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  Command submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;
  Command submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;

  // The number of unfinished commands of this stream.
  std::size_t in_flight() const;
  // Blocks until every command submitted to this stream before the call has finished. Does not throw their errors.
  void synchronize() const;

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  friend bool operator==(const Stream&, const Stream&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Stream(detail::Ref<detail::engine::StreamState> ref) noexcept : ref_(std::move(ref)) {}

  detail::Ref<detail::engine::StreamState> ref_;
};

}  // namespace tessera
