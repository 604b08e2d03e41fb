#include "kernels/builtin/gaussian.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::kernels {

using core::text;
using tile::Index;
using tile::Output;
using tile::Tile;

namespace {

// The scalars of many integer weights: see Taps::units.
std::vector<Lowering::Scalar> unit_scalars_of(const std::vector<std::uint32_t>& weights) {
  std::vector<std::int64_t> distances(weights[0] / 2, 0);
  for (std::size_t i = 1; i < weights.size(); ++i)
    distances.insert(distances.end(), weights[i], static_cast<std::int64_t>(i));
  std::vector<Lowering::Scalar> scalars;
  for (std::size_t i = 0; i < distances.size(); i += 2) {
    scalars.push_back(integer_scalar("places", distances[i] | distances[i + 1] << Taps::distance_bits, s32));
  }
  return scalars;
}

// Trailing weights of 0 would only cost time.
template <class T>
void drop_zeros(std::vector<T>& weights) {
  while (weights.size() > 1 && weights.back() == 0) weights.pop_back();
}

// Rounds to 256ths that sum to 256: from the outside in, each weight takes over the rounding error of the one before,
// and the centre gets the remainder. OpenCV rounds this way, and results must match it.
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
  Tile sum = part(constant_index(0)) * taps[0];
  for (int i = 1; i <= taps.radius; ++i) sum = add(sum, constant_index(i), taps[i]);
  return sum;
}

// The tile and the rows above and below it, blurred along rows: 8.8 fixed point in u32, or f32. The weights sum to 256,
// which bounds the result; the mask tells the compiler.
Tile blurred_rows(const Output& z, const Rows& x, const Taps& taps) {
  const Tile rows = z.index(0, taps.radius, taps.radius);
  const Tile columns = z.index(1);
  const Tile sum = weighted_sum(
      taps, [&](const Index& i) { return tile::cast(x.at(rows, columns + i * x.step), taps.is_fixed ? u32 : f32); });
  return taps.is_fixed ? sum & 0xffff : sum;
}

}  // namespace

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

Taps::Taps(const Weights& weights)
    : is_fixed(!weights.fixed.empty()),
      is_flat(is_fixed && weights.fixed[0] <= most_beside_centre),
      radius(static_cast<int>(std::max(weights.fixed.size(), weights.floats.size())) - 1) {}

int Taps::scalars() const {
  if (are_many()) return is_fixed ? unit_scalars : 2;
  return radius == 0 ? 0 : radius + 1;
}

std::string Taps::variant() const { return text("radius ", radius, is_flat ? " flat" : ""); }

Tile Taps::operator[](int i) const {
  if (radius == 0) return is_fixed ? tile::constant<std::uint32_t>(256) : tile::constant(1.0f);
  const Tile weight = tile::detail::scalar(i);
  if (!is_fixed) return weight;
  const Tile whole = tile::cast<std::uint32_t>(weight);
  return i == 0 && !is_flat ? whole : tile::min(whole, static_cast<int>(most_beside_centre));
}

Tile Taps::all() const {
  const Tile index = tile::iota({radius + 1}, 0);
  if (!is_fixed) {
    const Tile distance = tile::cast<float>(index);
    const Tile weight = tile::detail::scalar(0) * tile::exp(-tile::detail::scalar(1) * (distance * distance));
    return tile::select(index == 0, weight * 0.5f, weight);
  }
  const Tile position = tile::cast<std::int32_t>(index);
  Tile count = tile::constant<std::uint32_t>(0);
  for (int i = 0; i < unit_scalars; ++i) {
    const Tile both = tile::detail::scalar(i);
    for (const Tile& one : {both & ((1 << distance_bits) - 1), both >> distance_bits}) {
      count = count + tile::select(position == one, tile::constant<std::uint32_t>(1), tile::constant<std::uint32_t>(0));
    }
  }
  return count;
}

std::vector<Lowering::Scalar> scalars_of(const Weights& weights) {
  const Taps taps(weights);
  std::vector<Lowering::Scalar> scalars;
  if (taps.scalars() == 0) return scalars;
  if (taps.are_many()) {
    if (taps.is_fixed) return unit_scalars_of(weights.fixed);
    return {number_scalar("weight", weights.floats[0]), number_scalar("falloff", weights.falloff)};
  }
  // Of two or more weights, each is less than 256.
  for (const std::uint32_t weight : weights.fixed) scalars.push_back(integer_scalar("weight", weight, u8));
  for (const float weight : weights.floats) scalars.push_back(number_scalar("weight", weight));
  return scalars;
}

Tile blurred(const Output& z, const Rows& x, const Taps& taps) {
  const Tile sums = blurred_rows(z, x, taps);
  const Tile sum = weighted_sum(taps, [&](const Index& i) { return row_of(z, sums, i + taps.radius); });
  return taps.is_fixed ? sum & 0xffffff : sum;
}

Tile SignedColumns::at(int i) const {
  return tile::slice(sums, {constant_index(0), constant_index((i + taps.radius) * step)},
                     {z.tile_dim(0), z.tile_dim(1)});
}

Tile SignedColumns::sum() const {
  Tile all = at(0) * weight(0);
  for (int i = 1; i <= taps.radius; ++i) all = all + at(-i) * weight(i) + at(i) * weight(i);
  return all;
}

Tile SignedColumns::sums_of(const Rows& x) const {
  const int zero = taps.is_flat ? 128 : 0;
  const Tile rows = z.index(0);
  const Tile columns = z.index(1, taps.radius * step, taps.radius * step);
  const auto pixel = [&](int i) { return tile::cast<std::int32_t>(x.at(rows + constant_index(i), columns)) - zero; };
  Tile sum = pixel(0) * weight(0);
  for (int i = 1; i <= taps.radius; ++i) sum = sum + (pixel(-i) + pixel(i)) * weight(i);
  return ((sum + 256 * zero) & 0xffff) - signed_offset;
}

Tile blurred_to_u8(const Output& z, const Rows& x, const Taps& taps) {
  if (taps.are_many()) return tile::cast<std::uint8_t>((blurred(z, x, taps) + 32768) >> 16);
  const SignedColumns columns(z, x, taps);
  return tile::cast<std::uint8_t>((columns.sum() + (SignedColumns::offset_of_sum + 32768)) >> 16);
}

}  // namespace tessera::kernels
