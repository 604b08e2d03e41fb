#include <tessera/error.hpp>

#include <utility>

namespace tessera {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::overflow:
      return "overflow";
    case Errc::unknown_device:
      return "unknown_device";
    case Errc::unknown_kernel:
      return "unknown_kernel";
    case Errc::unknown_parameter:
      return "unknown_parameter";
    case Errc::invalid_parameter:
      return "invalid_parameter";
    case Errc::invalid_kernel:
      return "invalid_kernel";
    case Errc::count_mismatch:
      return "count_mismatch";
    case Errc::shape_mismatch:
      return "shape_mismatch";
    case Errc::dtype_mismatch:
      return "dtype_mismatch";
    case Errc::wrong_device:
      return "wrong_device";
    case Errc::buffer_freed:
      return "buffer_freed";
    case Errc::unknown_command:
      return "unknown_command";
    case Errc::call_failed:
      return "call_failed";
    case Errc::unsupported:
      return "unsupported";
    case Errc::cancelled:
      return "cancelled";
    case Errc::deadline_exceeded:
      return "deadline_exceeded";
    case Errc::stream_full:
      return "stream_full";
    case Errc::out_of_memory:
      return "out_of_memory";
    case Errc::device_failure:
      return "device_failure";
    case Errc::io_error:
      return "io_error";
    case Errc::internal:
      return "internal";
  }
  return "unknown";
}

std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::caller:
      return "caller";
    case Fault::outcome:
      return "outcome";
    case Fault::device:
      return "device";
    case Fault::environment:
      return "environment";
    case Fault::library:
      return "library";
  }
  return "unknown";
}

Fault fault(Errc code) noexcept {
  switch (code) {
    case Errc::cancelled:
    case Errc::deadline_exceeded:
    case Errc::stream_full:
      return Fault::outcome;
    case Errc::out_of_memory:
    case Errc::device_failure:
      return Fault::device;
    case Errc::io_error:
      return Fault::environment;
    case Errc::internal:
      return Fault::library;
    default:
      return Fault::caller;
  }
}

namespace {

std::string with_causes(const detail::Failure& failure) {
  std::string text = failure.message;
  for (const detail::Failure* link = &failure; link->cause; link = link->cause.get()) {
    if (link->left_out != 0) text += " (" + std::to_string(link->left_out) + " causes omitted)";
    text += "; caused by: ";
    text += link->cause->message;
  }
  return text;
}

}  // namespace

Error::Error(Errc code, std::string message)
    : Error(std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), nullptr})) {}

Error::Error(std::shared_ptr<const detail::Failure> failure)
    : failure_(std::move(failure)),
      // Without causes the message is the text, which needs no memory.
      text_(failure_->cause ? std::make_shared<const std::string>(with_causes(*failure_))
                            : std::shared_ptr<const std::string>(failure_, &failure_->message)) {}

Errc Error::code() const noexcept { return failure_->code; }
const char* Error::what() const noexcept { return text_->c_str(); }
const std::string& Error::message() const noexcept { return failure_->message; }

std::optional<Error> Error::cause() const {
  if (!failure_->cause) return std::nullopt;
  return Error(failure_->cause);
}

Error Error::root() const {
  std::shared_ptr<const detail::Failure> failure = failure_;
  while (failure->cause) failure = failure->cause;
  return Error(std::move(failure));
}

}  // namespace tessera
