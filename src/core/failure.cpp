#include "core/failure.hpp"

#include <ranges>
#include <utility>
#include <vector>

namespace tessera::core {

namespace {

// A chain grows to twice its length before it is shortened, so that the cost per failure stays low.
constexpr unsigned kept_links = 32;
constexpr unsigned longest_chain = 2 * kept_links;

// Keeps the newest links and the root.
FailurePtr shortened(const FailurePtr& newest) {
  std::vector<const detail::Failure*> links;
  FailurePtr root = newest;
  std::size_t left_out = 0;
  for (; root->cause; root = root->cause) {
    if (links.size() < kept_links) {
      links.push_back(root.get());
    } else {
      ++left_out;
    }
    left_out += root->left_out;
  }
  FailurePtr chain = root;
  for (const detail::Failure* link : std::views::reverse(links)) {
    chain = std::make_shared<const detail::Failure>(
        detail::Failure{link->code, link->message, chain, chain->depth + 1, std::exchange(left_out, 0)});
  }
  return chain;
}

}  // namespace

FailurePtr make_failure(std::string message, FailurePtr cause) {
  if (cause->depth >= longest_chain) cause = shortened(cause);
  const Errc code = cause->code;
  const unsigned depth = cause->depth + 1;
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), std::move(cause), depth});
}

}  // namespace tessera::core
