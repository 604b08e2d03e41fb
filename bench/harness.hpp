#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

// The target of a case.
struct Bar {
  enum class Kind : std::uint8_t { none, at_most, at_least };
  Kind kind = Kind::none;
  double value = 0;

  bool is_met_by(double figure) const noexcept {
    return kind == Kind::none || (kind == Kind::at_most ? figure <= value : figure >= value);
  }
};
constexpr Bar at_most(double value) { return {Bar::Kind::at_most, value}; }
constexpr Bar at_least(double value) { return {Bar::Kind::at_least, value}; }

// The sides of a case. A call runs one round and returns its figure. An empty function means that our kernel or the
// rival's library is missing.
struct Sides {
  template <class... Rivals>
  explicit(false) Sides(std::function<double()> our_side, Rivals... rival_sides)
      : ours(std::move(our_side)), rivals{std::move(rival_sides)...} {}

  std::function<double()> ours;
  std::vector<std::function<double()>> rivals;  // in the order of the case's rivals
  // What is wrong with the results, or empty. Called once, after the rounds.
  std::function<std::string()> check = nullptr;
};

// How rounds are summarised: the minimum for times (noise only adds), the maximum for rates, the median for values that
// vary by nature. For threads that wake each other the 10th percentile: their minimum depends on which cores they
// happened to be on, which favours one side in this run and the other in the next.
enum class Summary : std::uint8_t { minimum, maximum, median, low };

struct Opponent {
  std::string_view name;
  Bar bar = {};           // for ours / rival
  bool is_limit = false;  // the machine's limit: a bar that it misses itself is out of reach
};

struct Case {
  std::string_view name;
  std::string_view unit;
  std::vector<Opponent> rivals;
  std::function<Sides()> set_up;  // the sides keep their resources until the case ends
  int rounds = 40;
  Summary summary = Summary::minimum;
  Bar bar = {};  // for ours alone
};

enum class Verdict : std::uint8_t { no_bar, met, missed, out_of_reach, not_measured };

struct Result {
  const Case* of;
  std::optional<double> ours;
  std::vector<std::optional<double>> rivals;
  std::string wrong;  // from the check

  std::optional<double> ratio(std::size_t rival) const { return over(ours, rivals[rival]); }
  // The limit's ratio to a rival, if the case has a limit.
  std::optional<double> limit_ratio(std::size_t rival) const;
  Verdict verdict(std::size_t rival) const;
  Verdict own_verdict() const;  // of the bar for ours alone
  bool is_missed() const;       // any bar, or the check

 private:
  static std::optional<double> over(std::optional<double> figure, std::optional<double> rival) {
    return figure && rival ? std::optional(*figure / *rival) : std::nullopt;
  }
};

// Measures a case, alternating our rounds and the rivals'. If it misses a bar, measures again with three times the
// rounds, which then counts.
Result measure(const Case& measured, bool quick);

// Keeps all cores busy this long: a core that has been idle runs at half speed for a while.
void warm_cores(std::chrono::milliseconds time);

// Nanoseconds that a function takes.
template <class Function>
double nanoseconds(Function&& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace bench
