#pragma once

#include <tessera/detail/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

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

}  // namespace tessera
