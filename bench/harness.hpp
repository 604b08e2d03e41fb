#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

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

// The two sides of a case, ready to go. A call is one round and returns its figure.
struct Sides {
  std::function<double()> ours;
  std::function<double()> rival = nullptr;  // may be missing
};

// What counts of many rounds: the least for times (all noise adds to them), the most for rates, the middle for what is
// random by itself.
enum class Summary : std::uint8_t { minimum, maximum, median };

struct Case {
  std::string_view name;
  std::string_view unit;
  std::string_view rival;         // its name; empty: none
  Bar bar;                        // for ours / rival, or for ours if there is no rival
  std::function<Sides()> set_up;  // what the sides hold on to lives until the case is over
  int rounds = 40;
  Summary summary = Summary::minimum;
};

struct Result {
  const Case* of;
  double ours;
  std::optional<double> rival;

  std::optional<double> ratio() const { return rival ? std::optional(ours / *rival) : std::nullopt; }
  bool is_met() const { return of->bar.is_met_by(ratio().value_or(ours)); }
};

// Measures a case: our rounds and the rival's in turns. If it misses its bar, once more with three times the rounds,
// and that counts.
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
