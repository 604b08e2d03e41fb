#include "report.hpp"

#include <tessera/tessera.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>

namespace bench {

namespace {

// Three significant digits, without an exponent.
std::string number(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 4;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string number(std::optional<double> value) { return value ? number(*value) : "-"; }

std::string text(const Bar& bar) {
  if (bar.kind == Bar::Kind::none) return "-";
  return (bar.kind == Bar::Kind::at_most ? "<= " : ">= ") + number(bar.value);
}

// A line of the table: our figure, with one rival or alone.
struct Line {
  const Result& result;
  std::optional<std::size_t> index;  // of the rival

  const Opponent* rival() const { return index ? &result.of->rivals[*index] : nullptr; }
  const Bar& bar() const { return index ? rival()->bar : result.of->bar; }
  std::optional<double> figure() const { return index ? result.rivals[*index] : std::nullopt; }
  std::string figure_text() const { return rival() && !figure() ? "missing" : number(figure()); }
  std::optional<double> ratio() const { return index ? result.ratio(*index) : std::nullopt; }
  Verdict verdict() const { return index ? result.verdict(*index) : result.own_verdict(); }

  std::string verdict_text() const {
    if (!result.wrong.empty()) return "WRONG: " + result.wrong;
    switch (verdict()) {
      case Verdict::no_bar:
        return "-";
      case Verdict::met:
        return "met";
      case Verdict::missed:
        return "MISSED";
      case Verdict::out_of_reach:
        return "out of reach: the limit itself reaches " + number(result.limit_ratio(*index));
      case Verdict::not_measured:
        return "not measured";
    }
    return "";
  }
};

std::string our_text(const Result& result) { return result.ours ? number(*result.ours) : "missing"; }

std::vector<Line> lines(const Result& result) {
  std::vector<Line> all;
  if (result.rivals.empty() || result.of->bar.kind != Bar::Kind::none) all.push_back({result, std::nullopt});
  for (std::size_t i = 0; i < result.rivals.size(); ++i) all.push_back({result, i});
  return all;
}

std::string in_quotes(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + '"';
}

// Full precision; JSON has neither NaN nor infinities.
std::string json_number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "null";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.6g", *value);
  return text.data();
}

std::string json(const Line& line) {
  const Case& measured = *line.result.of;
  const bool has_bar = line.bar().kind != Bar::Kind::none;
  const char* kind = line.bar().kind == Bar::Kind::at_most ? "\"at most\"" : "\"at least\"";
  const Verdict verdict = line.verdict();
  const bool is_judged = has_bar && verdict != Verdict::not_measured;
  const bool is_met = verdict == Verdict::met && line.result.wrong.empty();
  const auto limit = verdict == Verdict::out_of_reach ? line.result.limit_ratio(*line.index) : std::nullopt;
  return "{\"name\": " + in_quotes(measured.name) + ", \"ours\": " + json_number(line.result.ours) +
         ", \"unit\": " + in_quotes(measured.unit) +
         ", \"rival\": " + (line.rival() ? in_quotes(line.rival()->name) : "null") +
         ", \"rival_figure\": " + json_number(line.figure()) + ", \"ratio\": " + json_number(line.ratio()) +
         ", \"bar\": " + (has_bar ? json_number(line.bar().value) : "null") +
         ", \"bar_kind\": " + (has_bar ? kind : "null") +
         ", \"met\": " + (is_judged ? (is_met ? "true" : "false") : "null") +
         ", \"limit_ratio\": " + json_number(limit) + "}";
}

}  // namespace

void print_line(std::ostream& out, const Result& result) {
  out << our_text(result) << ' ' << result.of->unit;
  const char* separator = " (";
  for (const Line& line : lines(result)) {
    if (!line.rival()) continue;
    out << separator << line.rival()->name << ": " << line.figure_text() << ", ratio " << number(line.ratio());
    separator = "; ";
  }
  if (!result.rivals.empty()) out << ')';
}

void print_table(std::ostream& out, const std::vector<Result>& results) {
  constexpr std::size_t columns = 8;
  using Row = std::array<std::string, columns>;
  std::vector<Row> rows = {{"name", "ours", "unit", "rival", "figure", "ratio", "bar", ""}};
  for (const Result& result : results) {
    bool is_first = true;  // line of the case
    for (const Line& line : lines(result)) {
      rows.push_back({is_first ? std::string(result.of->name) : "", is_first ? our_text(result) : "",
                      std::string(result.of->unit), line.rival() ? std::string(line.rival()->name) : "-",
                      line.figure_text(), number(line.ratio()), text(line.bar()), line.verdict_text()});
      is_first = false;
    }
  }
  std::array<std::size_t, columns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string& cell = rows[i][column];
      const std::string padding(widths[column] - cell.size(), ' ');
      const bool is_figure = column == 1 || (column >= 4 && column <= 6);
      line += (column == 0 ? "" : "  ") + (is_figure ? padding + cell : cell + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
    if (i == 0) out << std::string(line.size(), '-') << '\n';
  }
}

void write_json(const std::filesystem::path& file, const std::string& device, const std::vector<Result>& results,
                bool quick) {
  std::ofstream out(file);
  out << "{\n  \"tessera\": " << in_quotes(tessera::version())
      << ",\n  \"processor\": " << in_quotes(tessera::Device::open("cpu").info().name)
      << ",\n  \"device\": " << in_quotes(device + ": " + tessera::Device::open(device).info().name)
      << ",\n  \"quick\": " << (quick ? "true" : "false") << ",\n  \"results\": [";
  const char* separator = "\n    ";
  for (const Result& result : results) {
    for (const Line& line : lines(result)) {
      out << separator << json(line);
      separator = ",\n    ";
    }
  }
  out << "\n  ]\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace bench
