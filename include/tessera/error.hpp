#pragma once

#include <tessera/detail/export.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// What went wrong, grouped by who is at fault: see fault().
enum class Errc {
  // The caller: the call is wrong.
  invalid_argument,   // a meaningless value: a negative dimension, an empty handle
  overflow,           // a size that does not fit: Shape{1LL << 40, 1LL << 40}
  unknown_device,     // Device::open("gpu9")
  unknown_kernel,     // run("elementwise_ad", …); the message suggests the nearest name
  unknown_parameter,  // {{"slop", 0.1}}; the message suggests the nearest name
  invalid_parameter,  // a parameter of the wrong type or out of range
  invalid_kernel,     // an error in a user's kernel: tiles that do not broadcast, an expression with a syntax error
  count_mismatch,     // two inputs instead of one; three values for a shape of four
  shape_mismatch,     // input f32[4] with output f32[5]
  dtype_mismatch,     // input s32[5] with output f32[5]; read<int>() of an f32 buffer
  wrong_device,       // a buffer of another device
  buffer_freed,       // a buffer used after free()
  unknown_command,    // an id never assigned or expired; a name never defined
  call_failed,        // a pipeline's call stage threw
  unsupported,        // the device cannot do this

  // The outcome of accepted work.
  cancelled,          // by cancel(), or dropped by a full stream
  deadline_exceeded,  // did not start before its deadline
  stream_full,        // the stream was at its limit, with WhenFull::reject

  // The device.
  out_of_memory,   // beyond the pool's limit, or the device has no more
  device_failure,  // the device could not finish the command

  // The environment.
  io_error,  // a file that cannot be read or written, or is malformed

  // The library: a bug, please report it.
  internal,
};

enum class Fault { caller, outcome, device, environment, library };

TESSERA_API std::string_view to_string(Errc code) noexcept;
TESSERA_API std::string_view to_string(Fault fault) noexcept;

// Who is at fault for errors with this code.
TESSERA_API Fault fault(Errc code) noexcept;

namespace detail {

// A failure and its cause. Immutable but for is_seen; shared by the command, the buffers it poisoned, and every Error
// about it.
struct Failure {
  Errc code;
  std::string message;
  std::shared_ptr<const Failure> cause;  // null at the root
  unsigned depth = 0;                    // length of the chain of causes
  std::size_t left_out = 0;              // causes omitted between this failure and `cause`
  mutable bool is_seen = false;          // the user was told; accessed atomically
};

}  // namespace detail

// The exception that this library throws.
//
// what() has the whole chain: "[relu] input 0 is poisoned; caused by: [scale] command 12 failed: …".
// code() is the root cause's, so a failure has the same code wherever it surfaces.
//
//   try { command.wait(); } catch (const tessera::Error& error) {
//     if (error.code() == tessera::Errc::out_of_memory) …
//   }
class TESSERA_API Error : public std::exception {
 public:
  Error(Errc code, std::string message);
  explicit Error(std::shared_ptr<const detail::Failure> failure);

  Errc code() const noexcept;
  const char* what() const noexcept override;

  // The text of this failure alone, without its causes.
  const std::string& message() const noexcept;
  // The cause; nullopt for a root cause. root() returns the last of the chain, possibly this error.
  std::optional<Error> cause() const;
  Error root() const;

  const std::shared_ptr<const detail::Failure>& failure() const noexcept { return failure_; }

 private:
  std::shared_ptr<const detail::Failure> failure_;
  std::shared_ptr<const std::string> text_;  // shared, so that copying an Error cannot throw
};

}  // namespace tessera
