#pragma once

#include <tessera/detail/export.hpp>

// Common kernels as functions. Each runs on the output's device and blocks, like Device::run, and throws as it does.
// `add` has its own header, add.hpp.
namespace tessera {

class Buffer;

TESSERA_API void multiply(const Buffer& a, const Buffer& b, const Buffer& output);  // a * b
TESSERA_API void scale(const Buffer& input, double factor, const Buffer& output);   // input * factor
TESSERA_API void relu(const Buffer& input, const Buffer& output);                   // max(input, 0)
TESSERA_API void matmul(const Buffer& a, const Buffer& b, const Buffer& output);    // matrix product

}  // namespace tessera
