#pragma once

#include <tessera/dtype.hpp>
#include <tessera/error.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include "conformance/oracles/oracles.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The calls that every device must get right.
namespace tessera::conformance {

// What an input is filled with.
enum class Data : std::uint8_t {
  usual,    // floats of -4 … 4, small integers
  special,  // NaN, infinities, both zeros, subnormals, the ends of the type among others
  offset,   // around 100: differences lose digits
  image,    // u8: all of it, with runs of black and white; f32: 0 … 1 and a bit beyond
};

struct Input {
  DType dtype = f32;
  Shape shape;
  Data data = Data::usual;
};

struct Case {
  std::string kernel;
  std::vector<Input> inputs;
  DType dtype = f32;  // of the output
  Shape shape;
  Params params = {};
  int in_place = -1;  // the input that is the output too
  std::optional<Errc> error = {};
};

using Cases = std::vector<Case>;

Cases all_cases();
// Buffers of more than 2^31 bytes.
Cases huge_cases();

void add_elementwise_cases(Cases& to);
void add_reduction_cases(Cases& to);
void add_linear_cases(Cases& to);
void add_generator_cases(Cases& to);
void add_image_cases(Cases& to);
void add_sound_cases(Cases& to);

// The inputs that the seed gives.
Call make_call(const Case& of, std::uint64_t seed);

// "matmul(f32[2,3], f32[3,4]) -> f32[2,4] {}": enough to say it again.
std::string describe(const Case& of);

}  // namespace tessera::conformance
