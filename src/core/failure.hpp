#pragma once

#include <tessera/error.hpp>

#include <memory>
#include <string>

namespace tessera::core {

using FailurePtr = std::shared_ptr<const detail::Failure>;

inline FailurePtr make_failure(Errc code, std::string message) {
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), nullptr});
}

// A failure because of another one; it keeps the code of the root. A long chain keeps at least its newest 32 links and
// its root, so that a million dependent failures neither fill memory nor overflow the stack.
FailurePtr make_failure(std::string message, FailurePtr cause);

}  // namespace tessera::core
