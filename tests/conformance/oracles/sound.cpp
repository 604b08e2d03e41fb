#include "conformance/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tessera::conformance {

namespace {

using Channel = std::vector<double>;

// The channels of a sound [samples] or [channels,samples].
std::vector<Channel> channels_of(const Tensor& tensor) {
  const bool is_mono = tensor.shape.rank() == 1;
  const auto samples = static_cast<std::size_t>(tensor.shape[is_mono ? 0 : 1]);
  std::vector<Channel> channels(static_cast<std::size_t>(is_mono ? 1 : tensor.shape[0]), Channel(samples));
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    channels[i / samples][i % samples] = static_cast<double>(tensor.at(i));
  }
  return channels;
}

// f(channel number, sample) for every element of the output.
template <class F>
Answer each_sample(const Call& call, F f) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const auto samples = static_cast<std::size_t>(call.shape[call.shape.rank() - 1]);
  for (std::size_t i = 0; i < answer.points.size(); ++i) answer.points[i] = f(i / samples, i % samples);
  return answer;
}

Answer pcm_mix(const Call& call) {
  const std::vector<double> gains = call.list("gains", std::vector<double>(call.inputs.size(), 1));
  const Value* clip = call.params.find("clip");
  std::vector<std::vector<Channel>> sounds;
  for (const Tensor& input : call.inputs) sounds.push_back(channels_of(input));
  return each_sample(call, [&](std::size_t c, std::size_t n) {
    Sum sum;
    for (std::size_t i = 0; i < sounds.size(); ++i) {
      const Channel& channel = sounds[i][sounds[i].size() == 1 ? 0 : c];
      sum.add(static_cast<Real>(gains[i]) * static_cast<Real>(channel[n]));
    }
    Approx result = sum.in(f32);
    if (clip && clip->boolean()) result.value = std::clamp<Real>(result.value, -1, 1);
    // A gain is rounded to f32.
    return Approx(result.value, result.slack + epsilon(f32) * sum.magnitude());
  });
}

Answer pcm_normalize(const Call& call) {
  const std::vector<Channel> x = channels_of(call.inputs[0]);
  const double peak = call.number("peak", 1);
  double loudest = 0;
  for (const Channel& channel : x) {
    for (const double sample : channel) loudest = std::max(loudest, std::fabs(sample));
  }
  return each_sample(call, [&](std::size_t c, std::size_t n) {
    const double value = loudest == 0 ? x[c][n] : x[c][n] * peak / loudest;
    return Approx(value, 4 * epsilon(f32) * static_cast<Real>(std::fabs(value)));
  });
}

Answer resample_linear(const Call& call) {
  const std::vector<Channel> x = channels_of(call.inputs[0]);
  const std::int64_t from = call.integer("from", 48000);
  const std::int64_t to = call.integer("to", 48000);
  return each_sample(call, [&](std::size_t c, std::size_t n) {
    const Wide place = static_cast<Wide>(n) * from;
    const auto first = static_cast<std::size_t>(place / to);
    const double fraction = static_cast<double>(place % to) / static_cast<double>(to);
    const Channel& channel = x[c];
    const double before = channel[std::min(first, channel.size() - 1)];
    const double after = channel[std::min(first + 1, channel.size() - 1)];
    return Approx(before * (1 - fraction) + after * fraction,
                  4 * epsilon(f32) * static_cast<Real>(std::fabs(before) + std::fabs(after)));
  });
}

// By direct form I. f32 rounds what the filter remembers, as large as its output, at each step, and each of these
// errors goes the way of a sample through the recursive half. They are independent, so their energies add up.
Answer biquad_filter(const Call& call) {
  const std::vector<Channel> x = channels_of(call.inputs[0]);
  const double b0 = call.number("b0", 1), b1 = call.number("b1", 0), b2 = call.number("b2", 0);
  const double a1 = call.number("a1", 0), a2 = call.number("a2", 0);
  std::vector<Channel> y;
  double loudest = 0;
  for (const Channel& in : x) {
    Channel& out = y.emplace_back(in.size());
    for (std::size_t n = 0; n < in.size(); ++n) {
      out[n] = b0 * in[n];
      if (n >= 1) out[n] += b1 * in[n - 1] - a1 * out[n - 1];
      if (n >= 2) out[n] += b2 * in[n - 2] - a2 * out[n - 2];
      loudest = std::max({loudest, std::fabs(in[n]), std::fabs(out[n])});
    }
  }
  double energy = 0, last = 0, before = 0;
  for (std::size_t n = 0; n < x[0].size(); ++n) {
    const double now = (n == 0 ? 1 : 0) - a1 * last - a2 * before;
    before = std::exchange(last, now);
    energy += now * now;
  }
  const double slack = 4 * loudest * (1 + std::sqrt(energy));
  return each_sample(
      call, [&](std::size_t c, std::size_t n) { return Approx(y[c][n], epsilon(f32) * static_cast<Real>(slack)); });
}

Answer dynamics_compress(const Call& call) {
  const std::vector<Channel> x = channels_of(call.inputs[0]);
  const double threshold = call.number("threshold", -20);
  const double ratio = call.number("ratio", 4);
  const double rate = call.number("sample_rate", 48000);
  const double makeup = call.number("makeup_db", 0);
  const auto kept = [&](const char* name, double otherwise) {
    const double milliseconds = call.number(name, otherwise);
    return milliseconds == 0 ? 0 : std::exp(-1 / (milliseconds * 0.001 * rate));
  };
  const double attack = kept("attack_ms", 10);
  const double release = kept("release_ms", 100);
  std::vector<Channel> y = x;
  for (Channel& channel : y) {
    double peak = 0;
    double level = 0;
    for (double& sample : channel) {
      peak = std::max(std::fabs(sample), release * peak);
      level = attack * level + (1 - attack) * peak;
      const double decibels = level > 0 ? 20 * std::log10(level) : -1000;
      const double over = std::max(0.0, decibels - threshold);
      sample *= std::pow(10, (makeup - over + over / ratio) / 20);
    }
  }
  return each_sample(call, [&](std::size_t c, std::size_t n) {
    return Approx(y[c][n], 64 * epsilon(f32) * static_cast<Real>(std::fabs(y[c][n])) + least_normal(f32));
  });
}

// The error of a transform is spread over all of its samples: it follows from the energy of the sound and the response.
Answer fft_convolve(const Call& call) {
  const std::vector<Channel> x = channels_of(call.inputs[0]);
  const std::vector<Channel> h = channels_of(call.inputs[1]);
  const double wet = call.number("wet", 1);
  const auto energy = [](const std::vector<Channel>& of) {
    double sum = 0;
    for (const Channel& channel : of) {
      for (const double sample : channel) sum += sample * sample;
    }
    return sum;
  };
  const double scale = std::sqrt(energy(x) * energy(h)) * std::fabs(wet);
  return each_sample(call, [&](std::size_t c, std::size_t n) {
    const Channel& response = h[h.size() == 1 ? 0 : c];
    double sum = 0;
    for (std::size_t k = 0; k < response.size() && k <= n; ++k) {
      if (n - k < x[c].size()) sum += response[k] * x[c][n - k];
    }
    const double dry = n < x[c].size() ? x[c][n] : 0;
    const double slack = 8 * (scale + std::fabs(dry) * (1 + std::fabs(wet)));
    return Approx(dry * (1 - wet) + sum * wet, epsilon(f32) * static_cast<Real>(slack) + least_normal(f32));
  });
}

}  // namespace

void add_sound_oracles(Oracles& to) {
  to["pcm_mix"] = pcm_mix;
  to["pcm_normalize"] = pcm_normalize;
  to["resample_linear"] = resample_linear;
  to["biquad_filter"] = biquad_filter;
  to["dynamics_compress"] = dynamics_compress;
  to["fft_convolve"] = fft_convolve;
}

}  // namespace tessera::conformance
