#include "ir/evaluate.hpp"

#include "ir/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <vector>

namespace tessera::ir {

namespace {

template <class T>
Value single_of(Type type, T element) {
  auto result = std::make_shared<Array>(type, Dims{});
  *result->data<T>() = element;
  return result;
}

}  // namespace

Value single(std::int64_t number) { return single_of(Type::s64, number); }

Value constant(const Op& op) {
  return with_type(op.type, [&]<class T>(T) {
    if constexpr (Float<T>)
      return single_of(op.type, static_cast<T>(op.number));
    else
      return single_of(op.type, static_cast<T>(op.integer));
  });
}

Value scalar(Type type, std::uint64_t bits) {
  return with_type(type, [&]<class T>(T) {
    if constexpr (Float<T>)
      return single_of(type, static_cast<T>(std::bit_cast<double>(bits)));
    else
      return single_of(type, static_cast<T>(bits));
  });
}

Value iota(const Dims& dims, int axis) {
  auto result = std::make_shared<Array>(Type::s64, dims);
  const std::int64_t inner = strides_of(dims)[static_cast<std::size_t>(axis)];
  const std::int64_t extent = dims[static_cast<std::size_t>(axis)];
  std::int64_t* out = result->data<std::int64_t>();
  for (std::int64_t begin = 0; begin < result->size(); begin += inner)
    std::fill_n(out + begin, inner, begin / inner % extent);
  return result;
}

namespace {

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return (a % b + b) % b; }

// The index that is read instead of one that may be outside of an axis, whose extent is at least 1; -1: none.
std::int64_t at_border(std::int64_t index, std::int64_t extent, Border border) {
  if (index >= 0 && index < extent) return index;
  switch (border) {
    case Border::clamp:
      return index < 0 ? 0 : extent - 1;
    case Border::wrap:
      return floor_mod(index, extent);
    case Border::reflect: {
      if (extent == 1) return 0;
      const std::int64_t period = 2 * (extent - 1);
      const std::int64_t at = floor_mod(index, period);
      return std::min(at, period - at);
    }
    case Border::symmetric: {
      const std::int64_t at = floor_mod(index, 2 * extent);
      return std::min(at, 2 * extent - 1 - at);
    }
    default:
      return -1;
  }
}

std::int64_t at_border(std::int64_t index, std::int64_t extent, Border border, std::int64_t step) {
  if (step == 1) return at_border(index, extent, border);
  if (extent < step) return -1;
  const std::int64_t rest = floor_mod(index, step);
  const std::int64_t group = at_border((index - rest) / step, extent / step, border);
  return group < 0 ? -1 : group * step + rest;
}

}  // namespace

Value load(const Op& op, const std::byte* buffer, std::span<const std::int64_t> buffer_dims,
           std::span<const Value> indices, const Dims& dims) {
  Offsets offsets(dims);
  const bool is_empty = std::ranges::find(buffer_dims, 0) != buffer_dims.end();
  const Dims strides = strides_of(buffer_dims);
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const Array& index = *indices[axis];
    const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
    Dims offset(index.data<std::int64_t>(), index.data<std::int64_t>() + index.size());
    for (std::int64_t& item : offset) {
      const std::int64_t at = is_empty ? -1 : at_border(item, buffer_dims[axis], op.border, step);
      item = at < 0 ? Offsets::outside : at * strides[axis];
    }
    offsets.add(offset, index.dims());
  }
  return offsets.gather(op.type, buffer);
}

Value pick(const Op& op, const Array& part, std::span<const Value> start, std::span<const Value> extents,
           std::span<const Value> indices, const Dims& dims) {
  Offsets offsets(dims);
  const auto number = [](const Value& value) { return *value->data<std::int64_t>(); };
  const bool is_empty = std::ranges::any_of(extents, [&](const Value& extent) { return number(extent) <= 0; });
  const Dims strides = strides_of(part.dims());
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const Array& index = *indices[axis];
    const std::int64_t step = op.list.empty() ? 1 : op.list[axis];
    Dims offset(index.data<std::int64_t>(), index.data<std::int64_t>() + index.size());
    for (std::int64_t& item : offset) {
      const std::int64_t found = is_empty ? -1 : at_border(item, number(extents[axis]), op.border, step);
      const std::int64_t at = found < 0 ? -1 : found - number(start[axis]);
      item = at < 0 || at >= part.dims()[axis] ? Offsets::outside : at * strides[axis];
    }
    offsets.add(offset, index.dims());
  }
  return offsets.gather(op.type, part.data<std::byte>());
}

namespace {

// Computes each element of a result from the operands' elements at the same point.
template <class R, class F, class... T>
Value map(Type type, const Dims& dims, F f, const T*... in) {
  auto result = std::make_shared<Array>(type, dims);
  R* out = result->data<R>();
  for (std::int64_t i = 0; i < result->size(); ++i) out[i] = f(in[i]...);
  return result;
}

Value convert(const Op& op, const Array& x) {
  return with_type(x.type(), [&]<class From>(From) {
    return with_type(op.type, [&]<class To>(To) {
      if constexpr (Float<From> && !Float<To>) {
        if (op.code == Code::nearest)
          return map<To>(
              op.type, x.dims(), [](From a) { return arithmetic::saturate<To>(std::round(a)); }, x.data<From>());
      }
      return map<To>(op.type, x.dims(), [](From a) { return arithmetic::saturate<To>(a); }, x.data<From>());
    });
  });
}

Value select(const Op& op, const Array& condition, const Array& yes, const Array& no) {
  return with_type(op.type, [&]<class T>(T) {
    return map<T>(
        op.type, yes.dims(), [](bool c, T a, T b) { return c ? a : b; }, condition.data<bool>(), yes.data<T>(),
        no.data<T>());
  });
}

Value fma(const Op& op, const Array& a, const Array& b, const Array& c) {
  return with_type(op.type, [&]<class T>(T) -> Value {
    if constexpr (std::same_as<T, bool>)
      return nullptr;
    else
      return map<T>(
          op.type, a.dims(), [](T x, T y, T z) { return arithmetic::add(arithmetic::mul(x, y), z); }, a.data<T>(),
          b.data<T>(), c.data<T>());
  });
}

Value unary(const Op& op, const Array& x) {
  Value result;
  with_type(x.type(), [&]<class T>(T) {
    with_unary<T>(op.code, [&](auto f) { result = map<T>(op.type, x.dims(), f, x.data<T>()); });
  });
  return result;
}

Value binary(const Op& op, const Array& a, const Array& b) {
  Value result;
  with_type(a.type(), [&]<class T>(T) {
    with_binary<T>(
        op.code, [&](auto f) { result = map<decltype(f(T{}, T{}))>(op.type, a.dims(), f, a.data<T>(), b.data<T>()); });
  });
  return result;
}

}  // namespace

Value pointwise(const Op& op, std::span<const Value> operands) {
  switch (op.code) {
    case Code::convert:
    case Code::nearest:
      return convert(op, *operands[0]);
    case Code::select:
      return select(op, *operands[0], *operands[1], *operands[2]);
    case Code::fma:
      return fma(op, *operands[0], *operands[1], *operands[2]);
    default:
      return operands.size() == 1 ? unary(op, *operands[0]) : binary(op, *operands[0], *operands[1]);
  }
}

Value reshape(const Value& x, const Dims& dims) {
  auto result = std::make_shared<Array>(x->type(), dims);
  std::copy_n(x->data<std::byte>(), x->size() * bits_of(x->type()) / 8, result->data<std::byte>());
  return result;
}

Value transpose(const Array& x, std::span<const std::int64_t> axes) {
  const Dims from = strides_of(x.dims());
  Dims dims;
  Dims strides;
  for (const std::int64_t axis : axes) {
    dims.push_back(x.dims()[static_cast<std::size_t>(axis)]);
    strides.push_back(from[static_cast<std::size_t>(axis)]);
  }
  return picked(x, std::move(dims), strides);
}

Value slice(const Array& x, std::span<const Value> start, const Dims& dims) {
  Offsets offsets(dims);
  const Dims strides = strides_of(x.dims());
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    Dims line(static_cast<std::size_t>(dims[axis]));
    Dims shape(dims.size(), 1);
    shape[axis] = dims[axis];
    std::int64_t at = *start[axis]->data<std::int64_t>();
    for (std::int64_t& offset : line) {
      offset = at >= 0 && at < x.dims()[axis] ? at * strides[axis] : Offsets::outside;
      at = arithmetic::add<std::int64_t>(at, 1);
    }
    offsets.add(line, shape);
  }
  return offsets.gather(x.type(), x.data<std::byte>());
}

namespace {

// An array seen as [outer, extent, inner] around an axis.
struct Around {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  Around(const Dims& dims, int axis) : extent(dims[static_cast<std::size_t>(axis)]) {
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= dims[static_cast<std::size_t>(i)];
    }
  }
};

// Folds in the order of the axis.
template <class T, class F>
void fold(const Around& shape, const T* in, T* out, T first, F f) {
  std::fill_n(out, shape.outer * shape.inner, first);
  for (std::int64_t o = 0; o < shape.outer; ++o, out += shape.inner) {
    for (std::int64_t k = 0; k < shape.extent; ++k, in += shape.inner) {
      for (std::int64_t i = 0; i < shape.inner; ++i) out[i] = f(out[i], in[i]);
    }
  }
}

// Folds in blocks along the axis; equal to fold if there is a single block.
template <Float T>
void sum(const Around& shape, const T* in, T* out) {
  const std::int64_t row = shape.inner;
  std::vector<double> totals(static_cast<std::size_t>(row));
  std::vector<T> block(static_cast<std::size_t>(row));
  for (std::int64_t o = 0; o < shape.outer; ++o, out += row) {
    std::fill(totals.begin(), totals.end(), 0.0);
    for (std::int64_t k = 0; k < shape.extent; k += sum_block) {
      const std::int64_t count = std::min(sum_block, shape.extent - k);
      std::fill(block.begin(), block.end(), T{0});
      for (std::int64_t j = 0; j < count; ++j, in += row)
        std::transform(in, in + row, block.begin(), block.begin(), std::plus());
      std::transform(block.begin(), block.end(), totals.begin(), totals.begin(), std::plus<double>());
    }
    std::transform(totals.begin(), totals.end(), out, [](double total) { return static_cast<T>(total); });
  }
}

template <class T>
void reduce_to(Code code, const Around& shape, const T* in, T* out) {
  using Limits = std::numeric_limits<T>;
  constexpr T greatest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  constexpr T least = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
  switch (code) {
    case Code::reduce_sum:
      if constexpr (Float<T>) return sum(shape, in, out);
      return fold(shape, in, out, T{0}, [](T a, T b) { return arithmetic::add(a, b); });
    case Code::reduce_product:
      return fold(shape, in, out, T{1}, [](T a, T b) { return arithmetic::mul(a, b); });
    case Code::reduce_max:
      return fold(shape, in, out, least, [](T a, T b) { return arithmetic::max(a, b); });
    default:
      return fold(shape, in, out, greatest, [](T a, T b) { return arithmetic::min(a, b); });
  }
}

template <class T>
void argmax_to(const Around& shape, const T* in, std::int64_t* out) {
  const auto is_nan = [](T x) { return x != x; };  // NOLINT(misc-redundant-expression)
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t i = 0; i < shape.inner; ++i) {
      const T* line = in + o * shape.extent * shape.inner + i;
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < shape.extent; ++k) {
        const T here = line[k * shape.inner];
        const T before = line[best * shape.inner];
        if (here > before || (is_nan(here) && !is_nan(before))) best = k;
      }
      out[o * shape.inner + i] = best;
    }
  }
}

}  // namespace

Value reduce(const Op& op, const Array& x) {
  Dims dims = x.dims();
  dims[static_cast<std::size_t>(op.axis)] = 1;
  auto result = std::make_shared<Array>(op.type, std::move(dims));
  const Around shape(x.dims(), op.axis);
  with_type(x.type(), [&]<class T>(T) {
    if constexpr (!std::same_as<T, bool>) {
      if (op.code == Code::argmax)
        argmax_to(shape, x.data<T>(), result->data<std::int64_t>());
      else
        reduce_to(op.code, shape, x.data<T>(), result->data<T>());
    }
  });
  return result;
}

namespace {

// One matrix: sum += a * b, in the order of k.
template <class T>
void multiply(const T* a, const T* b, T* sum, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  for (std::int64_t m = 0; m < rows; ++m, sum += columns) {
    for (std::int64_t k = 0; k < inner; ++k) {
      const T factor = a[m * inner + k];
      const T* row = b + k * columns;
      for (std::int64_t n = 0; n < columns; ++n) sum[n] = arithmetic::add(sum[n], arithmetic::mul(factor, row[n]));
    }
  }
}

// Repeats the batch axes to those of `like`.
Value batched(const Value& x, const Dims& like) {
  Dims dims = like;
  std::copy_n(x->dims().end() - 2, 2, dims.end() - 2);
  return expanded(x, dims);
}

}  // namespace

Value mma(const Value& a, const Value& b, const Value& c) {
  const Dims& dims = c->dims();
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t columns = dims.back();
  const std::int64_t inner = a->dims().back();
  const Value x = batched(a, dims);
  const Value y = batched(b, dims);
  auto result = std::make_shared<Array>(c->type(), dims);
  with_type(c->type(), [&]<class T>(T) {
    if constexpr (!std::same_as<T, bool>) {
      std::copy_n(c->data<T>(), c->size(), result->data<T>());
      if (result->size() == 0) return;
      for (std::int64_t i = 0; i < result->size() / (rows * columns); ++i)
        multiply(x->data<T>() + i * rows * inner, y->data<T>() + i * inner * columns,
                 result->data<T>() + i * rows * columns, rows, inner, columns);
    }
  });
  return result;
}

}  // namespace tessera::ir
