#pragma once

#include "harness.hpp"

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace bench {

// "84 ns (TBB task_group: 190, ratio 0.44)"
void print_line(std::ostream& out, const Result& result);
void print_table(std::ostream& out, const std::vector<Result>& results);
// Throws if the file cannot be written.
void write_json(const std::filesystem::path& file, const std::string& device, const std::vector<Result>& results,
                bool quick);

}  // namespace bench
