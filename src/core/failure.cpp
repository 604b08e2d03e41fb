#include "core/failure.hpp"

#include "core/text.hpp"

#include <utility>

namespace tessera::core {

namespace {
constexpr unsigned max_depth = 32;
}

FailurePtr make_failure(std::string message, FailurePtr cause) {
  const Errc code = cause->code;
  unsigned depth = cause->depth + 1;
  if (depth > max_depth) {
    FailurePtr root = cause;
    while (root->cause) root = root->cause;
    message += text(" (", depth - 1, " causes between left out)");
    cause = std::move(root);
    depth = 1;
  }
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), std::move(cause), depth});
}

}  // namespace tessera::core
