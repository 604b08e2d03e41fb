// fft_convolve: overlap-save with radix-4 transforms.
//
// A tile is two blocks of the output. The window of the input that each block needs, the block and as many samples
// before it as the response has taps, is transformed, multiplied by the transformed response and transformed back. The
// two windows are the real and the imaginary part of one complex signal: the response is real, so they stay apart. The
// windows have two to eight times as many samples as the response has taps, so a sample costs about log(taps).
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"
#include "kernels/builtin/sound.hpp"
#include "tile/trace.hpp"

#include <bit>
#include <numbers>
#include <utility>
#include <vector>

namespace tessera::kernels {

using core::text;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

// Up to this many taps are summed up directly: a transform of a window takes about as many operations a sample.
constexpr std::int64_t most_direct = 64;
// Windows of 2^24 samples: their indices are exact in f32.
constexpr std::int64_t most_taps = std::int64_t{1} << 22;

struct Complex {
  Tile re, im;

  friend Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
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
  std::string variant() const { return text("stages ", stages, " overlap ", overlap); }
};

Window window_for(std::int64_t taps) {
  Window window{0, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(taps)))};
  while (window.size() < 2 * window.overlap) ++window.stages;
  return window;
}

// Transforms in an order of their own, in which each stage reads and writes the same places: it takes the elements i,
// i + size/4, i + size/2 and i + 3 size/4 to 4 i … 4 i + 3. That leaves the frequencies in an order that only
// backward() has to understand.
class Transform {
 public:
  explicit Transform(const Window& window) : window_(window), waves_(cosines()) {}

  // Stage k of the transform of values, all of which have the window's size: its element at each index.
  Complex forward_stage(const Complex& values, const Index& k) const {
    const Tile index = tile::cast<std::int32_t>(tile::iota({size()}, 0));
    const Tile i = index >> 2, r = index & 3;
    const auto part = [&](std::int64_t quarter) { return element(values, i + quarter * (size() / 4)); };
    // The sum of part(q) (-i)^(q r), by halves.
    const Complex even = part(0) + turned(part(2), (2 * r) & 3), odd = part(1) + turned(part(3), (2 * r) & 3);
    return (even + turned(odd, (4 - r) & 3)) * wave(0 - r * first_of(i, k));
  }

  // The inverse of stage k, up to a factor of 4.
  Complex backward_stage(const Complex& values, const Index& k) const {
    const Tile index = tile::cast<std::int32_t>(tile::iota({size()}, 0));
    const Tile i = index & static_cast<int>(size() / 4 - 1), q = index >> (2 * window_.stages - 2);
    const Complex once = wave(first_of(i, k)), twice = once * once;
    const auto part = [&](int r) { return element(values, (i << 2) + r); };
    const Complex even = part(0) + turned(part(2) * twice, (2 * q) & 3);
    const Complex odd = part(1) * once + turned(part(3) * (once * twice), (2 * q) & 3);
    return even + turned(odd, q);
  }

 private:
  int size() const { return static_cast<int>(window_.size()); }

  static Complex element(const Complex& values, const Tile& at) {
    const Tile index = tile::cast<std::int64_t>(at);
    return {tile::gather(values.re, {index}), tile::gather(values.im, {index})};
  }

  // The number of the first of the elements that stage k treats like i: 4^k of them.
  static Tile first_of(const Tile& i, const Index& k) {
    const Tile shift = 2 * tile::cast<std::int32_t>(k);
    return (i >> shift) << shift;
  }

  Tile cosines() const {
    const Tile turn = tile::cast<float>(tile::iota({size()}, 0)) / static_cast<float>(size());
    // Of an angle of at most an eighth of a turn, where rounding it costs little.
    const Tile quarter = tile::floor(turn * 4.0f + 0.5f);
    const Tile angle = (turn - quarter * 0.25f) * (2 * std::numbers::pi_v<float>);
    const Tile number = tile::cast<std::int32_t>(quarter) & 3;
    const Tile near = tile::select((number & 1) == 1, tile::sin(angle), tile::cos(angle));
    return tile::select(((number + 1) & 2) == 2, -near, near);
  }

  // exp(2 pi i number / size), for numbers of any sign.
  Complex wave(const Tile& number) const {
    const auto cosine = [&](const Tile& of) {
      return tile::gather(waves_, {tile::cast<std::int64_t>(of & (size() - 1))});
    };
    return {cosine(number), cosine(number - size() / 4)};
  }

  Window window_;
  Tile waves_;
};

// The two blocks of z's tile as real and imaginary part, in windows whose first `overlap` samples are of no use.
Complex convolved(const Output& z, const Window& window) {
  const int size = static_cast<int>(window.size());
  const Transform transform(window);
  const Tile place = tile::iota({size}, 0);
  const Index channel = z.block(0), start = z.block(1) * window.tile() - window.overlap;
  const auto sample = [&](std::int64_t block) {
    return Input(0).at({channel, start + place + block * window.block()});
  };
  const bool has_channels = Input(1).rank() == 2;
  const Tile response = has_channels ? Input(1).at({channel, place}) : Input(1).at({place});
  const Tile none = tile::broadcast(tile::constant(0.0f), {size});
  const std::vector<Tile> spectra = tile::detail::loop(
      window.stages, {sample(0), sample(1), response, none}, [&](const Index& k, const std::vector<Tile>& values) {
        const Complex x = transform.forward_stage({values[0], values[1]}, k);
        const Complex h = transform.forward_stage({values[2], values[3]}, k);
        return std::vector<Tile>{x.re, x.im, h.re, h.im};
      });
  const Complex product = Complex{spectra[0], spectra[1]} * Complex{spectra[2], spectra[3]};
  const std::vector<Tile> result =
      tile::detail::loop(window.stages, {product.re, product.im}, [&](const Index& k, const std::vector<Tile>& values) {
        const Complex y = transform.backward_stage({values[0], values[1]}, (window.stages - 1) - k);
        return std::vector<Tile>{y.re, y.im};
      });
  return {result[0], result[1]};
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
    return tile::gather(of, {index + window.overlap}) / static_cast<float>(window.size());
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
