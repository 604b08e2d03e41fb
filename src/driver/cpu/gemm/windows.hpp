// Convolution in terms of matrix products. Included by engine_*.cpp; see kernel.hpp.
#pragma once

#include "driver/cpu/gemm/blocks.hpp"

namespace tessera::driver::cpu {
namespace {

template <int bytes>
struct BitsOf;
template <>
struct BitsOf<2> {
  using Type = std::uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = std::uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = std::uint64_t;
};

// Packs panels of the matrix that Windows describes, as FromMatrix does for a matrix in memory.
template <class Kind>
struct FromWindows {
  using Element = typename Kind::Element;
  using Packed = typename Kind::Packed;
  using Bits = typename BitsOf<sizeof(Packed)>::Type;
  static constexpr Index width = tile_columns<Kind>;

  const Conv2d& conv;
  const Element* image;
  Index first;

  static RightInPlace<Kind> in_place(Index, Index) { return {}; }

  // Where the windows of a panel's columns start: in the padded image, and as an offset in a channel.
  struct Panel {
    Index top[width];
    Index left[width];
    Index offset[width];
    Index columns;
    bool is_run;  // whether the offsets are consecutive, so that one load gets them all
  };
  // The pixels under one weight: the offset for each column, and a mask that is 0 in the padding.
  struct Tap {
    Index offset[width];
    Bits mask[width];
    bool is_run;
  };

  void operator()(Packed* to, Index k, Index depth, Index j, Index columns) const {
    const Panel panel = panel_at(first + j, columns);
    const Index taps = conv.h.kernel * conv.w.kernel;
    const Index plane = conv.h.size * conv.w.size;
    // The offsets are the same in every channel, so they are computed once.
    for (Index t = 0; t < smaller(taps, depth); ++t) {
      const Index weight = (k + t) % taps;
      const Tap tap = tap_at(panel, weight / conv.w.kernel, weight % conv.w.kernel);
      for (Index row = t; row < depth; row += taps) {
        pack_row(to + row * width, image + (k + row) / taps * plane, tap);
      }
    }
  }

  Panel panel_at(Index j, Index columns) const {
    Panel panel;
    panel.columns = columns;
    panel.is_run = true;
    const Index row_length = conv.w.output();
    Index y = j / row_length;
    Index x = j % row_length;
    for (Index c = 0; c < columns; ++c) {
      panel.top[c] = y * conv.h.stride - conv.h.padding;
      panel.left[c] = x * conv.w.stride - conv.w.padding;
      panel.offset[c] = panel.top[c] * conv.w.size + panel.left[c];
      panel.is_run = panel.is_run && panel.offset[c] == panel.offset[0] + c;
      if (++x == row_length) {
        x = 0;
        ++y;
      }
    }
    return panel;
  }

  Tap tap_at(const Panel& panel, Index i, Index j) const {
    Tap tap;
    const Index down = i * conv.h.dilation;
    const Index right = j * conv.w.dilation;
    for (Index c = 0; c < width; ++c) {
      const bool is_inside =
          c < panel.columns && inside(panel.top[c] + down, conv.h.size) && inside(panel.left[c] + right, conv.w.size);
      tap.mask[c] = is_inside ? static_cast<Bits>(-1) : Bits{0};
      tap.offset[c] = is_inside ? panel.offset[c] + down * conv.w.size + right : 0;
    }
    // Masked pixels are loaded too, so their offset must be inside the channel.
    const Index begin = panel.offset[0] + down * conv.w.size + right;
    tap.is_run = panel.is_run && begin >= 0 && begin + width <= conv.h.size * conv.w.size;
    if (tap.is_run) tap.offset[0] = begin;
    return tap;
  }

  static bool inside(Index at, Index size) { return at >= 0 && at < size; }

  [[gnu::always_inline]] static void pack_row(Packed* to, const Element* channel, const Tap& tap) {
    if (!tap.is_run) {
      for (Index c = 0; c < width; ++c) to[c] = tap.mask[c] != 0 ? channel[tap.offset[c]] : Element{0};
      return;
    }
    using V = typename Kind::V;
    using Mask = Vector<Bits, Kind::lanes>;
    for (int v = 0; v < Kind::vectors; ++v) {
      const auto from = load<Vector<Element, Kind::lanes>>(channel + tap.offset[0] + v * Kind::lanes);
      const V value = __builtin_convertvector(from, V);
      store(to + v * Kind::lanes,
            reinterpret_cast<V>(reinterpret_cast<Mask>(value) & load<Mask>(tap.mask + v * Kind::lanes)));
    }
  }
};

// Rows of an image, padded and split into `stride` phases: the pixels for neighbouring outputs are adjacent, so all
// strides are computed alike and without checking borders.
template <class Kind>
struct Band {
  using Element = typename Kind::Element;
  using Packed = typename Kind::Packed;
  // Outputs of a row computed at a time.
  static constexpr Index max_columns = 1024;
  // Bytes of a band in the L1 cache, if a row's windows fit.
  static constexpr Index bytes = Index{16} << 10;

  const Conv2d& conv;
  Index phase;  // length of a phase
  Index line;   // length of all phases
  Index max_rows;
  Packed* data;

  explicit Band(const Conv2d& of) : conv(of) {
    const Index columns = smaller(max_columns, conv.w.output());
    phase = quotient_up(columns, Kind::lanes) * Kind::lanes + (conv.w.kernel - 1) * conv.w.dilation / conv.w.stride;
    line = phase * conv.w.stride;
    const Index window = (conv.h.kernel - 1) * conv.h.dilation + 1;
    const Index lines = bytes / (line * Index{sizeof(Packed)});
    max_rows = lines <= window ? 1 : (lines - window) / conv.h.stride + 1;
    data = reinterpret_cast<Packed*>(scratch(((max_rows - 1) * conv.h.stride + window) * line * sizeof(Packed)));
  }

  // Loads the pixels that outputs [y, y + rows) need, from column x on.
  void pack(const Element* image, Index y, Index rows, Index x) const {
    const Index top = y * conv.h.stride - conv.h.padding;
    const Index lines = (rows - 1) * conv.h.stride + (conv.h.kernel - 1) * conv.h.dilation + 1;
    const Index left = x * conv.w.stride - conv.w.padding;
    for (Index i = 0; i < lines; ++i) {
      const bool is_inside = top + i >= 0 && top + i < conv.h.size;
      for (Index p = 0; p < conv.w.stride; ++p) {
        Packed* const to = data + i * line + p * phase;
        // The pixels that are not padding.
        const Index begin = is_inside ? limited(-(left + p)) : 0;
        const Index end = is_inside ? limited(conv.w.size - (left + p)) : 0;
        const Element* const from = image + (is_inside ? (top + i) * conv.w.size + left + p : 0);
        for (Index q = 0; q < begin; ++q) to[q] = 0;
        for (Index q = begin; q < end; ++q) to[q] = from[q * conv.w.stride];
        for (Index q = larger(begin, end); q < phase; ++q) to[q] = 0;
      }
    }
  }
  // The first index of a phase that is at least `distance` pixels away.
  Index limited(Index distance) const {
    return distance <= 0 ? 0 : smaller(phase, quotient_up(distance, conv.w.stride));
  }

  // Outputs [x, x + vectors * lanes) of a row of the band.
  template <int vectors>
  [[gnu::always_inline]] void compute(Index row, Index x, const Element* weights, Element bias,
                                      Element (&to)[vectors * Kind::lanes]) const {
    using V = typename Kind::V;
    typename Kind::Sum sums[vectors] = {};
    for (Index i = 0; i < conv.h.kernel; ++i) {
      const Packed* const from = data + (row * conv.h.stride + i * conv.h.dilation) * line + x;
      for (Index j = 0; j < conv.w.kernel; ++j) {
        const Index at = j * conv.w.dilation;
        const Packed* const tap = from + at % conv.w.stride * phase + at / conv.w.stride;
        const V weight = splat<V>(static_cast<Packed>(weights[i * conv.w.kernel + j]));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) Kind::add(sums[v], weight, Kind::right(load<V>(tap + v * Kind::lanes)));
      }
    }
    using Out = Vector<Element, Kind::lanes>;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      store(to + v * Kind::lanes, __builtin_convertvector(Kind::total(sums[v]), Out) + splat<Out>(bias));
    }
  }

  void compute_row(Index row, Index columns, const Element* weights, Element bias, Element* to) const {
    constexpr int many = 4;  // independent sums, to hide the latency of a multiply-add
    Index x = 0;
    for (; x + many * Kind::lanes <= columns; x += many * Kind::lanes) {
      compute<many>(row, x, weights, bias, *reinterpret_cast<Element(*)[many * Kind::lanes]>(to + x));
    }
    for (; x < columns; x += Kind::lanes) {
      Element last[Kind::lanes];
      compute<1>(row, x, weights, bias, last);
      for (Index c = 0; c < smaller(Kind::lanes, columns - x); ++c) to[x + c] = last[c];
    }
  }
};

// Computes rows of the output, counted over all images and channels, channel by channel in bands.
template <class Kind>
void depthwise_rows(const Band<Kind>& band, Index channel, Index begin, Index end) {
  using Element = typename Kind::Element;
  const Conv2d& conv = band.conv;
  const Index output = channel % conv.outputs;
  const Index source = channel / conv.outputs * conv.channels + output / (conv.outputs / conv.channels);
  const auto* image = reinterpret_cast<const Element*>(conv.x) + source * conv.h.size * conv.w.size;
  const auto* weights = reinterpret_cast<const Element*>(conv.weights) + output * conv.h.kernel * conv.w.kernel;
  const Element bias = conv.bias == nullptr ? Element{0} : reinterpret_cast<const Element*>(conv.bias)[output];
  const Index width = conv.w.output();
  auto* y = reinterpret_cast<Element*>(conv.y) + channel * conv.h.output() * width;
  for (Index row = begin; row < end; row += band.max_rows) {
    const Index rows = smaller(band.max_rows, end - row);
    for (Index x = 0; x < width; x += Band<Kind>::max_columns) {
      band.pack(image, row, rows, x);
      const Index columns = smaller(Band<Kind>::max_columns, width - x);
      for (Index r = 0; r < rows; ++r) band.compute_row(r, columns, weights, bias, y + (row + r) * width + x);
    }
  }
}

template <class Kind>
void depthwise(const Conv2d& conv, Index begin, Index end) {
  const Band<Kind> band(conv);
  const Index height = conv.h.output();
  for (Index row = begin; row < end;) {
    const Index channel = row / height;
    const Index stop = smaller(end, (channel + 1) * height);
    depthwise_rows(band, channel, row - channel * height, stop - channel * height);
    row = stop;
  }
}

}  // namespace
}  // namespace tessera::driver::cpu
