#include "svg.hpp"

#include "terminal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace demo {

using tessera::Priority;

namespace {

constexpr double left = 110, right = 1170, top = 118, row = 34, bar = 24, gap = 64;
constexpr std::array colours = {"#e4572e", "#2f6db5", "#5f9e78"};
constexpr std::array priorities = {Priority::high, Priority::normal, Priority::low};

const char* colour(Priority priority) { return colours[static_cast<std::size_t>(priority)]; }

std::string number(double value) { return rounded(value, 2); }

// A part of the time, drawn between left and right.
struct Axis {
  double begin, end;
  double x(double time) const { return left + (time - begin) / (end - begin) * (right - left); }
};

class Svg {
 public:
  void rect(double x, double y, double width, double height, std::string_view fill, std::string_view title = {}) {
    out_ += "<rect x='" + number(x) + "' y='" + number(y) + "' width='" + number(width) + "' height='" +
            number(height) + "' fill='" + std::string(fill) + "'";
    out_ += title.empty() ? "/>\n" : "><title>" + std::string(title) + "</title></rect>\n";
  }
  void text(double x, double y, std::string_view style, std::string_view text) {
    out_ += "<text x='" + number(x) + "' y='" + number(y) + "' class='" + std::string(style) + "'>" +
            std::string(text) + "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ += "<line x1='" + number(x1) + "' y1='" + number(y1) + "' x2='" + number(x2) + "' y2='" + number(y2) +
            "' class='" + std::string(style) + "'/>\n";
  }
  const std::string& body() const { return out_; }

 private:
  std::string out_;
};

// Ticks at round times, about eight of them.
void draw_axis(Svg& svg, const Axis& axis, double y, double height, double label_y) {
  constexpr std::array steps = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0};
  const double wanted = (axis.end - axis.begin) / 8;
  const auto found = std::ranges::lower_bound(steps, wanted);
  const double step = found == steps.end() ? steps.back() : *found;
  for (auto tick = static_cast<long>(axis.begin / step); static_cast<double>(tick) * step <= axis.end; ++tick) {
    const double time = static_cast<double>(tick) * step;
    if (time < axis.begin) continue;
    svg.line(axis.x(time), y, axis.x(time), y + height, "grid");
    svg.text(axis.x(time), label_y, "tick", rounded(time, step < 0.1 ? 2 : step < 1 ? 1 : 0) + " ms");
  }
}

// Neighbours of one priority are one bar here: single commands are thinner than a pixel.
void draw_all(Svg& svg, const Timeline& timeline, const Axis& axis, double y) {
  const double pixel = (axis.end - axis.begin) / (right - left);
  for (const std::string& thread : timeline.threads) {
    svg.text(left - 12, y + 17, "lane", thread);
    Span bar_so_far;
    const auto draw = [&] {
      if (bar_so_far.command == 0) return;
      const double x = axis.x(bar_so_far.start);
      svg.rect(x, y, axis.x(bar_so_far.end) - x, bar, colour(bar_so_far.priority));
    };
    for (const Span& span : timeline.spans) {
      if (span.thread != thread) continue;
      if (bar_so_far.command != 0 && span.priority == bar_so_far.priority && span.start - bar_so_far.end < pixel) {
        bar_so_far.end = span.end;
        continue;
      }
      draw();
      bar_so_far = span;
    }
    draw();
    y += row;
  }
}

std::string description(const Span& span) {
  return "command " + std::to_string(span.command) + ": " + span.kernel + ", " + std::string(to_string(span.priority)) +
         " priority, waited " + rounded(span.start - span.queued, 3) + " ms, ran " +
         rounded((span.end - span.start) * 1000, 1) + " µs";
}

void draw_part(Svg& svg, const Timeline& timeline, const Axis& axis, double y) {
  for (const std::string& thread : timeline.threads) {
    svg.text(left - 12, y + 17, "lane", thread);
    for (const Span& span : timeline.spans) {
      if (span.thread != thread || span.end < axis.begin || span.start > axis.end) continue;
      const double x = axis.x(std::max(span.start, axis.begin));
      const double width = axis.x(std::min(span.end, axis.end)) - x;
      svg.rect(x, y, std::max(width - 1, 0.5), bar, colour(span.priority), description(span));
      const std::size_t prefix = span.kernel.rfind('_') + 1;  // elementwise_add: add
      const std::string name = span.kernel.substr(prefix);
      if (width > 6.5 * static_cast<double>(name.size())) svg.text(x + width / 2, y + 16, "kernel", name);
    }
    y += row;
  }
}

constexpr std::size_t commands_in_part = 32;

// Where so many commands took the least time.
Axis part_of(const Timeline& timeline) {
  const std::vector<Span>& spans = timeline.spans;
  Axis part{spans.front().start, spans.back().end};
  for (std::size_t i = commands_in_part; i < spans.size(); ++i) {
    const Axis candidate{spans[i - commands_in_part].start, spans[i].start};
    if (candidate.end - candidate.begin < part.end - part.begin) part = candidate;
  }
  return part;
}

constexpr std::string_view style =
    "text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:#23272f}"
    ".title{font-size:20px;font-weight:600}.note{font-size:13px;fill:#5b6470}"
    ".lane{font-size:13px;text-anchor:end}.tick{font-size:11px;fill:#5b6470;text-anchor:middle}"
    ".kernel{font-size:9.5px;fill:#fff;text-anchor:middle}"
    ".grid{stroke:#e3e6ea}.lens{stroke:#23272f;stroke-dasharray:3 3;stroke-width:.8}";

}  // namespace

void write_svg(const Timeline& timeline, const std::filesystem::path& file) {
  const Axis all{0, timeline.end};
  const Axis part = part_of(timeline);
  const double lanes = row * static_cast<double>(timeline.threads.size());
  const double all_bottom = top + row + lanes;
  const double part_top = all_bottom + gap;
  const double height = part_top + lanes + 64;

  Svg svg;
  svg.text(left, 36, "title", "Tessera: " + grouped(timeline.spans.size()) + " commands of three priorities");
  svg.text(
      left, 58, "note",
      "What ran when, on which thread. Of what could start, the higher priority started first; buffers kept order.");
  double x = left;
  for (const Priority priority : priorities) {
    svg.rect(x, 70, 12, 12, colour(priority));
    const std::string name = std::string(to_string(priority)) + " priority";
    svg.text(x + 18, 81, "note", name);
    x += 42 + 7 * static_cast<double>(name.size());
  }

  draw_axis(svg, all, top, row + lanes, top - 6);
  svg.text(left - 12, top + 17, "lane", "submitting");
  svg.rect(left, top + 6, all.x(timeline.submitted) - left, bar - 12, "#9aa3ae");
  draw_all(svg, timeline, all, top + row);

  svg.line(all.x(part.begin), top + row - 4, all.x(part.begin), all_bottom, "lens");
  svg.line(all.x(part.end), top + row - 4, all.x(part.end), all_bottom, "lens");
  svg.line(all.x(part.begin), all_bottom, left, part_top - 8, "lens");
  svg.line(all.x(part.end), all_bottom, right, part_top - 8, "lens");
  draw_axis(svg, part, part_top, lanes, part_top + lanes + 16);
  draw_part(svg, timeline, part, part_top);
  svg.text(left, height - 16, "note",
           "Enlarged: the " + std::to_string(commands_in_part) + " commands that took the least time together.");

  std::ofstream out(file);
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='1200' height='" << number(height) << "' viewBox='0 0 1200 "
      << number(height) << "'>\n<style>" << style << "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n"
      << svg.body() << "</svg>\n";
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), "cannot write " + file.string());
}

}  // namespace demo
