// fft_convolve: overlap-save with radix-4 transforms.
//
// A tile is two blocks of the output. The window of the input that each block needs, the block and as many samples
// before it as the response has taps, is transformed, multiplied by the transformed response and transformed back. The
// two windows are the real and the imaginary part of one complex signal: the response is real, so they stay apart. The
// windows have two to eight times as many samples as the response has taps, so a sample costs about log(taps).
//
// A window is a matrix: its columns are transformed, then its rows, which were made columns in between. So all elements
// of a row are treated alike, and vectors run along the rows.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"
#include "kernels/builtin/sound.hpp"
#include "tile/trace.hpp"

#include <bit>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

using core::text;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

// Up to this many taps are summed up directly: transforms take as long as a direct sum of some 400 taps.
constexpr std::int64_t most_direct = 256;
// Windows of 2^24 samples: their indices are exact in f32.
constexpr std::int64_t most_taps = std::int64_t{1} << 22;

struct Complex {
  Tile re, im;

  friend Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator*(const Complex& a, const Complex& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// Times i^quarters, for quarters of 0 to 3.
Complex turned(const Complex& a, const Tile& quarters) {
  const Tile is_odd = (quarters & 1) == 1;
  const Tile re = tile::select(is_odd, a.im, a.re), im = tile::select(is_odd, a.re, a.im);
  return {tile::select(((quarters + 1) & 2) == 2, -re, re), tile::select(quarters >= 2, -im, im)};
}

// The sizes of a transform: constants of the program.
struct Window {
  int stages;            // the window has 4^stages samples
  std::int64_t overlap;  // at its beginning: at least as many as the response has taps, less one

  std::int64_t size() const { return std::int64_t{1} << (2 * stages); }
  std::int64_t block() const { return size() - overlap; }  // of the output
  std::int64_t tile() const { return 2 * block(); }
  int row_stages() const { return stages / 2; }
  int column_stages() const { return stages - row_stages(); }
  int columns() const { return 1 << (2 * row_stages()); }
  std::string variant() const { return text("stages ", stages, " overlap ", overlap); }
};

Window window_for(std::int64_t taps) {
  Window window{2, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(taps)))};
  while (window.size() < 2 * window.overlap) ++window.stages;
  return window;
}

// exp(2 pi i turns), for 0 <= turns <= 1.
Complex wave(const Tile& turns) {
  // Of an angle of at most an eighth of a turn, where rounding it costs little.
  const Tile quarter = tile::floor(turns * 4.0f + 0.5f);
  const Tile angle = (turns - quarter * 0.25f) * (2 * std::numbers::pi_v<float>);
  return turned({tile::cos(angle), tile::sin(angle)}, tile::cast<std::int32_t>(quarter) & 3);
}

Tile places(int count) { return tile::cast<std::int32_t>(tile::iota({count, 1}, 0)); }

// Transforms the columns of matrices with 4^stages rows, in an order in which each stage reads and writes the same
// places: it takes the rows i, i + size/4, i + size/2 and i + 3 size/4 to 4 i … 4 i + 3. That leaves the frequencies in
// the order of their reversed digits.
class Transform {
 public:
  Transform(int stages, int columns)
      : stages_(stages),
        columns_(columns),
        waves_(wave(tile::cast<float>(places(size())) / static_cast<float>(size()))) {}

  int stages() const { return stages_; }
  int size() const { return 1 << (2 * stages_); }

  // Stage k of the transform.
  Complex forward_stage(const Complex& values, const Index& k) const {
    const Tile index = places(size()), i = index >> 2, r = index & 3;
    const auto part = [&](int quarter) { return row(values, i + quarter * (size() / 4)); };
    // The sum of part(q) (-i)^(q r), by halves.
    const Complex even = part(0) + turned(part(2), (2 * r) & 3), odd = part(1) + turned(part(3), (2 * r) & 3);
    return (even + turned(odd, (4 - r) & 3)) * wave_of(0 - r * first_of(i, k));
  }

  // The inverse of stage k, up to a factor of 4.
  Complex backward_stage(const Complex& values, const Index& k) const {
    const Tile index = places(size()), i = index & (size() / 4 - 1), q = index >> (2 * stages_ - 2);
    const Complex once = wave_of(first_of(i, k)), twice = once * once;
    const auto part = [&](int r) { return row(values, (i << 2) + r); };
    const Complex even = part(0) + turned(part(2) * twice, (2 * q) & 3);
    const Complex odd = part(1) * once + turned(part(3) * (once * twice), (2 * q) & 3);
    return even + turned(odd, q);
  }

  // The frequency of each row.
  Tile frequencies() const {
    const Tile index = places(size());
    Tile reversed = index & 3;
    for (int digit = 1; digit < stages_; ++digit) reversed = (reversed << 2) | ((index >> (2 * digit)) & 3);
    return reversed;
  }

 private:
  Complex row(const Complex& values, const Tile& at) const {
    const Tile index = tile::cast<std::int64_t>(at), column = tile::iota({1, columns_}, 1);
    return {tile::gather(values.re, {index, column}), tile::gather(values.im, {index, column})};
  }

  // The first of the rows that stage k treats like row i: 4^k of them.
  static Tile first_of(const Tile& i, const Index& k) {
    const Tile shift = 2 * tile::cast<std::int32_t>(k);
    return (i >> shift) << shift;
  }

  // exp(2 pi i number / size), for numbers of any sign.
  Complex wave_of(const Tile& number) const {
    const Tile index = tile::cast<std::int64_t>(number & (size() - 1));
    return {tile::gather(waves_.re, {index, 0}), tile::gather(waves_.im, {index, 0})};
  }

  int stages_, columns_;
  Complex waves_;  // [size,1]
};

// All matrices as one list of tiles, as loops carry them.
std::vector<Tile> listed(const std::vector<Complex>& matrices) {
  std::vector<Tile> tiles;
  for (const Complex& one : matrices) tiles.insert(tiles.end(), {one.re, one.im});
  return tiles;
}
std::vector<Complex> paired(const std::vector<Tile>& tiles) {
  std::vector<Complex> matrices;
  for (std::size_t i = 0; i < tiles.size(); i += 2) matrices.push_back({tiles[i], tiles[i + 1]});
  return matrices;
}

using Matrices = std::vector<Complex>;

// Each of the matrices, changed.
Matrices each(const Matrices& matrices, const std::function<Complex(const Complex&)>& changed) {
  Matrices result;
  for (const Complex& one : matrices) result.push_back(changed(one));
  return result;
}

Matrices forward(const Transform& columns, const Matrices& matrices) {
  return paired(
      tile::detail::loop(columns.stages(), listed(matrices), [&](const Index& k, const std::vector<Tile>& carried) {
        return listed(each(paired(carried), [&](const Complex& one) { return columns.forward_stage(one, k); }));
      }));
}

Complex backward(const Transform& columns, const Complex& matrix) {
  return paired(tile::detail::loop(columns.stages(), listed({matrix}),
                                   [&](const Index& k, const std::vector<Tile>& carried) {
                                     return listed(
                                         {columns.backward_stage(paired(carried).front(), (columns.stages() - 1) - k)});
                                   }))
      .front();
}

Complex transposed(const Complex& matrix) { return {tile::transpose(matrix.re), tile::transpose(matrix.im)}; }

// The two blocks of z's tile as real and imaginary part of a matrix, of which the first `overlap` samples are of no
// use.
Complex convolved(const Output& z, const Window& window) {
  const int columns = window.columns(), rows = static_cast<int>(window.size()) / columns;
  const Transform first(window.column_stages(), columns), second(window.row_stages(), rows);
  const Tile place = tile::iota({rows, columns}, 0) * columns + tile::iota({rows, columns}, 1);
  const Index channel = z.block(0), start = z.block(1) * z.tile_dim(1) - window.overlap;
  const auto sample = [&](std::int64_t block) {
    return Input(0).at({channel, start + place + block * window.block()});
  };
  const bool has_channels = Input(1).rank() == 2;
  const Tile response = has_channels ? Input(1).at({channel, place}) : Input(1).at({place});
  const Tile none = tile::broadcast(tile::constant(0.0f), {rows, columns});

  // Between the columns and the rows, element n of the row of frequency f turns by f n / size.
  const Tile turns = tile::cast<float>(first.frequencies()) * tile::cast<float>(tile::iota({1, columns}, 1)) /
                     static_cast<float>(window.size());
  const Complex back = wave(turns), there = {back.re, -back.im};
  const Matrices halfway = forward(first, {{sample(0), sample(1)}, {response, none}});
  const Matrices spectra = forward(second, each(halfway, [&](const Complex& one) { return transposed(one * there); }));
  return backward(first, transposed(backward(second, spectra[0] * spectra[1])) * back);
}

// x and its convolution, mixed by the scalar `wet`.
void store_mixture(const Output& z, const Tile& wet_sound) {
  const Tile wet = tile::detail::scalar(0);
  const Tile dry_sound = Input(0).at({z.index(0), z.index(1)});
  // Not x + (y - x) * wet: with wet = 1 the result must not depend on x alone.
  z.store(dry_sound * (1.0f - wet) + wet_sound * wet);
}

void transform_body(const Window& window) {
  const Output z;
  const Complex windows = convolved(z, window);
  const Tile at = tile::iota({1, z.tile_dim(1)}, 1);
  const auto element = [&](const Tile& of, const Tile& index) {
    const Tile place = index + window.overlap;
    return tile::gather(of, {place / window.columns(), place % window.columns()}) / static_cast<float>(window.size());
  };
  const Tile is_first = at < window.block();
  store_mixture(z, tile::select(is_first, element(windows.re, at), element(windows.im, at - window.block())));
}

void direct_body() {
  const Output z;
  const Input response(1);
  const bool has_channels = response.rank() == 2;
  const Tile t = z.index(1);
  const Index taps = response.dim(has_channels ? 1 : 0);
  const Tile sum = tile::loop(taps, tile::zeros_like(z), [&](const Index& k, const Tile& before) {
    const Tile tap = has_channels ? response.at({z.index(0), k}) : response.at({k});
    return before + Input(0).at({z.index(0), t - k}) * tap;
  });
  store_mixture(z, sum);
}

// The response as the program sees it: [taps] or [channels,taps].
Shape checked_response(const Call& call, const Sound& sound) {
  const Sound response = checked_sound(call, 1);
  const Shape& shape = *call.inputs[1].shape;
  const bool is_common = shape.rank() == 1;
  if (response.samples < 1 || response.samples > most_taps || (!is_common && response.channels != sound.channels)) {
    fail(call, Errc::shape_mismatch,
         text("input 1 (response) must be [taps] or [", sound.channels, ",taps] with 1 to ", most_taps, " taps, got ",
              to_string(f32, shape)));
  }
  return is_common ? shape : response.rows();
}

}  // namespace

Lowering lower_fft_convolve(const Call& call) {
  const Sound sound = checked_sound(call, 0);
  const Shape response = checked_response(call, sound);
  const std::int64_t taps = response[response.rank() - 1];
  const Shape& out = *call.output.shape;
  const bool is_complete = out.rank() > 0 && out[out.rank() - 1] == sound.samples + taps - 1;
  checked_sound_but_length(call, is_complete ? sound.samples + taps - 1 : sound.samples);
  Lowering lowering;
  lowering.shapes = {Sound(out).rows(), sound.rows(), response};
  lowering.scalars = {{"wet", f32, call["wet"]}};
  if (taps <= most_direct) {
    lowering.variant = "direct";
    lowering.body = direct_body;
    return lowering;
  }
  const Window window = window_for(taps);
  lowering.tile = {1, window.tile()};
  lowering.variant = window.variant();
  lowering.body = [window] { transform_body(window); };
  return lowering;
}

}  // namespace tessera::kernels
