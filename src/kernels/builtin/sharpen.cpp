// x + amount * (x - gaussian_blur(x)).
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/gaussian.hpp"
#include "kernels/builtin/image_filters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace tessera::kernels {

using core::text;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

// in + amount * (in - blur), rounded half up, for an amount in 256ths and a blur with 16 fraction bits. The amount
// alone decides on the method: the first of four that can represent it.
struct Sharpen {
  enum class Method : std::uint8_t { one_sum, in_16_bits, in_32_bits, in_64_bits };
  Method method = Method::in_64_bits;
  std::int64_t amount = 0;  // in 256ths, halved `halvings` times
  int halvings = 0;

  Sharpen(const Taps& taps, std::int64_t in_256ths) : amount(in_256ths) {
    if (!taps.are_many() && amount >= 0) {
      while (halvings < most_halvings && amount % 2 == 0 && amount > most_in_one_sum) {
        amount /= 2;
        ++halvings;
      }
      if (amount <= most_in_one_sum) {
        method = Method::one_sum;
        return;
      }
      amount = in_256ths;
      halvings = 0;
    }
    method = !taps.are_many() && amount >= 0 && amount <= most_in_16_bits ? Method::in_16_bits
             : std::abs(amount) <= most_in_32_bits                        ? Method::in_32_bits
                                                                          : Method::in_64_bits;
  }

  std::string variant() const { return text(" way ", static_cast<int>(method), " halvings ", halvings); }
  Tile operator()(const Output& z, const Rows& x, const Taps& taps) const;

 private:
  static constexpr int most_halvings = 2;
  static constexpr std::int64_t most_in_one_sum = 128;
  static constexpr std::int64_t most_in_16_bits = 511;
  static constexpr std::int64_t most_in_32_bits = 1 << 14;  // 2^14 * 255 * 256 + 255 * 65536 + 32768 < 2^31

  Tile one_sum(const Output& z, const Rows& x, const Taps& taps) const;
  static Tile in_16_bits(const Output& z, const Rows& x, const Taps& taps);
  static Tile in_32_bits(const Output& z, const Rows& x, const Taps& taps);
  static Tile in_64_bits(const Output& z, const Rows& x, const Taps& taps);
  static Tile amount_scalar(const Taps& taps) { return tile::detail::scalar(taps.scalars()); }
  static Tile amount_of(const Taps& taps, std::int64_t most) {
    return tile::min(tile::max(amount_scalar(taps), 0), static_cast<int>(most));
  }
  static Tile middle_of(const Output& z) { return tile::cast<std::int32_t>(tile::load_like(Input(0), z)); }
  static Tile signed_middle(const Tile& middle) { return (middle << 8) - SignedColumns::signed_offset; }
};

// For amounts of at most one half, after halving: amount * (blur - in) is a sum of 16-bit products that fits 32 bits
// including rounding: 128 * 255 * 65536 + 2^23 - 1 < 2^31. It is subtracted, and so rounded half down.
Tile Sharpen::one_sum(const Output& z, const Rows& x, const Taps& taps) const {
  const Tile factor = amount_of(taps, most_in_one_sum);
  const SignedColumns columns(z, x, taps);
  const Tile middle = middle_of(z);
  const auto weight = [&](int i) { return factor * columns.weight(i); };
  Tile softer = columns.at(0) * weight(0) - signed_middle(middle) * (factor << 8);
  for (int i = 1; i <= taps.radius; ++i) softer = softer + columns.at(-i) * weight(i) + columns.at(i) * weight(i);
  const int shift = 24 - halvings;
  return tile::cast<std::uint8_t>(middle - ((softer + ((1 << (shift - 1)) - 1)) >> shift));
}

// For amounts less than 2, with products of 16-bit numbers.
//
// Let f = in - blur, in 16.16 fixed point, be 512 * high + low. The result is in + ((amount * f + 2^23) >> 24), which
// is in + ((amount * high + (amount * low >> 9) + 2^14) >> 15). f has at most 16 + 9 bits, so high has 16; the min and
// max tell the compiler. 128 * low, which has 16 bits, is the low part of -128 * blur.
Tile Sharpen::in_16_bits(const Output& z, const Rows& x, const Taps& taps) {
  const Tile amount = amount_of(taps, most_in_16_bits);
  const SignedColumns columns(z, x, taps);
  const Tile middle = middle_of(z);
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

// The sum has 24 fraction bits, of which the last 8 come from amount * low alone, where low is the last 8 bits of blur.
// Rounding that product down does not change the sum rounded down.
Tile Sharpen::in_32_bits(const Output& z, const Rows& x, const Taps& taps) {
  const Tile amount = amount_scalar(taps);
  const Tile blur = blurred(z, x, taps);
  const Tile middle = middle_of(z);
  const Tile detail = (middle << 8) - tile::cast<std::int32_t>(blur >> 8);
  const Tile rest = -amount * tile::cast<std::int32_t>(blur & 255) >> 8;
  return tile::cast<std::uint8_t>(((middle << 16) + amount * detail + rest + 32768) >> 16);
}

Tile Sharpen::in_64_bits(const Output& z, const Rows& x, const Taps& taps) {
  const Tile amount = tile::cast<std::int64_t>(amount_scalar(taps));
  const Tile blur = blurred(z, x, taps);
  const Tile middle = middle_of(z);
  const Tile detail = tile::cast<std::int64_t>((middle << 16) - tile::cast<std::int32_t>(blur));
  const Tile sum = (tile::cast<std::int64_t>(middle) << 24) + amount * detail;
  return tile::cast<std::uint8_t>((sum + (1 << 23)) >> 24);
}

Tile Sharpen::operator()(const Output& z, const Rows& x, const Taps& taps) const {
  switch (method) {
    case Method::one_sum:
      return one_sum(z, x, taps);
    case Method::in_16_bits:
      return in_16_bits(z, x, taps);
    case Method::in_32_bits:
      return in_32_bits(z, x, taps);
    default:
      return in_64_bits(z, x, taps);
  }
}

}  // namespace

Lowering lower_sharpen(const Call& call) {
  const Image image = checked_image_like_output(call);
  const Weights weights = gaussian_weights(call.output.dtype, call["radius"].integer, call["sigma"].number);
  const double amount = call["amount"].number;
  const Taps taps(weights);
  const Rows x(image, call);
  if (!taps.is_fixed) {
    Lowering lowering = rows_lowering(image, x, taps.variant(), [taps, x] {
      const Output z;
      const Tile middle = tile::load_like(Input(0), z);
      z.store(middle + tile::detail::scalar(taps.scalars()) * (middle - blurred(z, x, taps)));
    });
    lowering.scalars = scalars_of(weights);
    lowering.scalars.push_back(number_scalar("amount", amount));
    return lowering;
  }
  const Sharpen sharpen(taps, static_cast<std::int64_t>(std::round(amount * 256)));
  Lowering lowering = rows_lowering(image, x, taps.variant() + sharpen.variant(), [taps, sharpen, x] {
    const Output z;
    z.store(sharpen(z, x, taps));
  });
  lowering.scalars = scalars_of(weights);
  lowering.scalars.push_back(integer_scalar("amount", sharpen.amount, s32));
  return lowering;
}

}  // namespace tessera::kernels
