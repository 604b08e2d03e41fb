#include "support/expect_error.hpp"
#include "support/images.hpp"

#include <cmath>
#include <limits>

namespace tessera::test {
namespace {

using F32 = std::vector<float>;

const Floats stereo{{2, 3}, {0.5f, -0.25f, 1, 0.125f, 0, -1}};

TEST(PcmMix, AddsSoundsByTheirGains) {
  const Floats mono{{3}, {1, 2, -4}};
  EXPECT_EQ(run_like("pcm_mix", stereo), stereo.values);
  EXPECT_EQ((run<float>("pcm_mix", {2, 3}, {}, stereo, stereo)), (F32{1, -0.5f, 2, 0.25f, 0, -2}));
  EXPECT_EQ((run<float>("pcm_mix", {2, 3}, {{"gains", {2, 0.5}}}, stereo, mono)), (F32{1.5f, 0.5f, 0, 0.75f, 1, -4}));
  EXPECT_EQ((run<float>("pcm_mix", {2, 3}, {{"clip", true}}, stereo, mono)), (F32{1, 1, -1, 1, 1, -1}));
  EXPECT_EQ((run<float>("pcm_mix", {3}, {{"gains", 0.5}}, mono)), (F32{0.5f, 1, -2}));
}

TEST(PcmMix, RefusesWhatItCannotDo) {
  expect_error(Errc::invalid_parameter, "[pcm_mix] parameter 'gains' must be a list of 2 numbers, got [1, 2, 3]",
               [] { run<float>("pcm_mix", {2, 3}, {{"gains", {1, 2, 3}}}, stereo, stereo); });
  expect_error(Errc::dtype_mismatch, "[pcm_mix] input 1 (b) must be f32, got u8[3]",
               [] { run<float>("pcm_mix", {2, 3}, {}, stereo, Bytes{{3}, {1, 2, 3}}); });
  expect_error(Errc::shape_mismatch, "[pcm_mix] input 1 (b) must be f32[2,3] or broadcast to it, got f32[2]",
               [] { run<float>("pcm_mix", {2, 3}, {}, stereo, Floats{{2}, {1, 2}}); });
  expect_error(Errc::count_mismatch, "[pcm_mix] takes 1 to 8 inputs, got 0", [] { run<float>("pcm_mix", {3}, {}); });
}

TEST(PcmNormalize, BringsTheLoudestSampleToThePeak) {
  const Floats x{{2, 2}, {0.5f, -0.25f, 0.125f, -2}};
  EXPECT_EQ(run_like("pcm_normalize", x), (F32{0.25f, -0.125f, 0.0625f, -1}));
  EXPECT_EQ(run_like("pcm_normalize", x, {{"peak", 0.5}}), (F32{0.125f, -0.0625f, 0.03125f, -0.5f}));
  EXPECT_EQ(run_like("pcm_normalize", Floats{{3}, {0, 0, 0}}), (F32{0, 0, 0}));
  EXPECT_EQ(run_like("pcm_normalize", Floats{{2}, {0x1p-126f, -0x1p-125f}}), (F32{0.5f, -1}));
  EXPECT_EQ(run_like("pcm_normalize", Floats{{0}, {}}), F32{});
  expect_error(Errc::invalid_parameter, "[pcm_normalize] parameter 'peak' must be between 0 and",
               [&] { run_like("pcm_normalize", x, {{"peak", -1}}); });
}

TEST(ResampleLinear, InterpolatesBetweenSamples) {
  const Floats x{{3}, {0, 1, 5}};
  EXPECT_EQ((run<float>("resample_linear", {6}, {{"from", 24000}, {"to", 48000}}, x)), (F32{0, 0.5f, 1, 3, 5, 5}));
  EXPECT_EQ((run<float>("resample_linear", {1}, {{"from", 2}, {"to", 1}}, x)), (F32{0}));
  EXPECT_EQ((run<float>("resample_linear", {3}, {}, x)), x.values);
  EXPECT_EQ((run<float>("resample_linear", {2, 2}, {{"from", 3}, {"to", 2}}, stereo)),
            (F32{0.5f, 0.375f, 0.125f, -0.5f}));
}

TEST(ResampleLinear, RefusesWhatItCannotDo) {
  expect_error(Errc::shape_mismatch, "[resample_linear] output must be f32[2,6], got f32[2,5]",
               [] { run<float>("resample_linear", {2, 5}, {{"from", 1}, {"to", 2}}, stereo); });
  expect_error(Errc::shape_mismatch, "[resample_linear] output must be f32[2,3], got f32[3]",
               [] { run<float>("resample_linear", {3}, {}, stereo); });
  expect_error(Errc::invalid_parameter, "[resample_linear] parameter 'from' must be between 1 and 1000000, got 0",
               [] { run<float>("resample_linear", {2, 3}, {{"from", 0}}, stereo); });
  expect_error(Errc::shape_mismatch, "[resample_linear] input 0 (x) must have rank 1 to 2, got f32[1,1,1]",
               [] { run<float>("resample_linear", {1, 1, 1}, {}, Floats{{1, 1, 1}, {0}}); });
}

TEST(BiquadFilter, IsARecurrenceFromSilence) {
  EXPECT_EQ(run_like("biquad_filter", stereo), stereo.values);
  const Floats impulse{{6}, {1, 0, 0, 0, 0, 0}};
  EXPECT_EQ(run_like("biquad_filter", impulse, {{"b0", 2}, {"b1", 3}, {"b2", 4}}), (F32{2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(run_like("biquad_filter", impulse, {{"a1", -0.5}}), (F32{1, 0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f}));
  // Fibonacci
  EXPECT_EQ(run_like("biquad_filter", impulse, {{"a1", -1}, {"a2", -1}}), (F32{1, 1, 2, 3, 5, 8}));
}

TEST(BiquadFilter, OfAnUnstableFilterIsRightUntilItOverflows) {
  Floats x{{2000}, F32(2000)};
  const Params doubling = {{"a1", -2}};
  EXPECT_EQ(run_like("biquad_filter", x, doubling), x.values);
  x.values[1990] = 1;
  const F32 late = run_like("biquad_filter", x, doubling);
  for (std::size_t i = 0; i < 2000; ++i)
    EXPECT_EQ(late[i], i < 1990 ? 0 : std::ldexp(1.0f, static_cast<int>(i) - 1990));
}

TEST(BiquadFilter, RefusesWhatItCannotDo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error(Errc::invalid_parameter, "[biquad_filter] parameter 'a1' must be between -1000000 and 1000000, got nan",
               [&] { run_like("biquad_filter", stereo, {{"a1", nan}}); });
  const Device device = Device::open("cpu");
  const Buffer x = device.zeros({4});
  expect_error(Errc::invalid_argument, "[biquad_filter] output must not be input 0",
               [&] { device.run("biquad_filter", {x}, x); });
}

TEST(DynamicsCompress, TurnsDownWhatIsAboveTheThreshold) {
  const Floats quiet{{4}, {0.01f, -0.02f, 0.05f, -0.09f}};
  EXPECT_EQ(run_like("dynamics_compress", quiet), quiet.values);
  EXPECT_EQ(run_like("dynamics_compress", Floats{{2}, {0, 0}}), (F32{0, 0}));
  // At once: 20 dB above the threshold become 5.
  const Params at_once = {{"attack_ms", 0}, {"release_ms", 0}};
  expect_near(run_like("dynamics_compress", Floats{{3}, {1, -0.1f, -1}}, at_once),
              {std::pow(10.0f, -0.75f), -0.1f, -std::pow(10.0f, -0.75f)});
  // A constant tone reaches the same gain in time.
  const F32 tone = run_like("dynamics_compress", Floats{{2, 5000}, F32(10000, 1)}, {{"attack_ms", 1}});
  EXPECT_GT(tone[0], 0.9f);
  EXPECT_NEAR(tone[4999], std::pow(10.0f, -0.75f), 1e-5f);
  EXPECT_EQ(tone[9999], tone[4999]);
  expect_error(Errc::invalid_parameter, "[dynamics_compress] parameter 'ratio' must be between 1 and 1000000, got 0.5",
               [&] { run_like("dynamics_compress", quiet, {{"ratio", 0.5}}); });
}

TEST(FftConvolve, ConvolvesWithAResponse) {
  const Floats x{{3}, {1, 2, 3}}, response{{2}, {1, -1}};
  EXPECT_EQ((run<float>("fft_convolve", {3}, {}, x, response)), (F32{1, 1, 1}));
  EXPECT_EQ((run<float>("fft_convolve", {4}, {}, x, response)), (F32{1, 1, 1, -3}));
  EXPECT_EQ((run<float>("fft_convolve", {3}, {{"wet", 0.5}}, x, response)), (F32{1, 1.5f, 2}));
  EXPECT_EQ((run<float>("fft_convolve", {2, 3}, {}, stereo, Floats{{2, 1}, {2, 4}})), (F32{1, -0.5f, 2, 0.5f, 0, -4}));
}

TEST(FftConvolve, OfALongResponse) {
  Floats x{{2, 5000}, F32(10000)}, echo{{3000}, F32(3000)};
  for (std::size_t i = 0; i < 10000; ++i) x.values[i] = static_cast<float>(i * 37 % 101) / 100 - 0.5f;
  echo.values[0] = 1;
  echo.values[2999] = 0.5f;
  const F32 z = run<float>("fft_convolve", {2, 7999}, {}, x, echo);
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t n = 0; n < 7999; ++n) {
      const float direct = n < 5000 ? x.values[c * 5000 + n] : 0;
      const float late = n >= 2999 ? x.values[c * 5000 + n - 2999] / 2 : 0;
      ASSERT_NEAR(z[c * 7999 + n], direct + late, 1e-5f) << c << ", " << n;
    }
  }
}

TEST(FftConvolve, RefusesWhatItCannotDo) {
  expect_error(Errc::shape_mismatch,
               "[fft_convolve] input 1 (response) must be [taps] or [2,taps] with 1 to 4194304 taps, got f32[3,1]",
               [] { run<float>("fft_convolve", {2, 3}, {}, stereo, Floats{{3, 1}, {1, 2, 3}}); });
  expect_error(Errc::shape_mismatch, "with 1 to 4194304 taps, got f32[0]",
               [] { run<float>("fft_convolve", {2, 3}, {}, stereo, Floats{{0}, {}}); });
  expect_error(Errc::shape_mismatch, "[fft_convolve] output must be f32[2,3], got f32[2,5]",
               [] { run<float>("fft_convolve", {2, 5}, {}, stereo, Floats{{2}, {1, 2}}); });
  expect_error(Errc::dtype_mismatch, "[fft_convolve] input 0 (x) must be f32, got u8[3]",
               [] { run<float>("fft_convolve", {3}, {}, Bytes{{3}, {1, 2, 3}}, Floats{{1}, {1}}); });
}

TEST(SoundKernels, WorkInPipelines) {
  const Device device = Device::open("cpu");
  F32 values(2 * 700);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) / 5);
  const Buffer x = device.buffer<float>(values, {2, 700}), response = device.buffer<float>(F32(300, 0.01f), {300});
  const auto chain = [&](const auto& add, const Buffer& a, const Buffer& b, const Buffer& out) {
    add("scale", {x}, a, {{"factor", 0.5}});
    add("biquad_filter", {a}, b, {{"a1", -0.5}});
    add("fft_convolve", {b, response}, a, {{"wet", 0.5}});
    add("dynamics_compress", {a}, b, {{"threshold", -10}});
    add("pcm_normalize", {b}, out, {});
  };
  const auto buffer = [&] { return device.zeros({2, 700}); };
  const Buffer one_by_one = buffer(), together = buffer();
  chain([&](const char* kernel, const BufferList& inputs, const Buffer& output,
            const Params& params) { device.run(kernel, inputs, output, params); },
        buffer(), buffer(), one_by_one);
  Pipeline pipeline(device);
  chain([&](const char* kernel, const BufferList& inputs, const Buffer& output,
            const Params& params) { pipeline.add(kernel, inputs, output, params); },
        pipeline.temporary({2, 700}), pipeline.temporary({2, 700}), together);
  pipeline.run();
  EXPECT_EQ(together.read<float>(), one_by_one.read<float>());
}

}  // namespace
}  // namespace tessera::test
