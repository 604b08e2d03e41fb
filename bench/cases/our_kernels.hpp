#pragma once

#include <tessera/tessera.hpp>

#include "rivals/rivals.hpp"

// Our side of the comparison. Like a rival's, it returns the call to be timed, which returns when the output is
// written.
namespace bench {

Call our_add_relu_scale(const tessera::Device& device, const tessera::Buffer& a, const tessera::Buffer& b,
                        const tessera::Buffer& output, float factor);
Call our_matmul(const tessera::Buffer& a, const tessera::Buffer& b, const tessera::Buffer& c);
Call our_softmax(const tessera::Buffer& input, const tessera::Buffer& output);
Call our_row_sums(const tessera::Buffer& input, const tessera::Buffer& output);
Call our_sum_of_all(const tessera::Buffer& input, const tessera::Buffer& output);
Call our_gaussian_blur(const tessera::Buffer& input, const tessera::Buffer& output, int radius, double sigma);
Call our_resize(const tessera::Buffer& input, const tessera::Buffer& output);
Call our_look_up(const tessera::Buffer& input, const tessera::Buffer& table, const tessera::Buffer& output);
Call our_saturation(const tessera::Buffer& input, const tessera::Buffer& output, float amount);

}  // namespace bench
