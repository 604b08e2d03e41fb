#include "timeline.hpp"

#include "terminal.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace demo {

using tessera::Priority;

namespace {

// The text behind "key": in a line of the trace, which has one event a line.
std::string_view value_of(std::string_view line, std::string_view key) {
  std::string quoted(1, '"');
  quoted.append(key).append("\":");
  const std::size_t found = line.find(quoted);
  if (found == line.npos) throw std::runtime_error(quoted.insert(0, "the trace has an event without "));
  return line.substr(found + quoted.size());
}
double number_of(std::string_view line, std::string_view key) { return std::stod(std::string(value_of(line, key))); }
std::string string_of(std::string_view line, std::string_view key) {
  const std::string_view value = value_of(line, key).substr(1);
  return std::string(value.substr(0, value.find('"')));
}

bool is_command(std::string_view line) { return line.find("\"cat\":\"command\"") != line.npos; }
bool is_thread_name(std::string_view line) { return line.find("\"thread_name\"") != line.npos; }

}  // namespace

Timeline read_timeline(const std::filesystem::path& trace, const std::map<tessera::CommandId, Priority>& priorities) {
  Timeline timeline;
  std::map<int, std::string> thread_names;
  double origin = std::numeric_limits<double>::max();
  std::ifstream file(trace);
  for (std::string line; std::getline(file, line);) {
    if (is_thread_name(line)) {
      thread_names[static_cast<int>(number_of(line, "tid"))] = string_of(value_of(line, "args"), "name");
    }
    if (!is_command(line)) continue;
    const auto known = priorities.find(static_cast<tessera::CommandId>(number_of(line, "command")));
    if (known == priorities.end()) continue;
    const double start = number_of(line, "ts") / 1000;
    const double queued = number_of(line, "queued") / 1000;
    timeline.spans.push_back({known->first, string_of(line, "name"),
                              thread_names.at(static_cast<int>(number_of(line, "tid"))), known->second, queued, start,
                              start + number_of(line, "dur") / 1000,
                              static_cast<std::size_t>(number_of(line, "bytes"))});
    origin = std::min(origin, queued);
  }
  if (timeline.spans.size() != priorities.size()) throw std::runtime_error("the trace lacks commands");

  std::set<std::string> threads;
  for (Span& span : timeline.spans) {
    span.queued -= origin;
    span.start -= origin;
    span.end -= origin;
    threads.insert(span.thread);
    timeline.submitted = std::max(timeline.submitted, span.queued);
    timeline.end = std::max(timeline.end, span.end);
  }
  timeline.threads.assign(threads.begin(), threads.end());
  // worker 2 before worker 10
  std::ranges::sort(timeline.threads, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  std::ranges::sort(timeline.spans, {}, &Span::start);
  return timeline;
}

Figures figures_of(const Timeline& timeline) {
  Figures figures;
  const std::vector<Span>& spans = timeline.spans;
  double latest_end = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const bool with_earlier = span.start < latest_end;
    const bool with_later = i + 1 < spans.size() && spans[i + 1].start < span.end;
    figures.overlapped += with_earlier || with_later ? 1 : 0;
    latest_end = std::max(latest_end, span.end);
    figures.bytes += span.bytes;

    Figures::Wait& wait = figures.waiting[static_cast<std::size_t>(span.priority)];
    ++wait.commands;
    wait.mean += span.start - span.queued;
  }
  for (Figures::Wait& wait : figures.waiting) wait.mean /= static_cast<double>(wait.commands);
  return figures;
}

std::string chart(const Timeline& timeline) {
  constexpr std::size_t columns = 84;
  constexpr std::array<std::string_view, 3> marks = {"█", "▒", "░"};
  const double column_time = timeline.end / columns;

  std::string text;
  const auto begin_row = [&](std::string name) {
    name.resize(10, ' ');
    text.append("  ").append(name).append("|");
  };
  begin_row("submitting");
  for (std::size_t column = 0; column < columns; ++column) {
    text += static_cast<double>(column) * column_time < timeline.submitted ? "=" : " ";
  }
  text += "|\n";
  for (const std::string& thread : timeline.threads) {
    std::array<std::array<double, 3>, columns> busy{};  // the time of each priority in each column
    for (const Span& span : timeline.spans) {
      if (span.thread != thread) continue;
      const auto first = static_cast<std::size_t>(span.start / column_time);
      for (auto column = first; column < columns && static_cast<double>(column) * column_time < span.end; ++column) {
        const double begin = std::max(span.start, static_cast<double>(column) * column_time);
        const double end = std::min(span.end, static_cast<double>(column + 1) * column_time);
        busy[column][static_cast<std::size_t>(span.priority)] += std::max(end - begin, 0.0);
      }
    }
    begin_row(thread);
    for (const auto& times : busy) {
      const auto most = static_cast<std::size_t>(std::ranges::max_element(times) - times.begin());
      const bool is_idle = times[0] + times[1] + times[2] < column_time / 20;
      text += is_idle ? " " : coloured(marks[most], colour_of(static_cast<Priority>(most)));
    }
    text += "|\n";
  }

  begin_row("");
  const std::string end = rounded(timeline.end, 1) + " ms";
  text.back() = ' ';
  text.append("0").append(columns - 1 - end.size(), ' ').append(end).append("\n");
  begin_row("");
  text.back() = ' ';
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    text += coloured(marks[static_cast<std::size_t>(priority)], colour_of(priority)) + ' ' +
            std::string(to_string(priority)) + " priority   ";
  }
  return text + "(blank: nothing ran)\n";
}

}  // namespace demo
