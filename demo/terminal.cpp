#include "terminal.hpp"

#include "fractal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace demo {

namespace {

bool wants_colour() {
  static const bool wanted = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return is_terminal_output() && (!no_color || *no_color == '\0');
  }();
  return wanted;
}

}  // namespace

bool is_terminal_output() {
  static const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  return is_terminal;
}

std::string coloured(std::string_view text, int colour) {
  if (!wants_colour()) return std::string(text);
  return "\033[38;5;" + std::to_string(colour) + "m" + std::string(text) + "\033[0m";
}

std::string heading(std::string_view text) {
  const bool is_bold = wants_colour();
  std::string line(is_bold ? "\n\033[1m" : "\n== ");
  return line.append(text).append(is_bold ? "\033[0m\n" : "\n");
}

int colour_of(tessera::Priority priority) {
  constexpr std::array colours = {203, 75, 108};
  return colours[static_cast<std::size_t>(priority)];
}

std::string grouped(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string rounded(double number, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number;
  return out.str();
}

std::string letters(const std::vector<float>& counts) {
  constexpr int columns = 96, rows = 27;
  constexpr std::string_view ramp = "  .,:;-=+*o#@";
  constexpr std::array colours = {17, 18, 19, 20, 26, 32, 38, 44, 80, 116, 152, 188, 231};
  static_assert(colours.size() == ramp.size());
  std::string picture;
  for (int row = 0; row < rows; ++row) {
    picture += "  ";
    for (int column = 0; column < columns; ++column) {
      const int pixel = (2 * row + 1) * height / (2 * rows) * width + column * width / columns;
      const float share = counts[static_cast<std::size_t>(pixel)] / iterations;
      const auto level = static_cast<std::size_t>(std::sqrt(share) * static_cast<float>(ramp.size() - 1));
      picture += coloured(ramp.substr(level, 1), colours[level]);
    }
    picture += '\n';
  }
  return picture;
}

void ProgressLine::show(std::size_t done, std::size_t all, double milliseconds) {
  constexpr std::size_t length = 40;
  const std::size_t full = done * length / all;
  std::string bar;
  for (std::size_t i = 0; i < length; ++i) bar += i < full ? "█" : "░";
  const std::string line = "  " + bar + "  " + grouped(done) + " of " + grouped(all) + " commands over after " +
                           rounded(milliseconds, 0) + " ms";
  if (is_terminal_output()) {
    std::cout << '\r' << line << (done == all ? "\n" : "") << std::flush;
    return;
  }
  const int quarters = static_cast<int>(done * 4 / all);
  if (quarters == quarters_shown_) return;
  quarters_shown_ = quarters;
  std::cout << line << '\n';
}

}  // namespace demo
