// Filters with a memory: biquad_filter and dynamics_compress.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"
#include "kernels/builtin/recurrence.hpp"
#include "kernels/builtin/sound.hpp"
#include "tile/trace.hpp"

#include <cmath>
#include <iterator>
#include <numbers>

namespace tessera::kernels {

using core::text;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

// Input 0 at these indices of z's channel.
Tile sample_at(const Output& z, const Tile& index) { return Input(0).at({z.block(0), index}); }

// A state that fades by this factor a sample.
Recurrence fading(Recurrence::Kind kind, double factor, double share) {
  return {kind, 1, {{{factor, 0}, {0, 0}}}, {share, 0}, {factor, 0}, share};
}

// The factor by which something with this time constant fades in a sample.
double factor_of(double milliseconds, double sample_rate) {
  return milliseconds == 0 ? 0 : std::exp(-1000 / (milliseconds * sample_rate));
}

}  // namespace

Lowering lower_biquad_filter(const Call& call) {
  const Sound sound = checked_sound_like_output(call);
  const double b0 = call["b0"].number, b1 = call["b1"].number, b2 = call["b2"].number;
  const double a1 = call["a1"].number, a2 = call["a2"].number;
  // The transposed direct form II: y = s1 + b0 x, s1' = s2 + b1 x - a1 y, s2' = b2 x - a2 y.
  const Recurrence filter(Recurrence::Kind::sum, 2, {{{-a1, 1}, {-a2, 0}}}, {b1 - a1 * b0, b2 - a2 * b0}, {1, 0}, b0);
  Lowering lowering;
  lowering.shapes = {sound.rows(), sound.rows()};
  lowering.tile = whole_channel();
  lowering.scalars = filter.scalars(sound.samples);
  lowering.body = [filter] {
    const Output z;
    z.store(filter.body(z, [&](const Tile& at) { return sample_at(z, at); }, 0));
  };
  return lowering;
}

Lowering lower_dynamics_compress(const Call& call) {
  const Sound sound = checked_sound_like_output(call);
  const double rate = call["sample_rate"].number;
  const double release = factor_of(call["release_ms"].number, rate), attack = factor_of(call["attack_ms"].number, rate);
  const Recurrence peak = fading(Recurrence::Kind::max, release, 1);
  const Recurrence smooth = fading(Recurrence::Kind::sum, attack, 1 - attack);
  // In natural logarithms: 20 dB are a factor of 10.
  const auto from_decibels = [](double decibels) { return decibels / 20 * std::numbers::ln10; };
  Lowering lowering;
  lowering.shapes = {sound.rows(), sound.rows()};
  lowering.tile = whole_channel();
  lowering.scalars = peak.scalars(sound.samples);
  std::ranges::move(smooth.scalars(sound.samples), std::back_inserter(lowering.scalars));
  const double threshold = from_decibels(call["threshold"].number);
  lowering.scalars.push_back(number_scalar("threshold", threshold));
  lowering.scalars.push_back(number_scalar("slope", 1 / call["ratio"].number - 1));
  lowering.scalars.push_back(number_scalar("makeup", from_decibels(call["makeup_db"].number)));
  const int count = peak.scalar_count();
  lowering.body = [peak, smooth, count] {
    const Output z;
    const Tile peaks = peak.body(z, [&](const Tile& at) { return tile::abs(sample_at(z, at)); }, 0);
    const Tile level = smooth.body(z, [&](const Tile& at) { return tile::gather(peaks, {0, at}); }, count);
    const Tile threshold_scalar = tile::detail::scalar(2 * count), slope = tile::detail::scalar(2 * count + 1);
    // Of silence the logarithm is -infinity, which is below any threshold.
    const Tile excess = tile::max(tile::log(level) - threshold_scalar, 0.0f);
    z.store(sample_at(z, z.index(1)) * tile::exp(excess * slope + tile::detail::scalar(2 * count + 2)));
  };
  return lowering;
}

}  // namespace tessera::kernels
