#include "options.hpp"

#include <iostream>
#include <string_view>

namespace demo {

namespace {

constexpr std::string_view usage =
    "Usage: tessera_demo [--out DIR]\n"
    "  --out DIR   folder for the pictures (default: build/demo)\n"
    "  --help      print this\n"
    "Set NO_COLOR to disable bold headings on a terminal.\n";

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
