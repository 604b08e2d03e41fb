// Every point from its surroundings. Images are seen as [H,W*C]: a neighbour is a whole number of pixels away, so the
// channels need no care, and rows are long.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/builtin/image.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

using Kind = ParamSpec::Kind;

// Sums over windows of u8 that are this large fit 31 bits.
constexpr int max_radius = 1024;

// --- sums

Index offset(int i) { return tile::constant<std::int64_t>(i); }

// part(0) + … + part(count - 1). add(sum, i) is sum + part(i).
//
// As one expression where that is short: so many parts. Else it is a loop over pieces of it: written down as a whole
// the program would take long to compile, and one step for each part is more steps than some devices take. What a piece
// comes to is added as one number, so that many floats lose little.
template <class Part, class Add>
Tile sum_of(int count, int is_short, const Part& part, const Add& add) {
  constexpr int most_pieces = 32;
  const auto sum_from = [&](const Index& first, int parts) {
    Tile sum = part(first);
    for (int i = 1; i < parts; ++i) sum = add(sum, first + i);
    return sum;
  };
  if (count <= 2 * is_short) return sum_from(offset(0), count);
  const int length = std::max(is_short, (count - 1) / most_pieces);
  const int pieces = (count - 1) / length, rest = count - pieces * length;
  return tile::loop(pieces, sum_from(offset(0), rest),
                    [&](const Index& k, const Tile& before) { return before + sum_from(k * length + rest, length); });
}

// --- Gaussian

// Symmetric weights, from the centre outwards: whole 256ths, which sum to 256, for u8, f32 for f32.
struct Weights {
  std::vector<std::uint32_t> fixed;
  std::vector<float> floats;
  double falloff = 0;  // of floats: number i is exp(-falloff * i * i) times the first one
};

// How a program sees weights: it is made for so many of them, and its first scalars tell what they are. One alone needs
// none. Few of them are a scalar each. More are a tile that the program computes from fewer scalars, and its sums are
// loops over it.
struct Taps {
  static constexpr int most_scalars = 64;
  static constexpr std::uint32_t most_beside_centre = 127;
  // All 256 of 256ths: on either side of the centre 128, each with a place of its own from 0 to the radius. Two places
  // share a scalar.
  static constexpr int places = 128, place_scalars = places / 2, place_bits = 16;

  bool is_fixed = false;
  bool is_flat = false;  // the centre's is not more than any other may be
  int radius = 0;

  explicit Taps(const Weights& weights)
      : is_fixed(!weights.fixed.empty()),
        is_flat(is_fixed && weights.fixed[0] <= most_beside_centre),
        radius(static_cast<int>(std::max(weights.fixed.size(), weights.floats.size())) - 1) {}

  bool are_many() const { return radius > most_scalars; }
  int scalars() const {
    if (are_many()) return is_fixed ? place_scalars : 2;
    return radius == 0 ? 0 : radius + 1;
  }
  std::string variant() const { return text("radius ", radius, is_flat ? " flat" : ""); }
  // As u32 or f32, of few. The compiler has to see what the sums of few of them fit: 512 times one beside the centre,
  // of which there are two, 16 bits, and those of any two bytes.
  Tile operator[](int i) const {
    if (radius == 0) return is_fixed ? tile::constant<std::uint32_t>(256) : tile::constant(1.0f);
    const Tile weight = tile::detail::scalar(i);
    if (!is_fixed) return weight;
    const Tile whole = tile::cast<std::uint32_t>(weight);
    return i == 0 && !is_flat ? whole : tile::min(whole, static_cast<int>(most_beside_centre));
  }
  // All of them, of many. Of u8 the centre's is half of it: it is added from both sides, as the others are.
  Tile all() const {
    const Tile place = tile::iota({radius + 1}, 0);
    if (!is_fixed) {
      const Tile distance = tile::cast<float>(place);
      const Tile weight = tile::detail::scalar(0) * tile::exp(-tile::detail::scalar(1) * (distance * distance));
      return tile::select(place == 0, weight * 0.5f, weight);
    }
    const Tile at = tile::cast<std::int32_t>(place);
    Tile count = tile::constant<std::uint32_t>(0);
    for (int i = 0; i < place_scalars; ++i) {
      const Tile both = tile::detail::scalar(i);
      for (const Tile& one : {both & ((1 << place_bits) - 1), both >> place_bits}) {
        count = count + tile::select(at == one, tile::constant<std::uint32_t>(1), tile::constant<std::uint32_t>(0));
      }
    }
    return count;
  }
};

// Many of them, of u8: see Taps::places.
std::vector<Lowering::Scalar> place_scalars_of(const std::vector<std::uint32_t>& weights) {
  std::vector<std::int64_t> places(weights[0] / 2, 0);
  for (std::size_t i = 1; i < weights.size(); ++i)
    places.insert(places.end(), weights[i], static_cast<std::int64_t>(i));
  std::vector<Lowering::Scalar> scalars;
  for (std::size_t i = 0; i < places.size(); i += 2) {
    scalars.push_back(integer_scalar("places", places[i] | places[i + 1] << Taps::place_bits, s32));
  }
  return scalars;
}

// Two or more of them: each is less than 256.
std::vector<Lowering::Scalar> scalars_of(const Weights& weights) {
  const Taps taps(weights);
  std::vector<Lowering::Scalar> scalars;
  if (taps.scalars() == 0) return scalars;
  if (taps.are_many()) {
    if (taps.is_fixed) return place_scalars_of(weights.fixed);
    return {number_scalar("weight", weights.floats[0]), number_scalar("falloff", weights.falloff)};
  }
  for (const std::uint32_t weight : weights.fixed) scalars.push_back(integer_scalar("weight", weight, u8));
  for (const float weight : weights.floats) scalars.push_back(number_scalar("weight", weight));
  return scalars;
}

// Weights of 0 at the end cost time and change nothing.
template <class T>
void drop_zeros(std::vector<T>& weights) {
  while (weights.size() > 1 && weights.back() == 0) weights.pop_back();
}

// The weights must sum to 256 after rounding: from the outside in, each takes over what rounding the one before it
// left, and the centre gets the rest. That is how OpenCV rounds, whose results these are to be.
std::vector<std::uint32_t> rounded_weights(const std::vector<double>& exact) {
  std::vector<std::uint32_t> weights(exact.size());
  double left = 0;
  std::uint32_t rest = 256;
  for (std::size_t i = exact.size() - 1; i > 0; --i) {
    const double wanted = exact[i] * 256 + left;
    const double rounded = std::nearbyint(wanted);
    left = wanted - rounded;
    weights[i] = static_cast<std::uint32_t>(rounded);
    rest -= 2 * weights[i];
  }
  weights[0] = rest;
  return weights;
}

Weights gaussian_weights(DType dtype, std::int64_t radius, double sigma) {
  std::vector<double> exact = {1};
  double sum = 1;
  for (std::int64_t i = 1; i <= radius; ++i) {
    exact.push_back(std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma)));
    sum += 2 * exact.back();
  }
  for (double& weight : exact) weight *= 1 / sum;
  Weights weights;
  if (dtype == u8) {
    weights.fixed = rounded_weights(exact);
    drop_zeros(weights.fixed);
  } else {
    weights.floats.assign(exact.begin(), exact.end());
    weights.falloff = 0.5 / (sigma * sigma);
    drop_zeros(weights.floats);
  }
  return weights;
}

// The weighted sum of part(-radius) … part(radius).
template <class Part>
Tile weighted_sum(const Taps& taps, const Part& part) {
  const auto both = [&](const Index& i) { return part(-i) + part(i); };
  const auto add = [&](const Tile& sum, const Index& i, const Tile& weight) {
    return taps.is_fixed ? sum + both(i) * weight : tile::fma(both(i), weight, sum);
  };
  if (taps.are_many()) {
    const Tile weights = taps.all();
    const auto weight = [&](const Index& i) { return tile::slice(weights, {i}, {1}); };
    constexpr int short_sum = 16;
    return sum_of(
        taps.radius + 1, short_sum, [&](const Index& i) { return both(i) * weight(i); },
        [&](const Tile& sum, const Index& i) { return add(sum, i, weight(i)); });
  }
  Tile sum = part(offset(0)) * taps[0];
  for (int i = 1; i <= taps.radius; ++i) sum = add(sum, offset(i), taps[i]);
  return sum;
}

// The rows of a taller tile from `first` on, as many as the tile has.
Tile row_of(const Output& z, const Tile& rows, const Index& first) {
  return tile::slice(rows, {first, 0}, {z.tile_dim(0), z.tile_dim(1)});
}

// The tile blurred along its rows, also of those above and below it: 8.8 fixed point in u32, or f32. That weights sum
// to 256, and so what sums of them stay below, is known here and not to the compiler: a mask tells it.
Tile blurred_rows(const Output& z, const Input& x, const Taps& taps, int step) {
  const Tile rows = z.index(0, taps.radius, taps.radius);
  const Tile columns = z.index(1);
  const Tile sum = weighted_sum(taps, [&](const Index& i) {
    return tile::cast(x.at({rows, columns + i * step}, Border::clamp, step), taps.is_fixed ? u32 : f32);
  });
  return taps.is_fixed ? sum & 0xffff : sum;
}

// The tile blurred: 16.16 fixed point in u32, or f32.
Tile blurred(const Output& z, const Input& x, const Taps& taps, int step) {
  const Tile sums = blurred_rows(z, x, taps, step);
  const Tile sum = weighted_sum(taps, [&](const Index& i) { return row_of(z, sums, i + taps.radius); });
  return taps.is_fixed ? sum & 0xffffff : sum;
}

// For u8 and few weights: the tile blurred along its columns, also of those beside it, as signed numbers of 16 bits,
// 32768 less than they are. Processors multiply such pairwise, and add what comes out. As the weights sum to 256, a
// weighted sum of these is 2^23 less than it is. Bytes are multiplied pairwise too, where they have a sign and the
// weights fit theirs: then pixels count from the middle. That sums fit 16 bits is known here and not to the compiler: a
// mask tells it.
//
// Columns come first: two rows of bytes have most of their pairs in common, and 16 bits of one channel are side by side
// along a row already. Blur, sharpen and grayscale of 2160p as one took 7.6 ms, with rows first 8.1.
struct SignedColumns {
  const Output& z;
  const Taps& taps;
  const int step;
  Tile sums;

  SignedColumns(const Output& output, const Input& x, const Taps& weights, int pixel_step)
      : z(output), taps(weights), step(pixel_step), sums(sums_of(x)) {}

  static constexpr int signed_offset = 1 << 15;
  static constexpr int offset_of_sum = 256 * signed_offset;

  // Those of the pixels that are i to the right.
  Tile at(int i) const {
    return tile::slice(sums, {offset(0), offset((i + taps.radius) * step)}, {z.tile_dim(0), z.tile_dim(1)});
  }
  Tile weight(int i) const { return tile::cast<std::int32_t>(taps[i]); }
  Tile sum() const {
    Tile all = at(0) * weight(0);
    for (int i = 1; i <= taps.radius; ++i) all = all + at(-i) * weight(i) + at(i) * weight(i);
    return all;
  }

 private:
  Tile sums_of(const Input& x) const {
    const int zero = taps.is_flat ? 128 : 0;
    const Tile rows = z.index(0);
    const Tile columns = z.index(1, taps.radius * step, taps.radius * step);
    const auto pixel = [&](int i) {
      return tile::cast<std::int32_t>(x.at({rows + offset(i), columns}, Border::clamp, step)) - zero;
    };
    Tile sum = pixel(0) * weight(0);
    for (int i = 1; i <= taps.radius; ++i) sum = sum + (pixel(-i) + pixel(i)) * weight(i);
    return ((sum + 256 * zero) & 0xffff) - signed_offset;
  }
};

// The same rounded to u8, (sum + 32768) >> 16. Sums of many are not seen as signed.
Tile blurred_to_u8(const Output& z, const Input& x, const Taps& taps, int step) {
  if (taps.are_many()) return tile::cast<std::uint8_t>((blurred(z, x, taps, step) + 32768) >> 16);
  const SignedColumns columns(z, x, taps, step);
  return tile::cast<std::uint8_t>((columns.sum() + (SignedColumns::offset_of_sum + 32768)) >> 16);
}

// A lowering for an image seen as [H,W*C].
Lowering rows_lowering(const Image& image, std::string_view variant, std::function<void()> body) {
  Lowering lowering;
  lowering.shapes = {image.rows(), image.rows()};
  lowering.variant = text("step ", image.step(), " ", variant);
  lowering.body = std::move(body);
  return lowering;
}

Lowering lower_gaussian_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const std::int64_t radius = call["radius"].integer;
  const double automatic = static_cast<double>(std::max<std::int64_t>(radius, 1)) / 2;
  const double sigma = call["sigma"].is_given ? call["sigma"].number : automatic;
  const Weights weights = gaussian_weights(call.output.dtype, radius, sigma);
  const Taps taps(weights);
  Lowering lowering = rows_lowering(image, taps.variant(), [taps, step = image.step()] {
    const Output z;
    const Input x(0);
    z.store(taps.is_fixed ? blurred_to_u8(z, x, taps, step) : blurred(z, x, taps, step));
  });
  lowering.scalars = scalars_of(weights);
  return lowering;
}

// in + amount * (in - blur), half up, of an amount in 256ths and a blur with 16 bits behind the point. How that is
// computed depends on the amount alone: in the first of four ways that takes it.
struct Sharpen {
  enum class Way : std::uint8_t { one_sum, in_16_bits, in_32_bits, in_64_bits };
  Way way = Way::in_64_bits;
  std::int64_t amount = 0;  // 256ths, halved so many times:
  int halvings = 0;

  Sharpen(const Taps& taps, std::int64_t in_256ths) : amount(in_256ths) {
    if (!taps.are_many() && amount >= 0) {
      while (halvings < most_halvings && amount % 2 == 0 && amount > most_in_one_sum) {
        amount /= 2;
        ++halvings;
      }
      if (amount <= most_in_one_sum) {
        way = Way::one_sum;
        return;
      }
      amount = in_256ths;
      halvings = 0;
    }
    way = !taps.are_many() && amount >= 0 && amount <= most_in_16_bits ? Way::in_16_bits
          : std::abs(amount) <= most_in_32_bits                        ? Way::in_32_bits
                                                                       : Way::in_64_bits;
  }

  std::string variant() const { return text(" way ", static_cast<int>(way), " halvings ", halvings); }
  Tile operator()(const Output& z, const Input& x, const Taps& taps, int step) const;

 private:
  static constexpr int most_halvings = 2;
  static constexpr std::int64_t most_in_one_sum = 128;
  static constexpr std::int64_t most_in_16_bits = 511;
  static constexpr std::int64_t most_in_32_bits = 1 << 14;  // 2^14 * 255 * 256 + 255 * 65536 + 32768 < 2^31

  Tile one_sum(const Output& z, const Input& x, const Taps& taps, int step) const;
  static Tile in_16_bits(const Output& z, const Input& x, const Taps& taps, int step);
  static Tile in_32_bits(const Output& z, const Input& x, const Taps& taps, int step);
  static Tile in_64_bits(const Output& z, const Input& x, const Taps& taps, int step);
  static Tile amount_scalar(const Taps& taps) { return tile::detail::scalar(taps.scalars()); }
  static Tile amount_of(const Taps& taps, std::int64_t most) {
    return tile::min(tile::max(amount_scalar(taps), 0), static_cast<int>(most));
  }
  static Tile middle_of(const Output& z, const Input& x) { return tile::cast<std::int32_t>(tile::load_like(x, z)); }
  static Tile signed_middle(const Tile& middle) { return (middle << 8) - SignedColumns::signed_offset; }
};

// Of at most a half, or what is that when it is halved: amount * (blur - in) is a sum of products of 16 bits, which
// fits 32 with its rounding: 128 * 255 * 65536 + 2^23 - 1 < 2^31. It is subtracted, and so rounded half down.
Tile Sharpen::one_sum(const Output& z, const Input& x, const Taps& taps, int step) const {
  const Tile factor = amount_of(taps, most_in_one_sum);
  const SignedColumns columns(z, x, taps, step);
  const Tile middle = middle_of(z, x);
  const auto weight = [&](int i) { return factor * columns.weight(i); };
  Tile softer = columns.at(0) * weight(0) - signed_middle(middle) * (factor << 8);
  for (int i = 1; i <= taps.radius; ++i) softer = softer + columns.at(-i) * weight(i) + columns.at(i) * weight(i);
  const int shift = 24 - halvings;
  return tile::cast<std::uint8_t>(middle - ((softer + ((1 << (shift - 1)) - 1)) >> shift));
}

// Of less than 2, by products of numbers that fit 16 bits.
//
// Let f = in - blur, 16.16 fixed point, be 512 * high + low. The result is in + ((amount * f + 2^23) >> 24), which is
// in + ((amount * high + (amount * low >> 9) + 2^14) >> 15). Of a number of at most 16 + 9 bits high has 16, which is
// known here and not to the compiler: bounds tell it. 128 * low, 16 bits, are the lower bits of -128 * blur.
Tile Sharpen::in_16_bits(const Output& z, const Input& x, const Taps& taps, int step) {
  const Tile amount = amount_of(taps, most_in_16_bits);
  const SignedColumns columns(z, x, taps, step);
  const Tile middle = middle_of(z, x);
  Tile detail = signed_middle(middle) * 256 - columns.at(0) * columns.weight(0);
  Tile low = columns.at(0) * -(columns.weight(0) << 7);
  for (int i = 1; i <= taps.radius; ++i) {
    detail = detail - columns.at(-i) * columns.weight(i) - columns.at(i) * columns.weight(i);
    low = low + (columns.at(-i) + columns.at(i)) * -(columns.weight(i) << 7);
  }
  const Tile high = tile::min(tile::max(detail >> 9, -32768), 32767);
  const Tile part = tile::cast<std::uint32_t>(low & 65535) * tile::cast<std::uint32_t>(amount) >> 16;
  const Tile change = (high * amount + tile::cast<std::int32_t>(part) + (1 << 14)) >> 15;
  return tile::cast<std::uint8_t>(middle + change);
}

// The sum has 8 + 24 bits behind the point, of which the last 8 come of amount * low alone, low being the last 8 bits
// of blur: rounding that down does not change the sum rounded down.
Tile Sharpen::in_32_bits(const Output& z, const Input& x, const Taps& taps, int step) {
  const Tile amount = amount_scalar(taps);
  const Tile blur = blurred(z, x, taps, step);
  const Tile middle = middle_of(z, x);
  const Tile detail = (middle << 8) - tile::cast<std::int32_t>(blur >> 8);
  const Tile rest = -amount * tile::cast<std::int32_t>(blur & 255) >> 8;
  return tile::cast<std::uint8_t>(((middle << 16) + amount * detail + rest + 32768) >> 16);
}

Tile Sharpen::in_64_bits(const Output& z, const Input& x, const Taps& taps, int step) {
  const Tile amount = tile::cast<std::int64_t>(amount_scalar(taps));
  const Tile blur = blurred(z, x, taps, step);
  const Tile middle = middle_of(z, x);
  const Tile detail = tile::cast<std::int64_t>((middle << 16) - tile::cast<std::int32_t>(blur));
  const Tile sum = (tile::cast<std::int64_t>(middle) << 24) + amount * detail;
  return tile::cast<std::uint8_t>((sum + (1 << 23)) >> 24);
}

Tile Sharpen::operator()(const Output& z, const Input& x, const Taps& taps, int step) const {
  switch (way) {
    case Way::one_sum:
      return one_sum(z, x, taps, step);
    case Way::in_16_bits:
      return in_16_bits(z, x, taps, step);
    case Way::in_32_bits:
      return in_32_bits(z, x, taps, step);
    default:
      return in_64_bits(z, x, taps, step);
  }
}

Lowering lower_sharpen(const Call& call) {
  const Image image = checked_image_like_output(call);
  const Weights weights = gaussian_weights(call.output.dtype, call["radius"].integer, call["sigma"].number);
  const double amount = call["amount"].number;
  const Taps taps(weights);
  if (!taps.is_fixed) {
    Lowering lowering = rows_lowering(image, taps.variant(), [taps, step = image.step()] {
      const Output z;
      const Input x(0);
      const Tile middle = tile::load_like(x, z);
      z.store(middle + tile::detail::scalar(taps.scalars()) * (middle - blurred(z, x, taps, step)));
    });
    lowering.scalars = scalars_of(weights);
    lowering.scalars.push_back(number_scalar("amount", amount));
    return lowering;
  }
  const Sharpen sharpen(taps, static_cast<std::int64_t>(std::round(amount * 256)));
  Lowering lowering = rows_lowering(image, taps.variant() + sharpen.variant(), [taps, sharpen, step = image.step()] {
    const Output z;
    const Input x(0);
    z.store(sharpen(z, x, taps, step));
  });
  lowering.scalars = scalars_of(weights);
  lowering.scalars.push_back(integer_scalar("amount", sharpen.amount, s32));
  return lowering;
}

// --- windows

Lowering lower_box_blur(const Call& call) {
  const Image image = checked_image_like_output(call);
  const int radius = static_cast<int>(call["radius"].integer);
  return rows_lowering(image, text("radius ", radius), [radius, step = image.step()] {
    const Output z;
    const Input x(0);
    const int side = 2 * radius + 1, window = side * side;
    const Tile rows = z.index(0, radius, radius);
    const Tile columns = z.index(1);
    const auto window_sum = [&](const auto& part) {
      constexpr int short_sum = 16;
      return sum_of(side, short_sum, part, [&](const Tile& sum, const Index& k) { return sum + part(k); });
    };
    const Tile sums = window_sum([&](const Index& k) {
      return tile::cast(x.at({rows, columns + (k - radius) * step}, Border::clamp, step), z.dtype() == u8 ? u32 : f32);
    });
    const Tile sum = window_sum([&](const Index& k) { return row_of(z, sums, k); });
    constexpr int most_exact = (1 << 24) / 255;  // pixels of u8 whose sum is exact in f32
    if (z.dtype() == f32 || window <= most_exact) {
      return z.store(finished(z, as_float(sum) / static_cast<float>(window)));
    }
    const Tile half_up = tile::cast<std::int32_t>(sum + window / 2);  // a window has an odd number of pixels
    z.store(tile::cast<std::uint8_t>(small_quotient(half_up, tile::constant<std::int32_t>(window), s32)));
  });
}

Lowering lower_sobel(const Call& call) {
  const Image image = checked_image_like_output(call);
  return rows_lowering(image, "", [image] {
    const Output z;
    const Input x(0);
    const auto at = [&](int dy, int dx) {
      const Tile pixel = tile::load_shifted(x, z, {dy, dx * image.step()}, Border::clamp, image.step());
      return tile::cast(pixel, z.dtype() == u8 ? s32 : f32);
    };
    const Tile nw = at(-1, -1), n = at(-1, 0), ne = at(-1, 1), w = at(0, -1), e = at(0, 1);
    const Tile sw = at(1, -1), s = at(1, 0), se = at(1, 1);
    const Tile gx = (ne + 2 * e + se) - (nw + 2 * w + sw);
    const Tile gy = (sw + 2 * s + se) - (nw + 2 * n + ne);
    const Tile magnitude = finished(z, tile::sqrt(as_float(gx * gx + gy * gy)));
    z.store(keep_alpha(z, image, tile::load_like(x, z), magnitude));
  });
}

// --- denoise

constexpr std::int64_t max_denoise_channels = 16;  // each has values of its own in the program

struct Sums {
  std::vector<Tile> channels;  // of weight * value, each [H,W] or [H,W,1]
  Tile weights;
};

// The bilateral sums over the window. Scalars: what squared distances in space and in colour are multiplied with.
Sums bilateral_sums(const Output& z, const Input& x, const Image& image, int radius) {
  const auto values = [&](const Tile& dy, const Tile& dx) {
    std::vector<Tile> all;
    for (int c = 0; c < image.channels; ++c) {
      std::vector<Index> place = {z.index(0) + dy, z.index(1) + dx};
      if (z.rank() == 3) place.emplace_back(c);
      all.push_back(as_float(x.at(tile::Indices(place), Border::clamp)));
    }
    return all;
  };
  const std::vector<Tile> middle = values(0, 0);
  const std::size_t colors = image.has_alpha() ? 3 : middle.size();
  const auto add_tap = [&](const Index& k, std::vector<Tile> sums) {
    const int side = 2 * radius + 1;
    const Tile dy = k / side - radius, dx = k % side - radius;
    const std::vector<Tile> value = values(dy, dx);
    Tile squares = (value[0] - middle[0]) * (value[0] - middle[0]);
    for (std::size_t c = 1; c < colors; ++c) squares = squares + (value[c] - middle[c]) * (value[c] - middle[c]);
    const Tile space = as_float(dy * dy + dx * dx) * tile::detail::scalar(0);
    const Tile weight = tile::exp(space + squares * tile::detail::scalar(1));
    for (std::size_t c = 0; c < value.size(); ++c) sums[c] = sums[c] + weight * value[c];
    sums.back() = sums.back() + weight;
    return sums;
  };
  const tile::Indices extents =
      z.rank() == 3 ? tile::Indices(z.tile_dim(0), z.tile_dim(1), 1) : tile::Indices(z.tile_dim(0), z.tile_dim(1));
  const std::vector<Tile> none(middle.size() + 1, tile::broadcast(tile::constant(0.0f), extents));
  std::vector<Tile> sums = tile::detail::loop((2 * radius + 1) * (2 * radius + 1), none, add_tap);
  const Tile weights = sums.back();
  sums.pop_back();
  return {sums, weights};
}

// What a squared distance is multiplied with; finite, so that no distance has weight 1 whatever sigma is.
double exponent_factor(double sigma) {
  return std::max(-0.5 / (sigma * sigma), -static_cast<double>(std::numeric_limits<float>::max()));
}

Lowering lower_denoise(const Call& call) {
  const Image image = checked_image_like_output(call);
  if (image.channels > max_denoise_channels) {
    fail(call, Errc::shape_mismatch,
         text("input 0 (x) must have at most ", max_denoise_channels, " channels, got ",
              to_string(call.output.dtype, *call.output.shape)));
  }
  const int radius = static_cast<int>(call["radius"].integer);
  const double automatic = call.output.dtype == u8 ? 25 : 0.1;
  const double sigma_color = call["sigma_color"].is_given ? call["sigma_color"].number : automatic;
  Lowering lowering;
  lowering.shapes = {image.grid(), image.grid()};
  if (image.channels != 1) lowering.fixed = {{0, 2}, {1, 2}};
  lowering.variant = text("radius ", radius);
  lowering.scalars = {number_scalar("space", exponent_factor(call["sigma_space"].number)),
                      number_scalar("color", exponent_factor(sigma_color))};
  lowering.body = [image, radius] {
    const Output z;
    if (image.channels == 0) return z.store(0);
    const Sums sums = bilateral_sums(z, Input(0), image, radius);
    Tile sum = sums.channels.back();
    for (int c = static_cast<int>(image.channels) - 2; c >= 0; --c) {
      sum = tile::select(z.index(2) == c, sums.channels[static_cast<std::size_t>(c)], sum);
    }
    z.store(finished(z, sum / sums.weights));
  };
  return lowering;
}

ParamSpec positive(std::string name, double default_value, std::string documentation) {
  return {.name = std::move(name),
          .default_value = default_value,
          .documentation = std::move(documentation),
          .min = ParamSpec::above_zero,
          .max = ParamSpec::greatest};
}

Kernel filter(std::string name, std::vector<ParamSpec> params, std::string documentation,
              std::function<Lowering(const Call&)> lower) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = {"x"};
  kernel.params = std::move(params);
  kernel.dtypes.assign(std::begin(image_dtypes), std::end(image_dtypes));
  kernel.documentation = std::move(documentation);
  kernel.lower = std::move(lower);
  return kernel;
}

}  // namespace

std::vector<Kernel> image_filter_kernels() {
  const ParamSpec radius = {"radius", Kind::integer, 1, "pixels to each side", 0, max_radius};
  std::vector<Kernel> kernels;
  kernels.push_back(filter("gaussian_blur",
                           {radius, positive("sigma", 0.5, "in pixels; when not given max(radius, 1) / 2")},
                           "blurred with a Gaussian; u8 as OpenCV's GaussianBlur", lower_gaussian_blur));
  kernels.back().aliases = {"blur"};
  kernels.push_back(filter("sharpen",
                           {{"amount", Kind::number, 1, "how much of the detail is added", -65536, 65536},
                            radius,
                            positive("sigma", 1, "of the blur, in pixels")},
                           "x + amount * (x - gaussian_blur(x))", lower_sharpen));
  kernels.push_back(filter("box_blur", {radius}, "the mean of the square window", lower_box_blur));
  kernels.push_back(filter("sobel", {}, "how steep each channel is: sqrt(gx^2 + gy^2); alpha is kept", lower_sobel));
  kernels.push_back(filter("denoise",
                           {{"radius", Kind::integer, 2, "pixels to each side", 1, 8},
                            positive("sigma_space", 2, "how far weights reach, in pixels"),
                            positive("sigma_color", 25, "how far weights reach in colour; 0.1 for f32")},
                           "bilateral filter: the mean of near pixels of a similar colour", lower_denoise));
  return kernels;
}

}  // namespace tessera::kernels
