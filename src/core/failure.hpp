#pragma once

#include <tessera/error.hpp>

#include <memory>
#include <string>

namespace tessera::core {

using FailurePtr = std::shared_ptr<const detail::Failure>;

inline FailurePtr make_failure(Errc code, std::string message) {
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), nullptr});
}

// A failure caused by another one, with the code of the root. Long chains keep at least their newest 32 links and the
// root, so that a million dependent failures neither exhaust memory nor overflow the stack.
FailurePtr make_failure(std::string message, FailurePtr cause);

}  // namespace tessera::core
