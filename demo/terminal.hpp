#pragma once

#include <string>
#include <string_view>

namespace demo {

// Bold on a terminal, a plain line elsewhere.
std::string heading(std::string_view text);
// 1.23
std::string rounded(double number, int digits);

}  // namespace demo
