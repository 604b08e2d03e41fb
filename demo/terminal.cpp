#include "terminal.hpp"

#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <unistd.h>

namespace demo {

std::string heading(std::string_view text) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool is_bold = isatty(STDOUT_FILENO) == 1 && (!no_color || *no_color == '\0');
  std::string line(is_bold ? "\n\033[1m" : "\n== ");
  return line.append(text).append(is_bold ? "\033[0m\n" : "\n");
}

std::string rounded(double number, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number;
  return out.str();
}

}  // namespace demo
