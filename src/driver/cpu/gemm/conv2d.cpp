#include "driver/cpu/gemm/conv2d.hpp"

#include "driver/cpu/gemm/engine.hpp"

#include <algorithm>

namespace tessera::driver::cpu {

namespace {

bool is_depthwise(const Conv2d& conv) { return conv.groups == conv.channels && conv.groups > 1; }

// Whether the windows are the pixels themselves.
bool is_pointwise(const ConvAxis& axis) { return axis.kernel == 1 && axis.stride == 1 && axis.padding == 0; }

const Engine::Routines& routines(const Conv2d& conv) { return engine().routines[static_cast<std::size_t>(conv.dtype)]; }

// One batch per image and group: weights times windows.
struct Products {
  std::int64_t batches;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  explicit Products(const Conv2d& conv)
      : batches(conv.images * conv.groups),
        m(conv.outputs / conv.groups),
        n(conv.h.output() * conv.w.output()),
        k(conv.channels / conv.groups * conv.h.kernel * conv.w.kernel) {}
};

}  // namespace

Cut cut(const Conv2d& conv, unsigned workers) {
  if (is_depthwise(conv)) {
    return cut_batches(conv.images * conv.outputs * conv.h.output(),
                       double(conv.w.output()) * double(conv.h.kernel * conv.w.kernel), workers);
  }
  const Products products(conv);
  return cut(routines(conv), products.batches, products.m, products.n, products.k, true, workers);
}

void run_piece(const Conv2d& conv, const Cut& cut, std::int64_t piece) {
  const Products products(conv);
  if (products.batches == 0 || products.m == 0 || products.n == 0) return;
  if (is_depthwise(conv)) {
    const std::int64_t begin = piece * cut.batches;
    const std::int64_t rows = conv.images * conv.outputs * conv.h.output();
    return routines(conv).depthwise(conv, begin, std::min(begin + cut.batches, rows));
  }
  const std::int64_t size = static_cast<std::int64_t>(size_of(conv.dtype));
  const std::int64_t channels = conv.channels / conv.groups;
  const std::int64_t plane = conv.h.size * conv.w.size;
  const Part part(cut, products.batches, products.m, products.n, piece);
  for (std::int64_t batch = part.first; batch < part.last; ++batch) {
    const std::int64_t output = batch % conv.groups * products.m + part.row;  // the first
    const std::byte* image = conv.x + batch * channels * plane * size;
    Block block{part.rows,
                part.columns,
                products.k,
                {conv.weights + output * products.k * size, products.k, 1},
                conv.y + ((batch * products.m + part.row) * products.n + part.column) * size,
                products.n,
                conv.bias == nullptr ? nullptr : conv.bias + output * size};
    if (is_pointwise(conv.h) && is_pointwise(conv.w)) {
      routines(conv).multiply(block, {image + part.column * size, plane, 1});
    } else {
      routines(conv).convolve(block, {&conv, image, part.column});
    }
  }
}

void for_each_part(const Conv2d& conv, const Cut& cut, std::int64_t piece,
                   const std::function<void(const ResultPart&)>& f) {
  const Products products(conv);
  if (products.batches == 0 || products.m == 0 || products.n == 0) return;
  if (is_depthwise(conv)) {
    const std::int64_t height = conv.h.output(), width = conv.w.output();
    const std::int64_t begin = piece * cut.batches;
    const std::int64_t end = std::min(begin + cut.batches, conv.images * conv.outputs * height);
    for (std::int64_t line = begin; line < end; ++line) {
      f({line / height / conv.outputs, line / height % conv.outputs, 1, line % height * width, width});
    }
    return;
  }
  const Part part(cut, products.batches, products.m, products.n, piece);
  for (std::int64_t batch = part.first; batch < part.last; ++batch) {
    const std::int64_t output = batch % conv.groups * products.m;
    f({batch / conv.groups, output + part.row, part.rows, part.column, part.columns});
  }
}

}  // namespace tessera::driver::cpu
