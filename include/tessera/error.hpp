#pragma once

#include <tessera/detail/export.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// What went wrong. The groups tell who is at fault: see fault().
enum class Errc {
  // The caller: the call can never work as it is.
  invalid_argument,   // a value that makes no sense: a negative dimension, an empty handle
  overflow,           // a size that does not fit: Shape{1LL << 40, 1LL << 40}
  unknown_device,     // Device::open("gpu9")
  unknown_kernel,     // run("elementwise_ad", …); the message has the nearest name
  unknown_parameter,  // {{"slop", 0.1}}; the message has the nearest name
  invalid_parameter,  // a parameter of the wrong type or out of its range
  invalid_kernel,     // a mistake in a kernel of the caller's: tiles that do not fit, a text that cannot be read
  count_mismatch,     // two inputs given, one expected; three values for a shape of four
  shape_mismatch,     // input f32[4] where the output is f32[5]
  dtype_mismatch,     // input s32[5] where the output is f32[5]; read<int>() of an f32 buffer
  wrong_device,       // a buffer that lives on another device
  buffer_freed,       // a buffer used after free()
  unknown_command,    // an id that was never given out, or ended too many commands ago; a name never defined
  call_failed,        // a function of the caller's, a stage of a pipeline, threw
  unsupported,        // the device cannot do this

  // The outcome of work that was accepted.
  cancelled,          // cancel(), or dropped by a full stream
  deadline_exceeded,  // could not start before its deadline
  stream_full,        // the stream's limit was reached and it rejects

  // The device.
  out_of_memory,   // beyond the pool's limit, or the machine has no more
  device_failure,  // the device could not finish the command

  // The world around: files.
  io_error,  // a file that cannot be read or written, or that is not what it should be

  // This library: a bug, please report it.
  internal,
};

enum class Fault { caller, outcome, device, environment, library };

TESSERA_API std::string_view to_string(Errc code) noexcept;
TESSERA_API std::string_view to_string(Fault fault) noexcept;

// Who is at fault for an error of this code.
TESSERA_API Fault fault(Errc code) noexcept;

namespace detail {

// One failure and what caused it; immutable, shared by the command, the buffers it poisoned, and every Error about it.
struct Failure {
  Errc code;
  std::string message;
  std::shared_ptr<const Failure> cause;  // null at the root
  unsigned depth = 0;                    // how many causes stand behind this one
  std::size_t left_out = 0;              // how many more stood between this one and its cause
};

}  // namespace detail

// The one exception of this library.
//
// what() is the whole story: "[relu] input 0 is poisoned; caused by: [scale] command 12 failed: …".
// code() is that of the root cause, so that a failure has the same code wherever it is met.
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

  // This failure alone, without its causes.
  const std::string& message() const noexcept;
  // What caused it; nothing at the root. root() follows the chain to its end.
  std::optional<Error> cause() const;
  Error root() const;

  const std::shared_ptr<const detail::Failure>& failure() const noexcept { return failure_; }

 private:
  std::shared_ptr<const detail::Failure> failure_;
  std::shared_ptr<const std::string> text_;  // shared, so that copying an Error cannot throw
};

}  // namespace tessera
