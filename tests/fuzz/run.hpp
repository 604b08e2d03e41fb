#pragma once

#include "driver/driver.hpp"
#include "fuzz/sample.hpp"

#include <cstdint>
#include <string>

namespace tessera::fuzz {

// Runs the sample by the interpreter and by what compile() makes of it. Empty if both agree, else what is wrong.
std::string difference(const Sample& sample, std::uint64_t data_seed);
// The same on a device. Throws Errc::unsupported if it cannot run such a program.
std::string difference(const Sample& sample, std::uint64_t data_seed, driver::Driver& driver);

}  // namespace tessera::fuzz
