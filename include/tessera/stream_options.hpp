#pragma once

#include <tessera/detail/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

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

}  // namespace tessera
