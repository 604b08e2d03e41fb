#include "harness.hpp"

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bench {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Before each round all workers must sleep, including those of the previous rival, which would occupy a core: libgomp's
// spin for 5 to 8 ms, those of OpenBLAS for 25 (measured on Zen 3).
constexpr auto pause_time = milliseconds(5);
constexpr auto longest_pause = milliseconds(200);

double processor_time() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void pause() {
  const auto begin = steady_clock::now();
  double used = 0;
  do {
    const double before = processor_time();
    std::this_thread::sleep_for(pause_time);
    used = processor_time() - before;
  } while (used > std::chrono::duration<double>(pause_time).count() / 10 &&
           steady_clock::now() - begin < longest_pause);
}

void keep_busy_until(steady_clock::time_point end) {
  while (steady_clock::now() < end) continue;
}

double summarize(std::vector<double>& figures, Summary summary) {
  std::ranges::sort(figures);
  switch (summary) {
    case Summary::minimum:
      return figures.front();
    case Summary::maximum:
      return figures.back();
    case Summary::low:
      return figures[figures.size() / 10];
    case Summary::median:
      return figures[figures.size() / 2];
  }
  return 0;
}

Result measure_once(const Case& measured, int rounds) {
  const Sides sides = measured.set_up();
  if (sides.rivals.size() != measured.rivals.size()) throw std::logic_error("a rival without a side, or the reverse");

  std::vector<const std::function<double()>*> all = {&sides.ours};
  for (const auto& rival : sides.rivals) all.push_back(&rival);
  std::vector<std::vector<double>> figures(all.size());
  warm_cores(milliseconds(100));
  const bool warms_up = rounds > 1;  // cases of one round may not be repeatable
  for (int round = warms_up ? -1 : 0; round < rounds; ++round) {
    for (std::size_t side = 0; side < all.size(); ++side) {
      if (!*all[side]) continue;
      pause();
      const double figure = (*all[side])();
      if (round >= 0) figures[side].push_back(figure);
    }
  }

  const auto summary = [&](std::size_t side) {
    return figures[side].empty() ? std::nullopt : std::optional(summarize(figures[side], measured.summary));
  };
  Result result{&measured, summary(0), {}, {}};
  for (std::size_t side = 1; side < all.size(); ++side) result.rivals.push_back(summary(side));
  if (sides.check) result.wrong = sides.check();
  return result;
}

Verdict judge(const Bar& bar, std::optional<double> figure) {
  if (bar.kind == Bar::Kind::none) return Verdict::no_bar;
  if (!figure) return Verdict::not_measured;
  return bar.is_met_by(*figure) ? Verdict::met : Verdict::missed;
}

}  // namespace

void warm_cores(milliseconds time) {
  const auto end = steady_clock::now() + time;
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) others.emplace_back(keep_busy_until, end);
  keep_busy_until(end);
}

std::optional<double> Result::limit_ratio(std::size_t rival) const {
  const auto limit = std::ranges::find_if(of->rivals, &Opponent::is_limit);
  if (limit == of->rivals.end()) return std::nullopt;
  return over(rivals[static_cast<std::size_t>(limit - of->rivals.begin())], rivals[rival]);
}

Verdict Result::verdict(std::size_t rival) const {
  const Bar& bar = of->rivals[rival].bar;
  const Verdict verdict = judge(bar, ratio(rival));
  if (verdict != Verdict::missed || of->rivals[rival].is_limit) return verdict;
  return judge(bar, limit_ratio(rival)) == Verdict::missed ? Verdict::out_of_reach : Verdict::missed;
}

Verdict Result::own_verdict() const { return judge(of->bar, ours); }

bool Result::is_missed() const {
  if (!wrong.empty() || own_verdict() == Verdict::missed) return true;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    if (verdict(i) == Verdict::missed) return true;
  }
  return false;
}

Result measure(const Case& measured, bool quick) {
  const int rounds = quick ? std::max(1, measured.rounds / 4) : measured.rounds;
  Result result = measure_once(measured, rounds);
  return result.is_missed() ? measure_once(measured, rounds * 3) : result;
}

}  // namespace bench
