// Sounds, sample by sample: mixing, normalising, resampling. The list of all sound kernels.
#include "kernels/builtin/sound.hpp"

#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/builtin/image.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

using core::text;
using tile::Border;
using tile::Input;
using tile::Output;
using tile::Tile;

namespace {

using Kind = ParamSpec::Kind;

}  // namespace

Sound checked_sound(const Call& call, std::size_t input) {
  check_dtype(call, input, f32);
  check_rank(call, input, 1, 2);
  return Sound(*call.inputs[input].shape);
}

Sound checked_sound_like_output(const Call& call) {
  const Sound sound = checked_sound(call, 0);
  check_same_as_output(call, 0);
  return sound;
}

Sound checked_sound_but_length(const Call& call, std::int64_t samples) {
  const Sound sound = checked_sound(call, 0);
  check_output_dtype(call, f32);
  const bool has_channels = call.inputs[0].shape->rank() == 2;
  check_output_shape(call, has_channels ? Shape{sound.channels, samples} : Shape{samples});
  return sound;
}

namespace {

// --- pcm_mix

constexpr std::size_t most_mixed = 8;  // all devices can use that many buffers and the output in one launch

Lowering lower_pcm_mix(const Call& call) {
  check_output_dtype(call, f32);
  const std::size_t count = call.inputs.size();
  for (std::size_t i = 0; i < count; ++i) checked_sound(call, i);
  const std::vector<double> gains =
      call["gains"].is_given ? checked_numbers(call, "gains", count) : std::vector<double>(count, 1.0);
  const bool clips = call["clip"].boolean();
  Lowering lowering = pointwise_lowering(call, [count, clips] {
    const Output z;
    const auto part = [&](std::size_t i) {
      const int number = static_cast<int>(i);
      return tile::load_like(Input(number), z) * tile::detail::scalar(number);
    };
    Tile sum = part(0);
    for (std::size_t i = 1; i < count; ++i) sum = sum + part(i);
    z.store(clips ? tile::min(tile::max(sum, -1.0f), 1.0f) : sum);
  });
  lowering.variant = clips ? "clip" : "";
  for (const double gain : gains) lowering.scalars.push_back(number_scalar("gain", gain));
  return lowering;
}

// --- pcm_normalize

Lowering lower_pcm_normalize(const Call& call) {
  const Sound sound = checked_sound_like_output(call);
  Lowering lowering = plain_lowering(call, [] {
    const Output z;
    const Tile x = tile::load_like(Input(0), z);
    const Tile loudest = tile::reduce_max(tile::abs(x), 1);
    // Divided first: for a very quiet sound, peak / loudest would be infinite.
    z.store(tile::select(loudest == 0.0f, x, x / loudest * tile::detail::scalar(0)));
  });
  const Shape all{1, sound.channels * sound.samples};
  lowering.shapes = {all, all};
  lowering.scalars = {{"peak", f32, call["peak"]}};
  return lowering;
}

// --- resample_linear

// Sample i of the output is at i * step / parts in the input. Scalars: step and parts, without a common factor.
void resample_body(DType dtype) {
  const Output z;
  const Tile step = tile::detail::scalar(0), parts = tile::detail::scalar(1);
  const Tile i = tile::cast(z.index(1), dtype);
  // Exact, and without large products: whole periods of the two rates, and the position in the last one.
  const Tile period = i / parts;
  const Tile scaled = (i - period * parts) * step;
  const Tile advance = scaled / parts;
  const Tile before = period * step + advance;
  const Tile fraction = tile::cast<float>(scaled - advance * parts) / tile::cast<float>(parts);
  const auto sample = [&](const Tile& at) {
    return Input(0).at({z.index(0), tile::cast<std::int64_t>(at)}, Border::clamp);
  };
  z.store(mixed(sample(before), sample(before + 1), fraction));
}

Lowering lower_resample_linear(const Call& call) {
  const std::int64_t from = call["from"].integer, to = call["to"].integer;
  const std::int64_t common = std::gcd(from, to), step = from / common, parts = to / common;
  check_rank(call, 0, 1, 2);
  const std::int64_t given = Sound(*call.inputs[0].shape).samples;
  // given * to / from, in a form that does not overflow.
  const std::int64_t wanted = given / from * to + given % from * to / from;
  const Sound sound = checked_sound_but_length(call, wanted);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  const bool is_small = step * parts <= most && given <= most && wanted <= most;
  const DType dtype = is_small ? s32 : s64;
  Lowering lowering;
  lowering.shapes = {Shape{sound.channels, wanted}, sound.rows()};
  lowering.variant = is_small ? "" : "wide";
  lowering.scalars = {whole_scalar("step", dtype, step), whole_scalar("parts", dtype, parts)};
  lowering.body = [dtype] { resample_body(dtype); };
  return lowering;
}

Kernel sound_kernel(std::string name, std::vector<std::string> inputs, std::vector<ParamSpec> params,
                    std::string documentation, std::function<Lowering(const Call&)> lower) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .params = std::move(params),
          .dtypes = {f32},
          .documentation = std::move(documentation),
          .lower = std::move(lower)};
}

ParamSpec rate_param(std::string name, std::string documentation) {
  constexpr double greatest_rate = 1e6;
  return {.name = std::move(name),
          .kind = Kind::integer,
          .default_value = 48000,
          .documentation = std::move(documentation),
          .min = 1,
          .max = greatest_rate};
}

Kernel biquad_filter() {
  std::vector<ParamSpec> params;
  constexpr double greatest_coefficient = 1e6;
  for (const char* name : {"b0", "b1", "b2", "a1", "a2"}) {
    params.push_back({.name = name,
                      .default_value = name == std::string_view("b0") ? 1 : 0,
                      .documentation = text("coefficient ", name, ", where a0 is 1"),
                      .min = -greatest_coefficient,
                      .max = greatest_coefficient});
  }
  return sound_kernel("biquad_filter", {"x"}, std::move(params),
                      "y[n] = b0 x[n] + b1 x[n-1] + b2 x[n-2] - a1 y[n-1] - a2 y[n-2] for each channel, from silence",
                      lower_biquad_filter);
}

Kernel dynamics_compress() {
  const auto time = [](std::string name, double value, std::string documentation) {
    return ParamSpec{.name = std::move(name),
                     .default_value = value,
                     .documentation = std::move(documentation),
                     .min = 0,
                     .max = 1e6};
  };
  return sound_kernel(
      "dynamics_compress", {"x"},
      {{"threshold", Kind::number, -20, "the level in dB, where 0 is an amplitude of 1, above which it works", -200,
        200},
       {"ratio", Kind::number, 4, "by how many dB the level must rise for one dB of the output", 1, 1e6},
       time("attack_ms", 10, "time constant for a rising level, in milliseconds"),
       time("release_ms", 100, "time constant for a falling level, in milliseconds"),
       rate_param("sample_rate", "samples per second"),
       {"makeup_db", Kind::number, 0, "gain of the result, in dB", -200, 200}},
      "louder parts of each channel made quieter; the level is a peak that falls with release_ms, smoothed with "
      "attack_ms",
      lower_dynamics_compress);
}

}  // namespace

std::vector<Kernel> sound_kernels() {
  std::vector<std::string> mixed = {"a", "b", "c", "d", "e", "f", "g", "h"};
  static_assert(most_mixed == 8);
  Kernel mix = sound_kernel("pcm_mix", std::move(mixed),
                            {{"gains", Kind::numbers, Value::list(), "a factor for each input; default: 1 each"},
                             {"clip", Kind::boolean, false, "whether to limit the sum to -1..1"}},
                            "the sum of 1 to 8 sounds, each times its gain", lower_pcm_mix);
  mix.optional_inputs = most_mixed - 1;
  return {
      std::move(mix),
      sound_kernel("pcm_normalize", {"x"},
                   {{"peak", Kind::number, 1, "the greatest magnitude of the result", 0, ParamSpec::greatest}},
                   "x times the factor that brings its loudest sample, of all channels, to peak; silence stays silence",
                   lower_pcm_normalize),
      sound_kernel(
          "resample_linear", {"x"},
          {rate_param("from", "samples per second of x"), rate_param("to", "samples per second of the output")},
          "x at another rate, with linear interpolation; the output has samples * to / from samples, rounded "
          "down",
          lower_resample_linear),
      biquad_filter(),
      dynamics_compress(),
      sound_kernel("fft_convolve", {"x", "response"},
                   {{"wet", Kind::number, 1, "0: x, 1: the convolution, between: a mixture"}},
                   "each channel convolved with a response [taps] or [channels,taps]; the output has the length of x, "
                   "or samples + taps - 1 for all of it",
                   lower_fft_convolve),
  };
}

}  // namespace tessera::kernels
