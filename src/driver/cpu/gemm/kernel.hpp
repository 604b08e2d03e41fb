// Included by engine_*.cpp, each compiled for another instruction set. So nothing here may have external linkage, and
// no function of the standard library may be used: the linker would keep one copy of it, compiled for any one of them.
#pragma once

#include "driver/cpu/gemm/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tessera::driver::cpu {
namespace {

using Index = std::int64_t;

constexpr Index smaller(Index a, Index b) { return a < b ? a : b; }
constexpr Index larger(Index a, Index b) { return a > b ? a : b; }
constexpr Index quotient_up(Index a, Index b) { return (a + b - 1) / b; }

// A tile of c is held in tile_rows by tile_vectors registers; a row of b's panel and one value of a must fit too. 6 by
// 2 and 14 by 2 use all registers, and need fewer loads than multiply-adds.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
constexpr int tile_rows = 14;
constexpr int tile_vectors = 2;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
constexpr int tile_rows = 6;
constexpr int tile_vectors = 2;
#elif defined(__aarch64__)
constexpr int vector_bytes = 16;
constexpr int tile_rows = 8;
constexpr int tile_vectors = 3;
#else
constexpr int vector_bytes = 16;
constexpr int tile_rows = 6;
constexpr int tile_vectors = 2;
#endif

// How many rows of b to prefetch. Packed rows, where they come from the L2 cache (blocks.hpp): gains 1 % for 1024 by
// 1024 by 1024 with AVX-512; elsewhere they are in the L1 cache. Rows being packed: gains 2 % for 512 by 512 by 512.
constexpr Index rows_ahead = vector_bytes == 64 ? 8 : 0;
constexpr Index unpacked_rows_ahead = 16;

template <class T, int lanes>
struct VectorOf {
  using Type [[gnu::vector_size(lanes * sizeof(T))]] = T;
  // Unaligned in memory.
  using Loose [[gnu::vector_size(lanes * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};
template <class T, int lanes>
using Vector = typename VectorOf<T, lanes>::Type;

template <class V, class T>
[[gnu::always_inline]] inline V load(const T* from) {
  return *reinterpret_cast<const typename VectorOf<T, sizeof(V) / sizeof(T)>::Loose*>(from);
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, V value) {
  *reinterpret_cast<typename VectorOf<T, sizeof(V) / sizeof(T)>::Loose*>(to) = value;
}

template <class V, class T, std::size_t... lane>
[[gnu::always_inline]] inline V splat(T value, std::index_sequence<lane...>) {
  return V{(static_cast<void>(lane), value)...};
}
template <class V, class T>
[[gnu::always_inline]] inline V splat(T value) {
  return splat<V>(value, std::make_index_sequence<sizeof(V) / sizeof(T)>());
}

// How a type is multiplied. Element is the type in memory, Packed the type in panels; Right is a prepared vector of b,
// Sum the accumulator. Signed integers are computed as unsigned ones, which wrap around.
template <class T>
struct Direct {
  using Element = T;
  using Packed = T;
  static constexpr int lanes = vector_bytes / sizeof(T);
  static constexpr int rows = tile_rows;
  static constexpr int vectors = tile_vectors;
  using V = Vector<T, lanes>;
  using Right = V;
  using Sum = V;
  [[gnu::always_inline]] static Right right(V b) { return b; }
  [[gnu::always_inline]] static void add(Sum& sum, V a, const Right& b) { sum += a * b; }
  [[gnu::always_inline]] static V total(const Sum& sum) { return sum; }
};

// 8-bit integers are multiplied in 16-bit lanes, the narrowest that processors support: the low half is exact.
struct Bytes : Direct<std::uint16_t> {
  using Element = std::uint8_t;
};

#if defined(__AVX2__) && !defined(__AVX512DQ__)
// Without an instruction for 64-bit products: the product of the low halves, and the two mixed products side by side in
// 32-bit lanes, which are combined once at the end. 4 instructions instead of 8 per multiply-add.
struct Longs : Direct<std::uint64_t> {
  static constexpr int vectors = 1;  // a sum takes two registers
  using Halves = Vector<std::uint32_t, 2 * lanes>;
  struct Right {
    V whole;
    Halves swapped;
  };
  struct Sum {
    V low;
    Halves mixed;
  };
  [[gnu::always_inline]] static Right right(V b) {
    return {b, reinterpret_cast<Halves>(_mm256_shuffle_epi32(reinterpret_cast<__m256i>(b), 0xB1))};
  }
  [[gnu::always_inline]] static void add(Sum& sum, V a, const Right& b) {
    sum.low += reinterpret_cast<V>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b.whole)));
    sum.mixed += reinterpret_cast<Halves>(a) * b.swapped;
  }
  [[gnu::always_inline]] static V total(const Sum& sum) {
    const V mixed = reinterpret_cast<V>(sum.mixed);
    return sum.low + (mixed << 32) + (mixed >> 32 << 32);
  }
};
#else
using Longs = Direct<std::uint64_t>;
#endif

template <class Kind>
constexpr Index tile_columns = Index{Kind::vectors} * Kind::lanes;

// The part of a that a tile reads: value (i, k) is at i * row + k * step.
template <class Kind>
struct Left {
  const typename Kind::Packed* data;
  Index row;
  Index step;
};

// b in place, with rows `row` apart.
template <class Kind>
struct RightInPlace {
  const typename Kind::Packed* data = nullptr;
  Index row = 0;
};

// The destination of a tile.
template <class Kind>
struct Target {
  typename Kind::Element* c;
  Index row;
  Index columns;                       // up to tile_columns
  bool is_first;                       // whether c is uninitialised
  const typename Kind::Element* bias;  // if not null, then added to each row
};

// Stores the sums of a tile at `to`, after applying a function of the sum and its position.
template <class Kind, int rows, class Change>
[[gnu::always_inline]] inline void store_sums(const typename Kind::Sum (&sums)[rows][Kind::vectors],
                                              typename Kind::Element* to, Index row, Change&& change) {
  using V = Vector<typename Kind::Element, Kind::lanes>;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Kind::vectors; ++v) {
      typename Kind::Element* const at = to + i * row + v * Kind::lanes;
      store(at, change(__builtin_convertvector(Kind::total(sums[i][v]), V), at, i));
    }
  }
}

// Tests once per tile, not per vector, which made 256 by 256 by 256 1 % slower.
template <class Kind, int rows>
[[gnu::always_inline]] inline void store_whole_tile(const typename Kind::Sum (&sums)[rows][Kind::vectors],
                                                    const Target<Kind>& target) {
  using Element = typename Kind::Element;
  using V = Vector<Element, Kind::lanes>;
  if (!target.is_first) {
    store_sums<Kind, rows>(sums, target.c, target.row, [](V sum, const Element* at, int) { return sum + load<V>(at); });
  } else if (target.bias != nullptr) {
    store_sums<Kind, rows>(sums, target.c, target.row,
                           [&](V sum, const Element*, int i) { return sum + splat<V>(target.bias[i]); });
  } else {
    store_sums<Kind, rows>(sums, target.c, target.row, [](V sum, const Element*, int) { return sum; });
  }
}

template <class Kind, int rows>
[[gnu::always_inline]] inline void store_tile(const typename Kind::Sum (&sums)[rows][Kind::vectors],
                                              const Target<Kind>& target) {
  if (target.columns == tile_columns<Kind>) return store_whole_tile<Kind, rows>(sums, target);
  using Element = typename Kind::Element;
  using V = Vector<Element, Kind::lanes>;
  Element whole[rows * tile_columns<Kind>];
  store_sums<Kind, rows>(sums, whole, tile_columns<Kind>, [](V sum, const Element*, int) { return sum; });
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < target.columns; ++j) {
      Element& to = target.c[i * target.row + j];
      const Element before = !target.is_first ? to : target.bias != nullptr ? target.bias[i] : Element{0};
      to = static_cast<Element>(whole[i * tile_columns<Kind> + j] + before);
    }
  }
}

// Computes a tile of up to tile_rows by tile_columns: `depth` columns of a times as many rows of b, `b_row` apart. If
// it packs, it also stores those rows in a panel.
template <class Kind, int rows, bool packs>
[[gnu::always_inline]] inline void compute_tile(const Left<Kind>& a, const typename Kind::Packed* b, Index b_row,
                                                typename Kind::Packed* panel, Index depth, const Target<Kind>& target) {
  using V = typename Kind::V;
  constexpr Index ahead = packs ? unpacked_rows_ahead : rows_ahead;
  typename Kind::Sum sums[rows][Kind::vectors] = {};
  // One pointer per three rows; the others are addressed with the stride and twice the stride.
  constexpr int pointers = (rows + 2) / 3;
  const typename Kind::Packed* left[pointers];
  for (int p = 0; p < pointers; ++p) left[p] = a.data + Index{3} * p * a.row;
  const Index row = a.row;
  const Index step = a.step;
  for (int i = 0; i < rows; ++i) {
    for (int v = 0; v < Kind::vectors; ++v) __builtin_prefetch(target.c + i * target.row + v * Kind::lanes, 1);
  }
  for (Index k = 0; k < depth; ++k) {
    typename Kind::Right right[Kind::vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Kind::vectors; ++v) {
      const V loaded = load<V>(b + v * Kind::lanes);
      right[v] = Kind::right(loaded);
      if constexpr (ahead != 0) __builtin_prefetch(b + ahead * b_row + v * Kind::lanes);
      if constexpr (packs) store(panel + v * Kind::lanes, loaded);
    }
    b += b_row;
    if constexpr (packs) panel += tile_columns<Kind>;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const V value = splat<V>(left[i / 3][i % 3 * row]);
#pragma GCC unroll 4
      for (int v = 0; v < Kind::vectors; ++v) Kind::add(sums[i][v], value, right[v]);
    }
#pragma GCC unroll 8
    for (int p = 0; p < pointers; ++p) left[p] += step;
  }
  store_tile<Kind, rows>(sums, target);
}

// With a packed panel of b.
template <class Kind, int rows>
[[gnu::noinline]] void multiply_tile(const Left<Kind>& a, const typename Kind::Packed* b, Index depth,
                                     const Target<Kind>& target) {
  compute_tile<Kind, rows, false>(a, b, tile_columns<Kind>, nullptr, depth, target);
}

// With b in place, packing it along the way: processors store while they multiply. 256 by 256 by 256 takes 4 % less
// time than with packing beforehand, 512 by 512 by 512 2 %. Only for full tiles.
template <class Kind>
[[gnu::noinline]] void multiply_and_pack(const Left<Kind>& a, const RightInPlace<Kind>& b, typename Kind::Packed* panel,
                                         Index depth, const Target<Kind>& target) {
  compute_tile<Kind, Kind::rows, true>(a, b.data, b.row, panel, depth, target);
}

template <class Kind>
using TileFunction = void (*)(const Left<Kind>&, const typename Kind::Packed*, Index, const Target<Kind>&);

// Indexed by the number of rows minus one.
template <class Kind, class Rows = std::make_integer_sequence<int, Kind::rows>>
struct Tiles;
template <class Kind, int... row>
struct Tiles<Kind, std::integer_sequence<int, row...>> {
  static constexpr TileFunction<Kind> functions[] = {multiply_tile<Kind, row + 1>...};
};

}  // namespace
}  // namespace tessera::driver::cpu
