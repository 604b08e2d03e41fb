#pragma once

#include "fuzz/sample.hpp"

#include <cstdint>
#include <string>

namespace tessera::fuzz {

// Runs the sample by the interpreter and by what compile() makes of it. Empty if both agree, else what is wrong.
std::string difference(const Sample& sample, std::uint64_t data_seed);

}  // namespace tessera::fuzz
