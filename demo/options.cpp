#include "options.hpp"

#include <iostream>
#include <string_view>

namespace demo {

namespace {

constexpr std::string_view usage =
    "Usage: tessera_demo [--out DIR]\n"
    "  --out DIR   where the pictures go (default: build/demo)\n"
    "  --help      this text\n"
    "Colours are used on a terminal, unless NO_COLOR is set.\n";

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code) {
  Options options;
  exit_code = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::cout << usage;
      exit_code = 0;
      return std::nullopt;
    }
    if (option != "--out") {
      std::cerr << "unknown option '" << option << "'\n" << usage;
      return std::nullopt;
    }
    ++i;
    if (i == argc || *argv[i] == '\0') {
      std::cerr << "--out needs a folder\n" << usage;
      return std::nullopt;
    }
    options.out = argv[i];
  }
  return options;
}

}  // namespace demo
