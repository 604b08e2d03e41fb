#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/export.hpp>

// The common kernels as functions: each runs on the device of its output and blocks, as Device::run does. One more,
// `add`, is in add.hpp.
namespace tessera {

TESSERA_API void multiply(const Buffer& a, const Buffer& b, const Buffer& output);  // a * b
TESSERA_API void scale(const Buffer& input, double factor, const Buffer& output);   // input * factor
TESSERA_API void relu(const Buffer& input, const Buffer& output);                   // max(input, 0)
TESSERA_API void matmul(const Buffer& a, const Buffer& b, const Buffer& output);    // the product of matrices

}  // namespace tessera
