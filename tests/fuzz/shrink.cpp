#include "fuzz/shrink.hpp"

#include "fuzz/generator.hpp"

#include <exception>
#include <numeric>
#include <tuple>

namespace tessera::fuzz {

namespace {

using List = std::vector<std::uint32_t>;

constexpr int most_tries = 4000;

std::int64_t elements(const Sample& sample) {
  std::int64_t sum = 0;
  for (const auto& dims : sample.dims) {
    sum += std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
  }
  return sum;
}

// The program first: few operations, few elements, then few and small choices.
auto size_of(const Sample& sample) {
  return std::tuple(sample.program.ops.size(), elements(sample), sample.choices.size(),
                    std::accumulate(sample.choices.begin(), sample.choices.end(), std::uint64_t{0}));
}

class Shrinker {
 public:
  Shrinker(Sample sample, const Fails& fails) : best_(std::move(sample)), fails_(fails) {}

  Sample run() {
    bool goes_on = true;
    while (goes_on && tries_ < most_tries) {
      goes_on = false;
      for (const std::size_t length : {16, 8, 4, 3, 2, 1}) goes_on = leave_out(length) || goes_on;
      goes_on = simplify() || goes_on;
    }
    return std::move(best_);
  }

 private:
  bool is_better(const List& choices) {
    if (++tries_ > most_tries) return false;
    try {
      Sample sample = make_sample(choices, best_.types);
      if (size_of(sample) >= size_of(best_) || !fails_(sample)) return false;
      best_ = std::move(sample);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  bool leave_out(std::size_t length) {
    bool is_smaller = false;
    for (std::size_t at = 0; at + length <= best_.choices.size();) {
      List choices = best_.choices;
      choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(at),
                    choices.begin() + static_cast<std::ptrdiff_t>(at + length));
      if (is_better(choices)) {
        is_smaller = true;
      } else {
        ++at;
      }
    }
    return is_smaller;
  }

  bool simplify() {
    bool is_smaller = false;
    for (std::size_t at = 0; at < best_.choices.size(); ++at) {
      for (const std::uint32_t choice : {0U, best_.choices[at] / 2, best_.choices[at] - 1}) {
        if (at >= best_.choices.size() || choice >= best_.choices[at]) continue;
        List choices = best_.choices;
        choices[at] = choice;
        if (is_better(choices)) is_smaller = true;
      }
    }
    return is_smaller;
  }

  Sample best_;
  const Fails& fails_;
  int tries_ = 0;
};

}  // namespace

Sample make_sample(const std::vector<std::uint32_t>& choices, const std::vector<ir::Type>& types) {
  Choices given(choices);
  return Generator(given, types).make();
}

Sample shrunk(const Sample& sample, const Fails& fails) { return Shrinker(sample, fails).run(); }

}  // namespace tessera::fuzz
