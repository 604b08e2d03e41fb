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

// With three significant digits, never as an exponent.
std::string number(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.0995 ? 2 : 4;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string number(std::optional<double> value) { return value ? number(*value) : "-"; }

std::string bar_text(const Result& result) {
  const Bar& bar = result.of->bar;
  if (bar.kind == Bar::Kind::none) return "-";
  return (bar.kind == Bar::Kind::at_most ? "<= " : ">= ") + number(bar.value);
}

std::string met_text(const Result& result) {
  if (result.of->bar.kind == Bar::Kind::none) return "-";
  return result.is_met() ? "met" : "MISSED";
}

std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + '"';
}

// Exact enough for any use; JSON knows neither NaN nor infinities.
std::string json_number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "null";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.6g", *value);
  return text.data();
}

std::string json(const Result& result) {
  const Case& measured = *result.of;
  const bool has_bar = measured.bar.kind != Bar::Kind::none;
  const char* kind = measured.bar.kind == Bar::Kind::at_most ? "\"at most\"" : "\"at least\"";
  return "{\"name\": " + quoted(measured.name) + ", \"ours\": " + json_number(result.ours) +
         ", \"unit\": " + quoted(measured.unit) + ", \"rival\": " + (result.rival ? quoted(measured.rival) : "null") +
         ", \"rival_figure\": " + json_number(result.rival) + ", \"ratio\": " + json_number(result.ratio()) +
         ", \"bar\": " + (has_bar ? json_number(measured.bar.value) : "null") +
         ", \"bar_kind\": " + (has_bar ? kind : "null") +
         ", \"met\": " + (has_bar ? (result.is_met() ? "true" : "false") : "null") + "}";
}

}  // namespace

void print_line(std::ostream& out, const Result& result) {
  const Case& measured = *result.of;
  out << number(result.ours) << ' ' << measured.unit;
  if (result.rival) {
    out << " (" << measured.rival << ": " << number(*result.rival) << ", ratio " << number(result.ratio()) << ')';
  }
}

void print_table(std::ostream& out, const std::vector<Result>& results) {
  constexpr std::size_t columns = 8;
  using Row = std::array<std::string, columns>;
  std::vector<Row> rows = {{"name", "ours", "unit", "rival", "figure", "ratio", "bar", ""}};
  for (const Result& result : results) {
    rows.push_back({std::string(result.of->name), number(result.ours), std::string(result.of->unit),
                    result.rival ? std::string(result.of->rival) : "-", number(result.rival), number(result.ratio()),
                    bar_text(result), met_text(result)});
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

void write_json(const std::filesystem::path& file, const std::vector<Result>& results, bool quick) {
  std::ofstream out(file);
  out << "{\n  \"tessera\": " << quoted(tessera::version())
      << ",\n  \"processor\": " << quoted(tessera::Device::open("cpu").info().name)
      << ",\n  \"quick\": " << (quick ? "true" : "false") << ",\n  \"results\": [";
  const char* separator = "\n    ";
  for (const Result& result : results) {
    out << separator << json(result);
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace bench
