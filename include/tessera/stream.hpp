#pragma once

#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/detail/access.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/params.hpp>
#include <tessera/stream_options.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tessera {

namespace tile {
class Kernel;
}

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
