#include "harness.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace bench {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Before each round: all workers are asleep then. A rival's that still look for work would take a core from ours.
constexpr auto pause_time = milliseconds(5);

void keep_busy_until(steady_clock::time_point end) {
  while (steady_clock::now() < end) continue;
}

double one_round(const std::function<double()>& side) {
  std::this_thread::sleep_for(pause_time);
  return side();
}

double summarize(std::vector<double>& figures, Summary summary) {
  std::ranges::sort(figures);
  switch (summary) {
    case Summary::minimum:
      return figures.front();
    case Summary::maximum:
      return figures.back();
    case Summary::median:
      return figures[figures.size() / 2];
  }
  return 0;
}

Result measure_once(const Case& measured, int rounds) {
  const Sides sides = measured.set_up();
  std::vector<double> ours;
  std::vector<double> rival;
  warm_cores(milliseconds(100));
  const bool warms_up = rounds > 1;  // what is measured in one round may be different the second time
  for (int round = warms_up ? -1 : 0; round < rounds; ++round) {
    const double our_figure = one_round(sides.ours);
    if (round >= 0) ours.push_back(our_figure);
    if (!sides.rival) continue;
    const double rival_figure = one_round(sides.rival);
    if (round >= 0) rival.push_back(rival_figure);
  }
  Result result{&measured, summarize(ours, measured.summary), std::nullopt};
  if (sides.rival) result.rival = summarize(rival, measured.summary);
  return result;
}

}  // namespace

void warm_cores(milliseconds time) {
  const auto end = steady_clock::now() + time;
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) others.emplace_back(keep_busy_until, end);
  keep_busy_until(end);
}

Result measure(const Case& measured, bool quick) {
  const int rounds = quick ? std::max(1, measured.rounds / 4) : measured.rounds;
  const Result result = measure_once(measured, rounds);
  return result.is_met() ? result : measure_once(measured, rounds * 3);
}

}  // namespace bench
