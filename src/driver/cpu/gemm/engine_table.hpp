// The table of one engine. Included by the engine_*.cpp; see kernel.hpp.
#pragma once

#include "driver/cpu/gemm/blocks.hpp"

namespace tessera::driver::cpu {
namespace {

template <class Kind>
void multiply(const Block& block, const Matrix& b) {
  multiply_block<Kind>(
      block, FromMatrix<Kind>{reinterpret_cast<const typename Kind::Element*>(b.data), b.row, b.column});
}

template <class Kind>
constexpr Engine::Routines routines() {
  return {Kind::rows, tile_columns<Kind>, multiply<Kind>, nullptr, nullptr};
}

// In the order of DType.
constexpr Engine table(const char* name) {
  return {name,
          {routines<Direct<float>>(), routines<Direct<double>>(), routines<Direct<std::uint32_t>>(), routines<Longs>(),
           routines<Direct<std::uint32_t>>(), routines<Bytes>()}};
}

}  // namespace
}  // namespace tessera::driver::cpu
