#include "support/expect_error.hpp"
#include "support/images.hpp"

#include <algorithm>
#include <limits>
#include <random>

namespace tessera::test {
namespace {

using U8 = std::vector<Byte>;

// Every third value of an interleaved image.
U8 channel_of(const U8& values, std::size_t channels, std::size_t number) {
  U8 all;
  for (std::size_t i = number; i < values.size(); i += channels) all.push_back(values[i]);
  return all;
}

TEST(GaussianBlur, RoundsItsWeightsSoThatTheySumTo256) {
  // sigma 0.5: 27, 202, 27 of 256.
  const Bytes row{{1, 3}, {0, 255, 0}};
  EXPECT_EQ(run_like("gaussian_blur", row), (U8{27, 201, 27}));
  EXPECT_EQ(run_like("blur", row), (U8{27, 201, 27}));
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{3, 1}, {0, 255, 0}}), (U8{27, 201, 27}));
  // sigma 1: 70, 116, 70.
  EXPECT_EQ(run_like("gaussian_blur", row, {{"sigma", 1}}), (U8{70, 116, 70}));
}

TEST(GaussianBlur, RepeatsTheBorder) {
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{1, 2}, {0, 255}}, {{"sigma", 1}}), (U8{70, 185}));
  // Wider than the image.
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{1, 1}, {77}}, {{"radius", 15}}), (U8{77}));
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{2, 1}, {90, 90}}, {{"radius", 64}}), (U8{90, 90}));
}

TEST(GaussianBlur, TakesChannelsAlike) {
  const Bytes x{{1, 3, 4}, {0, 255, 9, 0, 255, 0, 9, 0, 0, 255, 9, 255}};
  const U8 z = run_like("gaussian_blur", x, {{"sigma", 1}});
  EXPECT_EQ(channel_of(z, 4, 0), (U8{70, 116, 70}));
  EXPECT_EQ(channel_of(z, 4, 1), (U8{185, 139, 185}));
  EXPECT_EQ(channel_of(z, 4, 2), (U8{9, 9, 9}));
  EXPECT_EQ(channel_of(z, 4, 3), (U8{0, 70, 185}));
}

TEST(GaussianBlur, OfFloats) {
  expect_near(run_like("gaussian_blur", Floats{{1, 3}, {0, 1, 0}}), {0.106507f, 0.786986f, 0.106507f});
  expect_near(run_like("gaussian_blur", Floats{{3, 1, 1}, {0, 1, -1}}), {0.106507f, 0.680479f, -0.786986f});
  expect_near(run_like("gaussian_blur", Floats{{1, 1, 3}, {1, 2, 3}}, {{"radius", 2}}), {1, 2, 3});
}

TEST(GaussianBlur, OfRadiusZeroIsACopy) {
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{2, 2}, {0, 1, 254, 255}}, {{"radius", 0}}), (U8{0, 1, 254, 255}));
  expect_near(run_like("gaussian_blur", Floats{{1, 2}, {-3, 0.1f}}, {{"radius", 0}}), {-3, 0.1f}, 0);
}

TEST(GaussianBlur, OfNothing) {
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{0, 4, 3}, {}}), U8{});
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{4, 4, 0}, {}}), U8{});
}

TEST(GaussianBlur, RefusesWhatItCannotDo) {
  const Bytes x{{1, 3}, {0, 255, 0}};
  const auto with = [&](const Params& params) { return [&x, params] { run_like("gaussian_blur", x, params); }; };
  expect_error(Errc::invalid_parameter, "[gaussian_blur] parameter 'radius' must be", with({{"radius", 65}}));
  expect_error(Errc::invalid_parameter, "[gaussian_blur] parameter 'radius' must be", with({{"radius", -1}}));
  expect_error(Errc::invalid_parameter, "parameter 'sigma' must be greater than 0, got 0", with({{"sigma", 0}}));
  expect_error(Errc::invalid_parameter, "parameter 'sigma' must be greater than 0, got -1", with({{"sigma", -1.5}}));
  expect_error(Errc::invalid_parameter, "parameter 'sigma' must be finite, got inf",
               with({{"sigma", std::numeric_limits<double>::infinity()}}));
  expect_error(Errc::unknown_parameter, "did you mean 'radius'?", with({{"radios", 1}}));
  expect_error(Errc::shape_mismatch, "[gaussian_blur] input 0 (x) must be u8[3,1] like the output, got u8[1,3]",
               [&] { run<Byte>("gaussian_blur", {3, 1}, {}, x); });
  expect_error(Errc::dtype_mismatch, "[gaussian_blur] input 0 (x) must be f32[1,3] like the output, got u8[1,3]",
               [&] { run<float>("gaussian_blur", {1, 3}, {}, x); });
  expect_error(Errc::dtype_mismatch, "[gaussian_blur] input 0 (x) must be f32 or u8, got s32",
               [] { run_like("gaussian_blur", Image<std::int32_t>{{1, 1}, {1}}); });
  expect_error(Errc::shape_mismatch, "[gaussian_blur] input 0 (x) must have rank 2 to 3, got u8[4]",
               [] { run_like("gaussian_blur", Bytes{{4}, {1, 2, 3, 4}}); });
  expect_error(Errc::count_mismatch, "[gaussian_blur] takes 1 input, got 2",
               [&] { run<Byte>("gaussian_blur", x.shape, {}, x, x); });
}

TEST(Sharpen, AddsDetail) {
  // 70, 116, 70: the middle is 120 + 10.94, the ends 100 - 5.47.
  const Bytes row{{1, 3}, {100, 120, 100}};
  EXPECT_EQ(run_like("sharpen", row), (U8{95, 131, 95}));
  EXPECT_EQ(run_like("sharpen", row, {{"amount", 0.5}}), (U8{97, 125, 97}));
  EXPECT_EQ(run_like("sharpen", row, {{"amount", 0}}), (U8{100, 120, 100}));
  EXPECT_EQ(run_like("sharpen", row, {{"amount", -1}}), (U8{105, 109, 105}));  // blurs
  EXPECT_EQ(run_like("sharpen", row, {{"amount", 65536}}), (U8{0, 255, 0}));
}

TEST(Sharpen, KeepsChannelsApart) {
  const Bytes x{{1, 3, 3}, {100, 7, 0, 120, 7, 0, 100, 7, 255}};
  const U8 z = run_like("sharpen", x);
  EXPECT_EQ(channel_of(z, 3, 0), (U8{95, 131, 95}));
  EXPECT_EQ(channel_of(z, 3, 1), (U8{7, 7, 7}));
  EXPECT_EQ(channel_of(z, 3, 2), (U8{0, 0, 255}));
}

// 116 and 70 to each side, exactly: sums with 16 bits behind the point, the amount with 8 more, rounded once.
std::int64_t sharpened(const Bytes& x, std::int64_t row, std::int64_t column, std::int64_t amount) {
  const auto at = [&](std::int64_t i, std::int64_t j) {
    i = std::clamp<std::int64_t>(i, 0, x.shape[0] - 1);
    j = std::clamp<std::int64_t>(j, 0, x.shape[1] - 1);
    return std::int64_t{x.values[static_cast<std::size_t>(i * x.shape[1] + j)]};
  };
  constexpr std::int64_t weights[] = {70, 116, 70};
  std::int64_t blur = 0;
  for (std::int64_t i = -1; i <= 1; ++i) {
    for (std::int64_t j = -1; j <= 1; ++j) blur += weights[i + 1] * weights[j + 1] * at(row + i, column + j);
  }
  const std::int64_t middle = at(row, column);
  const std::int64_t sum = (middle << 24) + amount * ((middle << 16) - blur) + (1 << 23);
  return std::clamp<std::int64_t>(sum >> 24, 0, 255);
}

TEST(Sharpen, IsExactForEveryAmount) {
  std::mt19937 random(5);
  Bytes x{{64, 96}, {}};
  for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
    const unsigned any = random() % 256, kind = random() % 4;
    x.values.push_back(static_cast<Byte>(kind == 0 ? 0 : kind == 1 ? 255 : any));
  }
  for (std::int64_t amount = -3; amount < 515; ++amount) {
    const U8 z = run_like("sharpen", x, {{"amount", static_cast<double>(amount) / 256}});
    for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
      const std::int64_t wanted = sharpened(x, i / x.shape[1], i % x.shape[1], amount);
      ASSERT_EQ(std::int64_t{z[static_cast<std::size_t>(i)]}, wanted) << "at " << i << ", amount " << amount;
    }
  }
}

TEST(Sharpen, OfFloats) {
  // Weights 0.274069, 0.451863.
  expect_near(run_like("sharpen", Floats{{1, 3}, {0, 1, 0}}), {-0.274069f, 1.548137f, -0.274069f});
  expect_near(run_like("sharpen", Floats{{1, 3}, {0, 1, 0}}, {{"amount", 2}}), {-0.548138f, 2.096274f, -0.548138f});
}

TEST(Sharpen, RefusesWhatItCannotDo) {
  const Bytes x{{1, 1}, {0}};
  expect_error(Errc::invalid_parameter, "[sharpen] parameter 'sigma' must be greater than 0, got 0",
               [&] { run_like("sharpen", x, {{"sigma", 0}}); });
  expect_error(Errc::invalid_parameter, "[sharpen] parameter 'amount' must be between -65536 and 65536",
               [&] { run_like("sharpen", x, {{"amount", 1e9}}); });
}

TEST(BoxBlur, IsTheMeanOfTheWindow) {
  EXPECT_EQ(run_like("box_blur", Bytes{{1, 3}, {0, 90, 30}}), (U8{30, 40, 50}));
  EXPECT_EQ(run_like("box_blur", Bytes{{3, 1}, {0, 90, 30}}), (U8{30, 40, 50}));
  // 210, 240 and 270 of 11.
  EXPECT_EQ(run_like("box_blur", Bytes{{1, 3}, {0, 90, 30}}, {{"radius", 5}}), (U8{19, 22, 25}));
  EXPECT_EQ(run_like("box_blur", Bytes{{3, 1}, {0, 90, 30}}, {{"radius", 5}}), (U8{19, 22, 25}));
  EXPECT_EQ(run_like("box_blur", Bytes{{1, 2}, {255, 255}}, {{"radius", 64}}), (U8{255, 255}));
  EXPECT_EQ(run_like("box_blur", Bytes{{1, 2}, {3, 200}}, {{"radius", 0}}), (U8{3, 200}));
}

TEST(BoxBlur, OfChannelsAndFloats) {
  EXPECT_EQ(run_like("box_blur", Bytes{{1, 2, 3}, {0, 3, 10, 30, 3, 100}}), (U8{10, 3, 40, 20, 3, 70}));
  expect_near(run_like("box_blur", Floats{{2, 2}, {0, 9, 18, 27}}), {9, 12, 15, 18});
  expect_near(run_like("box_blur", Floats{{1, 2}, {0, 11}}, {{"radius", 5}}), {5, 6});
}

TEST(Sobel, IsTheSteepness) {
  EXPECT_EQ(run_like("sobel", Bytes{{3, 3}, {0, 0, 10, 0, 0, 10, 0, 0, 10}}), (U8{0, 40, 40, 0, 40, 40, 0, 40, 40}));
  // (3, 4) at the only inner point of x = 3 column / 8, y = 4 row / 8 … times 8.
  EXPECT_EQ(run_like("sobel", Bytes{{3, 3}, {0, 3, 6, 4, 7, 10, 8, 11, 14}})[4], 40);
  EXPECT_EQ(run_like("sobel", Bytes{{1, 2}, {0, 255}}), (U8{255, 255}));
  expect_near(run_like("sobel", Floats{{1, 3}, {0, 1, 3}}), {4, 12, 8});
}

TEST(Sobel, KeepsAlpha) {
  EXPECT_EQ(run_like("sobel", Bytes{{1, 2, 4}, {0, 5, 0, 7, 10, 5, 99, 9}}), (U8{40, 0, 255, 7, 40, 0, 255, 9}));
  EXPECT_EQ(run_like("sobel", Bytes{{1, 2, 3}, {0, 5, 0, 10, 5, 1}}), (U8{40, 0, 4, 40, 0, 4}));
}

TEST(Denoise, IsTheMeanOfWhatIsNearAndSimilar) {
  const Params ones = {{"radius", 1}, {"sigma_space", 1}, {"sigma_color", 1}};
  // e^-1 / (1 + e^-0.5 + e^-1) in the middle; the rows above and below are the same.
  const std::vector<float> row = run_like("denoise", Floats{{1, 3}, {0, 0, 1}}, ones);
  EXPECT_NEAR(row[1], 0.186324f, 1e-5f);
  // An edge stays, a small step goes.
  EXPECT_EQ(run_like("denoise", Bytes{{1, 4}, {0, 0, 255, 255}}, {{"radius", 8}}), (U8{0, 0, 255, 255}));
  EXPECT_EQ(run_like("denoise", Bytes{{1, 2}, {100, 102}}, {{"radius", 8}, {"sigma_space", 100}}), (U8{101, 101}));
}

TEST(Denoise, TakesTheDistanceOfAllColors) {
  // Red is the same; blue says that they are far apart.
  EXPECT_EQ(run_like("denoise", Bytes{{1, 2, 3}, {100, 0, 0, 104, 0, 255}}, {{"sigma_color", 5}}),
            (U8{100, 0, 0, 104, 0, 255}));
  // Alpha says nothing, and is filtered too.
  const U8 z = run_like("denoise", Bytes{{1, 2, 4}, {9, 9, 9, 0, 9, 9, 9, 200}},
                        {{"radius", 8}, {"sigma_space", 1000}, {"sigma_color", 1}});
  EXPECT_EQ(channel_of(z, 4, 0), (U8{9, 9}));
  EXPECT_EQ(channel_of(z, 4, 3), (U8{94, 106}));  // 8 and 9 of 17
}

TEST(Denoise, StandsExtremeSigmas) {
  expect_near(run_like("denoise", Floats{{1, 2}, {1, 3}}, {{"sigma_color", 1e-30}, {"sigma_space", 1e-30}}), {1, 3});
  EXPECT_EQ(run_like("denoise", Bytes{{2, 2, 0}, {}}), U8{});
}

TEST(Denoise, RefusesWhatItCannotDo) {
  const Bytes x{{1, 1}, {0}};
  expect_error(Errc::invalid_parameter, "[denoise] parameter 'radius' must be between 1 and 8, got 0",
               [&] { run_like("denoise", x, {{"radius", 0}}); });
  expect_error(Errc::invalid_parameter, "[denoise] parameter 'sigma_space' must be greater than 0",
               [&] { run_like("denoise", x, {{"sigma_space", -2}}); });
  expect_error(Errc::invalid_parameter, "[denoise] parameter 'sigma_color' must be greater than 0",
               [&] { run_like("denoise", x, {{"sigma_color", 0}}); });
  expect_error(Errc::shape_mismatch, "[denoise] input 0 (x) must have at most 16 channels, got u8[1,1,17]",
               [] { run_like("denoise", Bytes{{1, 1, 17}, U8(17)}); });
}

}  // namespace
}  // namespace tessera::test
