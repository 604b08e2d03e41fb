#pragma once

#include "core/random.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::fuzz {

// Where the generator's decisions come from: a seed, or a list of them, which is how a program is made smaller. 0 is
// the simplest choice everywhere, and what a list gives when it is at its end.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed), is_random_(true) {}
  explicit Choices(std::vector<std::uint32_t> given) : random_(0), given_(std::move(given)) {}

  std::uint32_t below(std::size_t end) {
    if (end <= 1) return 0;
    std::uint64_t choice = 0;
    if (is_random_) {
      choice = random_.next() >> 32;
    } else if (made_.size() < given_.size()) {
      choice = given_[made_.size()];
    }
    made_.push_back(static_cast<std::uint32_t>(choice % end));
    return made_.back();
  }
  bool one_in(std::size_t n) { return below(n) == n - 1; }
  template <class T>
  const T& from(const std::vector<T>& items) {
    return items[below(items.size())];
  }

  const std::vector<std::uint32_t>& made() const noexcept { return made_; }

 private:
  core::Random random_;
  bool is_random_ = false;
  std::vector<std::uint32_t> given_;
  std::vector<std::uint32_t> made_;
};

}  // namespace tessera::fuzz
