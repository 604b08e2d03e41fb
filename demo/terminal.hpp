#pragma once

#include <string>
#include <string_view>

// What the demo shows: bold headings on a terminal, plain lines elsewhere.
namespace demo {

std::string heading(std::string_view text);
// 1.23
std::string rounded(double number, int digits);

}  // namespace demo
