#include "conformance/cases/cases.hpp"

namespace tessera::conformance {

namespace {

// One sample, around the blocks of recurrences, several levels of them.
const std::vector<Shape>& sounds() {
  static const std::vector<Shape> all = {{2, 300}, {5000}, {1}, {3, 16}, {17}, {2, 257}, {1, 4097}, {0}, {3, 0}};
  return all;
}

void add_filter(Cases& to, const std::string& kernel, const std::vector<Params>& params) {
  for (const Shape& shape : sounds()) {
    for (const Params& given : params) to.push_back({kernel, {{f32, shape}}, f32, shape, given});
  }
}

void add_mixes(Cases& to) {
  for (const Shape& shape : sounds()) {
    const Input x{f32, shape};
    to.push_back({"pcm_mix", {x}, f32, shape});
    to.push_back({"pcm_mix", {x, x, x}, f32, shape, {{"gains", {0.5, -1.25, 2}}}});
    to.push_back({"pcm_mix", {x, x}, f32, shape, {{"clip", true}}});
    to.push_back({"pcm_mix", {x, x, x, x, x, x, x, x}, f32, shape, {{"clip", false}}});
  }
  to.push_back({"pcm_mix", {{f32, {2, 300}}, {f32, {300}}}, f32, {2, 300}, {{"gains", {1, 0.3}}}});
}

void add_resampling(Cases& to) {
  struct Rates {
    std::int64_t from, to;
  };
  for (const Shape& shape : sounds()) {
    const std::int64_t samples = shape[shape.rank() - 1];
    for (const Rates& rates :
         {Rates{44100, 48000}, Rates{48000, 44100}, Rates{1, 3}, Rates{8, 3}, Rates{7, 7}, Rates{999983, 999979}}) {
      const std::int64_t count = samples * rates.to / rates.from;
      const Shape out = shape.rank() == 1 ? Shape{count} : Shape{shape[0], count};
      to.push_back({"resample_linear", {{f32, shape}}, f32, out, {{"from", rates.from}, {"to", rates.to}}});
    }
  }
  to.push_back({"resample_linear", {{f32, {10}}}, f32, {4}, {{"from", 2}, {"to", 1}}, -1, Errc::shape_mismatch});
}

void add_convolutions(Cases& to) {
  struct Sizes {
    Shape sound, response;
  };
  const std::vector<Sizes> sizes = {{{2, 700}, {300}}, {{5000}, {257}},    {{2, 40}, {2, 7}},     {{3, 64}, {256}},
                                    {{100}, {1}},      {{1}, {300}},       {{2, 1500}, {2, 513}}, {{0}, {300}},
                                    {{3000}, {1025}},  {{1, 31}, {1, 399}}};
  for (const auto& [sound, response] : sizes) {
    const std::int64_t taps = response[response.rank() - 1];
    const std::int64_t all = sound[sound.rank() - 1] + taps - 1;
    const Shape complete = sound.rank() == 1 ? Shape{all} : Shape{sound[0], all};
    to.push_back({"fft_convolve", {{f32, sound}, {f32, response}}, f32, sound});
    to.push_back({"fft_convolve", {{f32, sound}, {f32, response}}, f32, complete, {{"wet", 0.35}}});
  }
}

}  // namespace

void add_sound_cases(Cases& to) {
  add_mixes(to);
  add_filter(to, "pcm_normalize", {{}, {{"peak", 0.5}}, {{"peak", 0}}});
  add_resampling(to);
  add_filter(to, "biquad_filter",
             {{},
              {{"b0", 0.2}, {"b1", 0.4}, {"b2", 0.2}, {"a1", -0.6}, {"a2", 0.4}},
              {{"b0", 0.01}, {"a1", -1.98}, {"a2", 0.9802}},  // two poles at 0.99
              {{"a1", -1}},                                   // a sum
              {{"b0", 0.5}, {"b1", -0.5}, {"a1", 0.7}}});
  add_filter(to, "dynamics_compress",
             {{},
              {{"threshold", -3}, {"ratio", 20}, {"attack_ms", 0}, {"release_ms", 0}},
              {{"threshold", 6}, {"ratio", 2}, {"attack_ms", 0.5}, {"release_ms", 3}, {"sample_rate", 8000}},
              {{"ratio", 1}, {"makeup_db", 6}}});
  add_convolutions(to);
}

}  // namespace tessera::conformance
