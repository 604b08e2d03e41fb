// The table of one engine. Included by engine_*.cpp; see kernel.hpp.
#pragma once

#include "driver/cpu/gemm/row.hpp"
#include "driver/cpu/gemm/windows.hpp"

namespace tessera::driver::cpu {
namespace {

template <class Kind>
void multiply(const Block& block, const Matrix& b) {
  multiply_block<Kind>(block,
                       FromMatrix<Kind>{reinterpret_cast<const typename Kind::Element*>(b.data), b.row, b.column});
}

template <class Kind>
void multiply_row(const Block& block, const Matrix& b) {
  using Element = typename Kind::Element;
  const Row<Kind> row{reinterpret_cast<const Element*>(block.a.data),
                      block.a.column,
                      reinterpret_cast<const Element*>(b.data),
                      b.row,
                      b.column,
                      reinterpret_cast<Element*>(block.c),
                      block.n,
                      block.k};
  if (b.column == 1) {
    row.add_rows();
  } else if (b.row == 1) {
    row.add_columns();
  } else {
    multiply<Kind>(block, b);
  }
}

template <class Kind>
void convolve(const Block& block, const Windows& windows) {
  const auto* image = reinterpret_cast<const typename Kind::Element*>(windows.image);
  multiply_block<Kind>(block, FromWindows<Kind>{*windows.conv, image, windows.first});
}

template <class Kind>
constexpr Engine::Routines routines() {
  return {Kind::rows, tile_columns<Kind>, multiply<Kind>, multiply_row<Kind>, convolve<Kind>, depthwise<Kind>};
}

// In the order of DType.
constexpr Engine table(const char* name) {
  return {name,
          {routines<Direct<float>>(), routines<Direct<double>>(), routines<Direct<std::uint32_t>>(), routines<Longs>(),
           routines<Direct<std::uint32_t>>(), routines<Bytes>()}};
}

}  // namespace
}  // namespace tessera::driver::cpu
