#pragma once

#include <tessera/error.hpp>

#include <memory>
#include <new>
#include <string>

namespace tessera::core {

using FailurePtr = std::shared_ptr<const detail::Failure>;

inline FailurePtr make_failure(Errc code, std::string message) {
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), nullptr});
}

// A failure caused by another one, with the code of the root. Long chains keep at least their newest 32 links and the
// root, so that a million dependent failures neither exhaust memory nor overflow the stack.
FailurePtr make_failure(std::string message, FailurePtr cause);

// The failure for want of memory. It exists from the start, so that it needs none.
const FailurePtr& out_of_memory() noexcept;
// Throws it, without needing memory.
[[noreturn]] void throw_out_of_memory();

// A failure whose message `describe` returns; if there is no memory for that, out_of_memory().
template <class Describe>
FailurePtr describe_failure(Errc code, Describe&& describe) noexcept {
  try {
    return make_failure(code, describe());
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

// Whether the user has been told of a failure, by an Error or a status. set_seen() includes all its causes.
bool is_seen(const detail::Failure& failure) noexcept;
void set_seen(const detail::Failure& failure) noexcept;

}  // namespace tessera::core
