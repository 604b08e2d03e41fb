// One row times a matrix. Memory-bound, so b is read once, in order, without packing. Included by engine_*.cpp; see
// kernel.hpp.
#pragma once

#include "driver/cpu/gemm/kernel.hpp"

namespace tessera::driver::cpu {
namespace {

template <class Kind>
struct Row {
  using Element = typename Kind::Element;
  using Packed = typename Kind::Packed;
  using V = typename Kind::V;
  using Loaded = Vector<Element, Kind::lanes>;
  static constexpr int many = 4;
  // How many sums or values of a stay in the L1 cache.
  static constexpr Index chunk = (Index{16} << 10) / Index{sizeof(Packed)};

  const Element* a;
  Index a_column;
  const Element* b;
  Index b_row;
  Index b_column;
  Element* c;
  Index n;
  Index k;

  // Rows of b are contiguous: adds rows, four at a time.
  void add_rows() const {
    Packed sums[chunk];
    for (Index j = 0; j < n; j += chunk) {
      const Index columns = smaller(chunk, n - j);
      for (Index x = 0; x < columns; ++x) sums[x] = 0;
      Index i = 0;
      for (; i + many <= k; i += many) add_four(sums, i, j, columns);
      for (; i < k; ++i) {
        const Packed value = a[i * a_column];
        const Element* const row = b + i * b_row + j;
        for (Index x = 0; x < columns; ++x) sums[x] = static_cast<Packed>(sums[x] + value * row[x]);
      }
      for (Index x = 0; x < columns; ++x) c[j + x] = static_cast<Element>(sums[x]);
    }
  }

  void add_four(Packed* sums, Index i, Index j, Index columns) const {
    const Element* const row = b + i * b_row + j;
    const Packed p = a[i * a_column];
    const Packed q = a[(i + 1) * a_column];
    const Packed r = a[(i + 2) * a_column];
    const Packed s = a[(i + 3) * a_column];
    for (Index x = 0; x < columns; ++x) {
      sums[x] = static_cast<Packed>(sums[x] + p * row[x] + q * row[b_row + x] + r * row[2 * b_row + x] +
                                    s * row[3 * b_row + x]);
    }
  }

  // Columns of b are contiguous: one column at a time.
  void add_columns() const {
    Packed values[chunk];
    for (Index j = 0; j < n; ++j) c[j] = 0;
    for (Index i = 0; i < k; i += chunk) {
      const Index depth = smaller(chunk, k - i);
      for (Index x = 0; x < depth; ++x) values[x] = a[(i + x) * a_column];
      for (Index j = 0; j < n; ++j) {
        c[j] = static_cast<Element>(c[j] + inner_product(values, b + j * b_column + i, depth));
      }
    }
  }

  static Packed inner_product(const Packed* values, const Element* column, Index depth) {
    typename Kind::Sum sums[many] = {};
    Index x = 0;
    for (; x + many * Kind::lanes <= depth; x += many * Kind::lanes) {
#pragma GCC unroll 4
      for (int v = 0; v < many; ++v) {
        const Index at = x + v * Kind::lanes;
        const V right = __builtin_convertvector(load<Loaded>(column + at), V);
        Kind::add(sums[v], load<V>(values + at), Kind::right(right));
      }
    }
    V lanes = Kind::total(sums[0]);
    for (int v = 1; v < many; ++v) lanes += Kind::total(sums[v]);
    Packed sum = 0;
    for (int lane = 0; lane < Kind::lanes; ++lane) sum = static_cast<Packed>(sum + lanes[lane]);
    for (; x < depth; ++x) sum = static_cast<Packed>(sum + values[x] * column[x]);
    return sum;
  }
};

}  // namespace
}  // namespace tessera::driver::cpu
