#pragma once

#include <filesystem>
#include <optional>

namespace demo {

struct Options {
  std::filesystem::path out = "build/demo";
};

// The program's options; nullopt if it should exit with this code, after --help or a wrong option.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace demo
