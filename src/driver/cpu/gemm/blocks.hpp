// The loops around the tiles. Included by engine_*.cpp; see kernel.hpp.
#pragma once

#include "driver/cpu/gemm/kernel.hpp"

namespace tessera::driver::cpu {
namespace {

// A panel of b has tile_columns columns and up to `max_depth` rows. Deep panels read and write c less often; where they
// exceed the L1 cache they stream from the L2 cache. 64 KiB on a Xeon with AVX-512: 1024 by 1024 by 1024 at 360 GFLOP/s
// on two cores, with 48 KiB 345, with 24 KiB 315. On Zen 3, whose caches are smaller, 24 KiB: with 16 it was 2 to 4 %
// slower.
constexpr Index panel_bytes = (vector_bytes == 64 ? Index{64} : Index{24}) << 10;
template <class Kind>
constexpr Index max_depth = panel_bytes / (tile_columns<Kind> * Index{sizeof(typename Kind::Packed)});

// The panels that all rows of a are multiplied with stay in the L2 cache: 2 MiB on processors with AVX-512, 512 KiB on
// others.
constexpr Index max_panels = ((vector_bytes == 64 ? Index{512} : Index{240}) << 10) / panel_bytes;

// Padding between packed rows of a: without it all rows of a tile would map to the same bank of the L1 cache.
template <class Kind>
constexpr Index row_gap = Index{64} / sizeof(typename Kind::Packed);

template <class V, std::size_t... lane>
[[gnu::always_inline]] inline void interleave(V& low, V& high, V a, V b, std::index_sequence<lane...>) {
  constexpr std::size_t lanes = sizeof...(lane);
  low = __builtin_shufflevector(a, b, (lane / 2 + lane % 2 * lanes)...);
  high = __builtin_shufflevector(a, b, (lanes / 2 + lane / 2 + lane % 2 * lanes)...);
}

// Whether elements are packed without conversion.
template <class Kind>
constexpr bool is_copied = sizeof(typename Kind::Packed) == sizeof(typename Kind::Element);

// Packs rows [k, k + depth) and columns [j, j + columns) of b, padded with zeros to tile_columns.
template <class Kind>
struct FromMatrix {
  using Element = typename Kind::Element;
  using Packed = typename Kind::Packed;
  static constexpr Index width = tile_columns<Kind>;
  static constexpr int lanes = Kind::lanes;

  const Element* data;
  Index row;
  Index column;

  // Rows from k on and columns from j on, if they can be used in place; otherwise null.
  RightInPlace<Kind> in_place(Index k, Index j) const {
    if constexpr (is_copied<Kind>) {
      if (column == 1) return {reinterpret_cast<const Packed*>(data) + k * row + j, row};
    }
    return {};
  }

  void operator()(Packed* to, Index k, Index depth, Index j, Index columns) const {
    const Element* from = data + k * row + j * column;
    if (columns == width && column == 1) {
      for (; depth > 0; --depth, from += row, to += width) {
        for (Index x = 0; x < width; ++x) to[x] = from[x];
      }
      return;
    }
    if (columns == width && row == 1) {
      for (; depth >= lanes; depth -= lanes, from += lanes, to += lanes * width) {
        for (int v = 0; v < Kind::vectors; ++v) transpose(to + v * lanes, from + v * lanes * column);
      }
    }
    for (; depth > 0; --depth, from += row, to += width) {
      for (Index x = 0; x < columns; ++x) to[x] = from[x * column];
      for (Index x = columns; x < width; ++x) to[x] = 0;
    }
  }

  // Transposes a square of lanes by lanes: each round interleaves its upper half with its lower half.
  void transpose(Packed* to, const Element* from) const {
    using V = typename Kind::V;
    V square[lanes];
    V next[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      square[i] = __builtin_convertvector((load<Vector<Element, lanes>>(from + i * column)), V);
    }
#pragma GCC unroll 8
    for (int round = 1; round < lanes; round *= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < lanes / 2; ++i) {
        interleave(next[2 * i], next[2 * i + 1], square[i], square[i + lanes / 2], std::make_index_sequence<lanes>());
      }
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) square[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store(to + i * width, square[i]);
  }
};

// Packs a tile of a: rows [i, i + rows) and columns [k, k + depth).
template <class Kind>
Left<Kind> pack_rows(const Matrix& a, Index i, Index rows, Index k, Index depth, typename Kind::Packed* to) {
  const auto* from = reinterpret_cast<const typename Kind::Element*>(a.data) + i * a.row + k * a.column;
  if (a.column == 1) {
    const Index line = depth + row_gap<Kind>;
    for (Index r = 0; r < rows; ++r) {
      for (Index x = 0; x < depth; ++x) to[r * line + x] = from[r * a.row + x];
    }
    return {to, line, 1};
  }
  for (Index x = 0; x < depth; ++x) {
    auto* const column = to + x * Kind::rows;
    const auto* const source = from + x * a.column;
    if (rows == Kind::rows && a.row == 1) {
      for (Index s = 0; s < Kind::rows; ++s) column[s] = source[s];
    } else {
      for (Index s = 0; s < rows; ++s) column[s] = source[s * a.row];
    }
  }
  return {to, 1, Kind::rows};
}

// The same tile, in place if possible: packing it would gain nothing.
template <class Kind>
Left<Kind> rows_of(const Matrix& a, Index i, Index rows, Index k, Index depth, typename Kind::Packed* packed) {
  if constexpr (is_copied<Kind>) {
    if (a.column == 1) return {reinterpret_cast<const typename Kind::Packed*>(a.data) + i * a.row + k, a.row, 1};
  }
  return pack_rows<Kind>(a, i, rows, k, depth, packed);
}

// Multiplies each tile of rows of a with all panels of b, which are packed along with the first.
template <class Kind, class Source>
void multiply_block(const Block& block, const Source& b) {
  using Element = typename Kind::Element;
  using Packed = typename Kind::Packed;
  const Index depths = larger(1, quotient_up(block.k, max_depth<Kind>));
  const Index depth_step = larger(1, quotient_up(block.k, depths));
  const Index panel_size = depth_step * tile_columns<Kind>;
  const Index panels = smaller(max_panels, quotient_up(block.n, tile_columns<Kind>));
  const Index column_step = panels * tile_columns<Kind>;
  auto* const packed_b = reinterpret_cast<Packed*>(
      scratch((panels * panel_size + (depth_step + row_gap<Kind>)*Kind::rows) * sizeof(Packed)));
  Packed* const packed_a = packed_b + panels * panel_size;

  for (Index j = 0; j < block.n; j += column_step) {
    const Index columns_end = smaller(j + column_step, block.n);
    for (Index k = 0; k == 0 || k < block.k; k += depth_step) {
      const Index depth = smaller(depth_step, block.k - k);
      for (Index i = 0; i < block.m; i += Kind::rows) {
        const Index rows = smaller(Kind::rows, block.m - i);
        const Left<Kind> a = rows_of<Kind>(block.a, i, rows, k, depth, packed_a);
        Packed* panel = packed_b;
        for (Index jj = j; jj < columns_end; jj += tile_columns<Kind>, panel += panel_size) {
          const Index columns = smaller(tile_columns<Kind>, columns_end - jj);
          const Target<Kind> target{reinterpret_cast<Element*>(block.c) + i * block.c_row + jj, block.c_row, columns,
                                    k == 0,
                                    block.bias == nullptr ? nullptr : reinterpret_cast<const Element*>(block.bias) + i};
          if (i == 0) {
            const RightInPlace<Kind> from = b.in_place(k, jj);
            if (from.data != nullptr && rows == Kind::rows && columns == tile_columns<Kind>) {
              multiply_and_pack<Kind>(a, from, panel, depth, target);
              continue;
            }
            b(panel, k, depth, jj, columns);
          }
          Tiles<Kind>::functions[rows - 1](a, panel, depth, target);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::driver::cpu
