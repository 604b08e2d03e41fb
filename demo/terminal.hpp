#pragma once

#include <tessera/tessera.hpp>

#include <string>
#include <string_view>
#include <vector>

// What the demo shows on a terminal: colours and updates in place there, plain lines elsewhere.
namespace demo {

// Whether stdout is one.
bool is_terminal_output();

// Text in a colour of the 256 of terminals; unchanged where colours are not wanted.
std::string coloured(std::string_view text, int colour);
std::string heading(std::string_view text);
int colour_of(tessera::Priority priority);

// 12,345
std::string grouped(std::size_t number);
// 1.23
std::string rounded(double number, int digits);

// A picture of the fractal's counts in letters.
std::string letters(const std::vector<float>& counts);

// A line that tells how much is done: again and again in place, or only a few times.
class ProgressLine {
 public:
  void show(std::size_t done, std::size_t all, double milliseconds);

 private:
  int quarters_shown_ = -1;
};

}  // namespace demo
