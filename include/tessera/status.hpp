#pragma once

#include <tessera/detail/export.hpp>

#include <cstdint>
#include <string_view>

namespace tessera {

// Where a command is. It moves down this list only, and a terminal state is final.
enum class Status : std::uint8_t {
  pending,    // waits for the commands before it, for its stream, or for a free worker
  running,    // a worker has begun; cancel() can stop it only between two pieces of its work
  completed,  // its output is written
  failed,     // its output is poisoned; error() says why
  cancelled,  // by cancel(), a full stream or a deadline; its output is poisoned; error() says which
};

constexpr bool is_terminal(Status status) noexcept { return status >= Status::completed; }
TESSERA_API std::string_view to_string(Status status) noexcept;

// The number of a command on its device, for callers that can hold only a number.
using CommandId = std::uint64_t;

}  // namespace tessera
