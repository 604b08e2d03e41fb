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

// What a case must reach.
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

// The sides of a case, ready to go. A call is one round and returns its figure. An empty side is missing: our kernel or
// a rival's library is not there.
struct Sides {
  template <class... Rivals>
  explicit(false) Sides(std::function<double()> our_side, Rivals... rival_sides)
      : ours(std::move(our_side)), rivals{std::move(rival_sides)...} {}

  std::function<double()> ours;
  std::vector<std::function<double()>> rivals;  // in the order of the case's
  // What is wrong with the results, or nothing. Asked once, after the rounds.
  std::function<std::string()> check = nullptr;
};

// What counts of many rounds: the least for times (all noise adds to them), the most for rates, the middle for what is
// random by itself. For times of threads that wake each other a tenth of the rounds is less: the least of all is then
// the luck of having had them on the right cores, which one side has in this run and the other one in the next.
enum class Summary : std::uint8_t { minimum, maximum, median, low };

struct Opponent {
  std::string_view name;
  Bar bar = {};           // for ours / rival
  bool is_limit = false;  // what the machine can do: a bar that it misses itself is out of reach
};

struct Case {
  std::string_view name;
  std::string_view unit;
  std::vector<Opponent> rivals;
  std::function<Sides()> set_up;  // what the sides hold on to lives until the case is over
  int rounds = 40;
  Summary summary = Summary::minimum;
  Bar bar = {};  // for ours alone
};

enum class Verdict : std::uint8_t { no_bar, met, missed, out_of_reach, not_measured };

struct Result {
  const Case* of;
  std::optional<double> ours;
  std::vector<std::optional<double>> rivals;
  std::string wrong;  // what the check found

  std::optional<double> ratio(std::size_t rival) const { return over(ours, rivals[rival]); }
  // What the limit reaches against a rival, if the case has a limit.
  std::optional<double> limit_ratio(std::size_t rival) const;
  Verdict verdict(std::size_t rival) const;
  Verdict own_verdict() const;  // of the bar for ours alone
  bool is_missed() const;       // any bar, or the check

 private:
  static std::optional<double> over(std::optional<double> figure, std::optional<double> rival) {
    return figure && rival ? std::optional(*figure / *rival) : std::nullopt;
  }
};

// Measures a case: our rounds and the rivals' in turns. If it misses a bar, once more with three times the rounds, and
// that counts.
Result measure(const Case& measured, bool quick);

// Keeps all cores busy so long. A core that has idled runs at half its speed for a while.
void warm_cores(std::chrono::milliseconds time);

// Nanoseconds that a function takes.
template <class Function>
double nanoseconds(Function&& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace bench
