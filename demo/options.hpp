#pragma once

#include <filesystem>
#include <optional>

namespace demo {

struct Options {
  std::filesystem::path out = "build/demo";
};

// The program's options. Nothing if it is to end now with this exit code: after --help, or a wrong call.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code);

}  // namespace demo
