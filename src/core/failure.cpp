#include "core/failure.hpp"

#include <atomic>
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

namespace {

const Error no_memory(Errc::out_of_memory, "there is not enough host memory");

}  // namespace

const FailurePtr& out_of_memory() noexcept { return no_memory.failure(); }
void throw_out_of_memory() { throw Error(no_memory); }

bool is_seen(const detail::Failure& failure) noexcept {
  return std::atomic_ref(failure.is_seen).load(std::memory_order_relaxed);
}

void set_seen(const detail::Failure& failure) noexcept {
  for (const detail::Failure* link = &failure; link; link = link->cause.get()) {
    std::atomic_ref(link->is_seen).store(true, std::memory_order_relaxed);
  }
}

FailurePtr make_failure(std::string message, FailurePtr cause) {
  if (cause->depth >= longest_chain) cause = shortened(cause);
  const Errc code = cause->code;
  const unsigned depth = cause->depth + 1;
  return std::make_shared<const detail::Failure>(detail::Failure{code, std::move(message), std::move(cause), depth});
}

}  // namespace tessera::core
