#pragma once

#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/detail/access.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/params.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tessera {

namespace tile {
class Kernel;
}

// Of the commands that could start, those of a higher priority start first.
enum class Priority : std::uint8_t { high, normal, low };
TESSERA_API std::string_view to_string(Priority priority) noexcept;

// What a stream does when max_in_flight commands of it are not over yet and another one is submitted.
enum class WhenFull : std::uint8_t {
  block,        // submit waits until one is over
  reject,       // the new command fails with Errc::stream_full, and has changed nothing
  drop_oldest,  // the oldest that has not started is cancelled; if all have, the new one is. Until what it waited for
                // is over it keeps its place in the order, some 600 bytes, though it does not count any more
};
TESSERA_API std::string_view to_string(WhenFull policy) noexcept;

struct StreamOptions {
  Priority priority = Priority::normal;
  std::size_t max_in_flight = 0;  // 0: no limit
  WhenFull when_full = WhenFull::block;
  // A command that has not started this long after its submission is cancelled with Errc::deadline_exceeded.
  // 0: none. For a display at 60 Hz: 16ms.
  std::chrono::nanoseconds deadline{0};
  // Whether each command of the stream waits for the one before it. Buffers order commands in any case.
  bool in_order = true;
};

// A lane of a device: commands submitted on it run in order and share a priority, a limit and a deadline.
// Streams are never needed for correct results; those come from the buffers.
//
//   Stream frames = device.stream({.max_in_flight = 2, .when_full = WhenFull::drop_oldest});
//   frames.submit("relu", {in}, out);
class TESSERA_API Stream {
 public:
  // An empty handle: using it throws Errc::invalid_argument.
  Stream() noexcept = default;

  const StreamOptions& options() const;
  Device device() const;

  // As Device::run and Device::submit, on this stream.
  void run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  void run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  Command submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;
  Command submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;

  // The commands of this stream that are not over.
  std::size_t in_flight() const;
  // Blocks until every command submitted on this stream before the call is over. Does not throw their errors.
  void synchronize() const;

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  friend bool operator==(const Stream&, const Stream&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Stream(detail::Ref<detail::engine::StreamState> ref) noexcept : ref_(std::move(ref)) {}

  detail::Ref<detail::engine::StreamState> ref_;
};

}  // namespace tessera
