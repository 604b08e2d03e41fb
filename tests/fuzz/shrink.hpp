#pragma once

#include "fuzz/sample.hpp"

#include <functional>

namespace tessera::fuzz {

// Whether a sample is still wrong.
using Fails = std::function<bool(const Sample&)>;

// The sample that these choices make; throws if the program is not valid.
Sample make_sample(const std::vector<std::uint32_t>& choices, const std::vector<ir::Type>& types);

// A smaller sample that fails too: choices are left out and made simpler as long as it does.
Sample shrunk(const Sample& sample, const Fails& fails);

}  // namespace tessera::fuzz
