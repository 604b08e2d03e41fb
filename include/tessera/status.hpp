#pragma once

#include <tessera/detail/export.hpp>

#include <cstdint>
#include <string_view>

namespace tessera {

// The status of a command. It only moves down this list, and the last three are final.
enum class Status : std::uint8_t {
  pending,    // waiting for earlier commands, its stream, or a free worker
  running,    // a worker has started it; cancel() can stop it only between two pieces of its work
  completed,  // its output is written
  failed,     // its output is poisoned; error() says why
  cancelled,  // by cancel(), a full stream or a deadline; its output is poisoned; error() says which
};

constexpr bool is_terminal(Status status) noexcept { return status >= Status::completed; }
TESSERA_API std::string_view to_string(Status status) noexcept;

// The number of a command on its device, for callers that can hold only a number.
using CommandId = std::uint64_t;

}  // namespace tessera
