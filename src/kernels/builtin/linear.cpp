// Linear algebra: matmul, transpose.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/builtin/windows.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using tile::Index;
using tile::Indices;
using tile::Tile;

using Dims = std::vector<std::int64_t>;

// The batch axes of a matrix product: all but the last two.
struct Batch {
  Dims a;
  Dims b;

  std::int64_t broadcast(std::size_t axis) const { return a[axis] == 1 ? b[axis] : a[axis]; }
};

// Both padded with leading ones to the same rank.
Batch batch_of(const Shape& a, const Shape& b) {
  const auto rank = static_cast<std::size_t>(std::max(a.rank(), b.rank())) - 2;
  const auto padded = [&](const Shape& shape) {
    Dims dims(rank, 1);
    std::copy_backward(shape.begin(), shape.end() - 2, dims.end());
    return dims;
  };
  return {padded(a), padded(b)};
}

// Merges neighbouring axes along which the same operands, or none, are repeated.
Batch merged(const Batch& batch) {
  Batch result;
  for (std::size_t i = 0; i < batch.a.size(); ++i) {
    const std::int64_t a = batch.a[i], b = batch.b[i];
    if (a == 1 && b == 1) continue;
    const bool fits = !result.a.empty() && (result.a.back() == 1) == (a == 1) && (result.b.back() == 1) == (b == 1);
    if (fits) {
      result.a.back() *= a;
      result.b.back() *= b;
    } else {
      result.a.push_back(a);
      result.b.push_back(b);
    }
  }
  return result;
}

Shape shape_of(Dims dims, std::int64_t rows, std::int64_t columns) {
  dims.push_back(rows);
  dims.push_back(columns);
  return Shape(dims);
}

// The tile of an operand at these rows and columns, with an extent of 1 along batch axes where it is repeated.
Tile load_matrix(const tile::Input& x, const Dims& batch, const Index (&extent)[2], const Index (&coordinates)[2]) {
  const tile::Output z;
  std::vector<Index> extents, at;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto axis = static_cast<int>(i);
    extents.push_back(batch[i] == 1 ? Index(1) : z.tile_dim(axis));
    at.push_back(batch[i] == 1 ? Index(0) : z.block(axis));
  }
  extents.insert(extents.end(), std::begin(extent), std::end(extent));
  at.insert(at.end(), std::begin(coordinates), std::end(coordinates));
  return x.load(Indices(extents), Indices(at));
}

void matmul_body(const Batch& batch) {
  constexpr int k_tile = 32;
  const tile::Output z;
  const tile::Input a(0), b(1);
  const int rows = z.rank() - 2, columns = z.rank() - 1;
  z.store(tile::loop(tile::ceil_div(a.dim(columns), k_tile), tile::zeros_like(z), [&](const Index& k, const Tile& sum) {
    return tile::mma(load_matrix(a, batch.a, {z.tile_dim(rows), k_tile}, {z.block(rows), k}),
                     load_matrix(b, batch.b, {k_tile, z.tile_dim(columns)}, {k, z.block(columns)}), sum);
  }));
}

void check_matmul(const Call& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    check_dtype(call, i, call.output.dtype);
    check_rank(call, i, 2, Shape::max_rank);
  }
  const Shape &a = *call.inputs[0].shape, &b = *call.inputs[1].shape;
  const std::int64_t k = a[a.rank() - 1];
  if (b[b.rank() - 2] != k) {
    throw Error(Errc::shape_mismatch,
                text(describe_input(call, 1), " must have ", k, " rows, the number of columns of input 0, got ",
                     to_string(call.output.dtype, b)));
  }
  const Batch batch = batch_of(a, b);
  Dims wanted;
  for (std::size_t i = 0; i < batch.a.size(); ++i) {
    if (batch.a[i] != batch.b[i] && batch.a[i] != 1 && batch.b[i] != 1) {
      fail(call, Errc::shape_mismatch,
           text("the batch axes of its inputs must be equal or 1, got ", to_string(call.output.dtype, a), " and ",
                to_string(call.output.dtype, b)));
    }
    wanted.push_back(batch.broadcast(i));
  }
  check_output_shape(call, shape_of(wanted, a[a.rank() - 2], b[b.rank() - 1]));
}

// The idiom's numbers: whether a, and whether b, has one matrix per batch element. Operands are a [batch or 1,m,k],
// b [batch or 1,k,n], output [batch,m,n].
Lowering lower_matmul(const Call& call) {
  check_matmul(call);
  const Shape &a = *call.inputs[0].shape, &b = *call.inputs[1].shape;
  std::int64_t m = a[a.rank() - 2];
  const std::int64_t k = a[a.rank() - 1], n = b[b.rank() - 1];
  Batch batch = merged(batch_of(a, b));
  if (batch.a.empty()) batch = {{1}, {1}};
  if (batch.a.size() == 1 && batch.b[0] == 1) {  // a single b: the batch is just more rows of one product
    m *= batch.a[0];
    batch.a[0] = 1;
  }
  Dims output(batch.a.size());
  for (std::size_t i = 0; i < output.size(); ++i) output[i] = batch.broadcast(i);
  Lowering lowering = plain_lowering(call, [batch] { matmul_body(batch); });
  lowering.shapes = {shape_of(output, m, n), shape_of(batch.a, m, k), shape_of(batch.b, k, n)};
  if (output.size() == 1) lowering.idiom = {"matmul", {batch.a[0] != 1, batch.b[0] != 1}};
  return lowering;
}

Kernel matmul() {
  return {
      .name = "matmul",
      .inputs = {"a", "b"},
      .dtypes = to_vector(all_dtypes),
      .documentation = "a [...,m,k] times b [...,k,n]; leading axes are a batch and broadcast; integers wrap around",
      .lower = lower_matmul};
}

// The input axis for each output axis.
std::vector<int> checked_permutation(const Call& call) {
  const int rank = call.inputs[0].shape->rank();
  std::vector<int> axes(static_cast<std::size_t>(rank));
  std::iota(axes.rbegin(), axes.rend(), 0);
  const Argument& given = call["perm"];
  if (!given.is_given) return axes;
  const std::vector<std::int64_t> perm = given.integers();
  Dims sorted = perm;
  std::ranges::sort(sorted);
  if (!std::ranges::equal(sorted, axes | std::views::reverse)) {
    fail(call, Errc::invalid_parameter,
         text("parameter 'perm' must contain each axis from 0 to ", rank - 1, " once, got ",
              core::shortened(to_string(*given.value))));
  }
  axes.assign(perm.begin(), perm.end());
  return axes;
}

// An equivalent transposition with as few axes as possible: axes of extent 1 dropped, axes that stay neighbours merged.
struct Transposition {
  Dims input;
  std::vector<int> axes;  // the input axis for each output axis
};

Transposition simplified(const Shape& shape, const std::vector<int>& axes) {
  struct Run {
    int first;  // input axis
    std::int64_t extent;
  };
  std::vector<Run> runs;  // in output order
  int next = -1;          // the axis that would continue the last run
  for (const int axis : axes) {
    if (shape[axis] == 1) continue;
    while (next >= 0 && next < axis && shape[next] == 1) ++next;
    if (axis == next) {
      runs.back().extent *= shape[axis];
    } else {
      runs.push_back({axis, shape[axis]});
    }
    next = axis + 1;
  }
  Transposition result;
  for (const Run& run : runs) {
    result.axes.push_back(
        static_cast<int>(std::ranges::count_if(runs, [&](const Run& r) { return r.first < run.first; })));
  }
  std::ranges::sort(runs, {}, &Run::first);
  for (const Run& run : runs) result.input.push_back(run.extent);
  return result;
}

void transpose_body(const std::vector<int>& axes) {
  const tile::Output z;
  std::vector<Index> extents(axes.size(), 0), at(axes.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    extents[axis] = z.tile_dim(static_cast<int>(i));
    at[axis] = z.block(static_cast<int>(i));
  }
  z.store(tile::transpose(tile::Input(0).load(Indices(extents), Indices(at)), axes));
}

Lowering lower_transpose(const Call& call) {
  check_dtype(call, 0, call.output.dtype);
  const Shape& shape = *call.inputs[0].shape;
  const std::vector<int> axes = checked_permutation(call);
  const auto permuted = [](const auto& dims, const std::vector<int>& order) {
    Dims result;
    for (const int axis : order) result.push_back(dims.begin()[axis]);
    return Shape(result);
  };
  check_output_shape(call, permuted(shape, axes));
  const Transposition simple = simplified(shape, axes);
  Lowering lowering = plain_lowering(call, [order = simple.axes] { transpose_body(order); });
  lowering.shapes = {permuted(simple.input, simple.axes), Shape(simple.input)};
  for (const int axis : simple.axes) lowering.variant += static_cast<char>('0' + axis);
  return lowering;
}

Kernel transpose() {
  return {.name = "transpose",
          .inputs = {"x"},
          .params = {{.name = "perm",
                      .kind = ParamSpec::Kind::integers,
                      .default_value = Value::list(),
                      .documentation = "axis i of the output is axis perm[i] of x; default: axes reversed",
                      .min = 0,
                      .max = Shape::max_rank - 1}},
          .dtypes = to_vector(all_dtypes),
          .documentation = "x with its axes permuted",
          .lower = lower_transpose};
}

}  // namespace

std::vector<Kernel> linear_kernels() {
  std::vector<Kernel> kernels = window_kernels();
  kernels.push_back(matmul());
  kernels.push_back(transpose());
  return kernels;
}

}  // namespace tessera::kernels
