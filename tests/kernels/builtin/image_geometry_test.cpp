#include "support/expect_error.hpp"
#include "support/images.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace tessera::test {
namespace {

using U8 = std::vector<Byte>;

const Bytes two{{1, 2}, {0, 100}};

TEST(Resize, Bilinear) {
  EXPECT_EQ((run<Byte>("resize", {1, 4}, {}, two)), (U8{0, 25, 75, 100}));
  EXPECT_EQ((run<Byte>("resize", {4, 1}, {}, Bytes{{2, 1}, {0, 100}})), (U8{0, 25, 75, 100}));
  EXPECT_EQ((run<Byte>("resize", {2, 2}, {}, two)), (U8{0, 100, 0, 100}));
  EXPECT_EQ((run<Byte>("resize", {1, 1}, {}, two)), (U8{50}));
  EXPECT_EQ((run<Byte>("resize", {1, 4, 3}, {}, Bytes{{1, 2, 3}, {0, 7, 100, 100, 7, 0}})),
            (U8{0, 7, 100, 25, 7, 75, 75, 7, 25, 100, 7, 0}));
  expect_near(run<float>("resize", {3, 1}, {}, Floats{{2, 1}, {-1, 1}}), {-1, 0, 1});
}

TEST(Resize, Nearest) {
  EXPECT_EQ((run<Byte>("resize", {2, 4}, {{"method", "nearest"}}, two)), (U8{0, 0, 100, 100, 0, 0, 100, 100}));
  EXPECT_EQ((run<Byte>("resize", {1, 1}, {{"method", "nearest"}}, two)), (U8{100}));
  expect_near(
      run<float>("resize", {1, 1, 4}, {{"method", "nearest"}}, Floats{{1, 3, 4}, {0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}}),
      {1, 2, 3, 4}, 0);
}

// Where the centre of a point lies on the boundary of two pixels, it is the second's.
TEST(Resize, NearestIsExact) {
  for (const int in : {1, 2, 3, 7, 20, 1000, 4097}) {
    for (const int out : {1, 2, 3, 41, 82, 123, 999, 5001}) {
      std::vector<float> row(static_cast<std::size_t>(in));
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
      const auto z = run<float>("resize", {1, out}, {{"method", "nearest"}}, Floats{{1, in}, row});
      for (int i = 0; i < out; ++i) {
        ASSERT_EQ(z[static_cast<std::size_t>(i)], static_cast<float>((2 * i + 1) * in / (2 * out)))
            << in << " to " << out << " at " << i;
      }
    }
  }
}

TEST(Resize, NearestOfLongRows) {
  const std::int64_t in = 5'000'001, out = 7'000'003;
  std::vector<float> row(static_cast<std::size_t>(in));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
  const auto z = run<float>("resize", {1, out}, {{"method", "nearest"}}, Floats{{1, in}, row});
  for (std::int64_t i = 0; i < out; ++i) {
    ASSERT_EQ(z[static_cast<std::size_t>(i)], static_cast<float>((2 * i + 1) * in / (2 * out))) << i;
  }
}

// Of the elements -1, 0, 1 and 2 from the one before a place.
std::array<double, 4> weights_at(double t, bool is_cubic) {
  if (!is_cubic) return {0, 1 - t, t, 0};
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

TEST(Resize, IsRightHoweverLongTheRowIs) {
  constexpr std::int64_t sizes[][2] = {{5000, 7919}, {20000, 333}, {40000, 40001}, {333, 20000}, {1'500'000, 5003}};
  for (const auto& [in, out] : sizes) {
    Floats row{{1, in}, {}};
    for (std::int64_t i = 0; i < in; ++i) row.values.push_back(static_cast<float>(i * i * 7 % 256));
    for (const bool is_cubic : {false, true}) {
      const auto z = run<float>("resize", {1, out}, {{"method", is_cubic ? "bicubic" : "bilinear"}}, row);
      for (std::int64_t i = 0; i < out; ++i) {
        const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
        const auto first = static_cast<std::int64_t>(std::floor(centre));
        const std::array<double, 4> weights = weights_at(centre - std::floor(centre), is_cubic);
        double wanted = 0;
        for (std::int64_t k = 0; k < 4; ++k) {
          const std::int64_t at = std::clamp<std::int64_t>(first - 1 + k, 0, in - 1);
          wanted +=
              weights[static_cast<std::size_t>(k)] * static_cast<double>(row.values[static_cast<std::size_t>(at)]);
        }
        ASSERT_NEAR(static_cast<double>(z[static_cast<std::size_t>(i)]), wanted, 5e-4)
            << in << " to " << out << " at " << i << (is_cubic ? ", bicubic" : ", bilinear");
      }
    }
  }
}

TEST(Resize, Bicubic) {
  // At 0.25 and 0.75 between two elements: -0.10546875, 0.87890625, 0.26171875, -0.03515625.
  expect_near(run<float>("resize", {1, 4}, {{"method", "bicubic"}}, Floats{{1, 2}, {0, 100}}),
              {-10.546875f, 22.65625f, 77.34375f, 110.546875f}, 1e-3f);
  EXPECT_EQ((run<Byte>("resize", {1, 4}, {{"method", "bicubic"}}, two)), (U8{0, 23, 77, 111}));
  EXPECT_EQ((run<Byte>("resize", {4, 1, 3}, {{"method", "bicubic"}}, Bytes{{2, 1, 3}, {0, 9, 100, 100, 9, 0}})),
            (U8{0, 9, 111, 23, 9, 77, 77, 9, 23, 111, 9, 0}));
}

TEST(Resize, ToAndFromNothing) {
  EXPECT_EQ((run<Byte>("resize", {0, 4}, {}, two)), U8{});
  expect_error(Errc::shape_mismatch, "[resize] input 0 (x) has no pixels: u8[0,2]",
               [] { run<Byte>("resize", {1, 1}, {}, Bytes{{0, 2}, {}}); });
}

TEST(Resize, RefusesWhatItCannotDo) {
  expect_error(Errc::invalid_parameter, "[resize] parameter 'method' must be one of bilinear, nearest, bicubic",
               [] { run<Byte>("resize", {1, 4}, {{"method", "linear"}}, two); });
  expect_error(Errc::shape_mismatch, "[resize] output must be [h,w] like input 0 (x), got u8[1,4,1]",
               [] { run<Byte>("resize", {1, 4, 1}, {}, two); });
  expect_error(Errc::shape_mismatch, "[resize] output must be [h,w,3] like input 0 (x), got u8[2,2,4]",
               [] { run<Byte>("resize", {2, 2, 4}, {}, Bytes{{1, 1, 3}, {1, 2, 3}}); });
  expect_error(Errc::dtype_mismatch, "[resize] output must be u8[1,4], got f32[1,4]",
               [] { run<float>("resize", {1, 4}, {}, two); });
  expect_error(Errc::dtype_mismatch, "[resize] input 0 (x) must be f32 or u8, got f64",
               [] { run<double>("resize", {1, 4}, {}, Image<double>{{1, 1}, {1}}); });
}

TEST(Crop, IsAPart) {
  const Bytes x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ((run<Byte>("crop", {1, 2}, {{"top", 1}, {"left", 1}}, x)), (U8{5, 6}));
  EXPECT_EQ((run<Byte>("crop", {2, 1}, {}, x)), (U8{1, 4}));
  EXPECT_EQ((run<Byte>("crop", {2, 3}, {}, x)), x.values);
  EXPECT_EQ((run<Byte>("crop", {0, 3}, {{"top", 2}}, x)), U8{});
  EXPECT_EQ((run<Byte>("crop", {1, 1, 3}, {{"left", 1}}, Bytes{{1, 2, 3}, {1, 2, 3, 4, 5, 6}})), (U8{4, 5, 6}));
  EXPECT_EQ((run<double>("crop", {1, 1}, {{"left", 1}}, Image<double>{{1, 2}, {0.5, 0.25}})),
            std::vector<double>{0.25});
  EXPECT_EQ((run<std::int64_t>("crop", {1, 1}, {}, Image<std::int64_t>{{1, 1}, {1LL << 60}})),
            std::vector<std::int64_t>{1LL << 60});
}

TEST(Crop, IsVideoCropToo) {
  const Bytes x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ((run<Byte>("video_crop", {1, 2}, {{"x", 1}, {"y", 1}, {"width", 2}, {"height", 1}}, x)), (U8{5, 6}));
  expect_error(Errc::shape_mismatch, "[crop] output must be u8[1,3], got u8[1,2]",
               [&] { run<Byte>("video_crop", {1, 2}, {{"width", 3}}, x); });
  expect_error(Errc::invalid_parameter, "[crop] 'x' and 'left' are the same parameter: give one",
               [&] { run<Byte>("video_crop", {1, 2}, {{"x", 1}, {"left", 1}}, x); });
}

TEST(BicubicScale, IsResizeByItsMethod) {
  const Bytes x{{2, 3}, {1, 200, 3, 40, 5, 160}};
  EXPECT_EQ((run<Byte>("bicubic_scale", {4, 5}, {{"width", 5}, {"height", 4}}, x)),
            (run<Byte>("resize", {4, 5}, {{"method", "bicubic"}}, x)));
  expect_error(Errc::shape_mismatch, "[bicubic_scale] output must be u8[4,6], got u8[4,5]",
               [&] { run<Byte>("bicubic_scale", {4, 5}, {{"width", 6}}, x); });
  expect_error(Errc::invalid_parameter, "[bicubic_scale] parameter 'height' must be at least 0, got -4",
               [&] { run<Byte>("bicubic_scale", {4, 5}, {{"height", -4}}, x); });
}

TEST(Crop, RefusesWhatItCannotDo) {
  const Bytes x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  expect_error(Errc::invalid_parameter,
               "[crop] parameter 'top' is 1: output u8[2,3] must lie inside input 0 (x), u8[2,3]",
               [&] { run<Byte>("crop", {2, 3}, {{"top", 1}}, x); });
  expect_error(Errc::invalid_parameter, "[crop] parameter 'left' is 0: output u8[2,4] must lie inside",
               [&] { run<Byte>("crop", {2, 4}, {}, x); });
  expect_error(Errc::invalid_parameter, "[crop] parameter 'left' must be at least 0, got -1",
               [&] { run<Byte>("crop", {1, 1}, {{"left", -1}}, x); });
  expect_error(Errc::invalid_parameter, "[crop] parameter 'top' is 9223372036854775807: output",
               [&] { run<Byte>("crop", {1, 1}, {{"top", INT64_MAX}}, x); });
  expect_error(Errc::shape_mismatch, "[crop] output must be [h,w] like input 0 (x), got u8[1,1,1]",
               [&] { run<Byte>("crop", {1, 1, 1}, {}, x); });
  expect_error(Errc::dtype_mismatch, "[crop] output must be u8[1,1], got f32[1,1]",
               [&] { run<float>("crop", {1, 1}, {}, x); });
  expect_error(Errc::shape_mismatch, "[crop] input 0 (x) must have rank 2 to 3, got u8[4]",
               [] { run<Byte>("crop", {4}, {}, Bytes{{4}, {1, 2, 3, 4}}); });
}

const Bytes pixel{{1, 1, 3}, {255, 0, 128}};

TEST(Preprocess, NormalisesByChannel) {
  expect_near(run<float>("preprocess", {1, 3, 1, 1}, {}, pixel), {2.248908f, -2.035714f, 0.426493f});
  expect_near(run<float>("preprocess", {1, 3, 1, 1}, {{"normalize", false}, {"size", {1, 1}}}, pixel),
              {1, 0, 0.501961f});
  expect_near(run<float>("preprocess", {1, 3, 1, 1}, {{"mean", {0, 0, 0}}, {"std", {0.5, 1, 2}}}, pixel),
              {2, 0, 0.250980f});
}

TEST(Preprocess, ResizesIntoPlanes) {
  const Bytes x{{1, 2, 4}, {0, 51, 255, 9, 102, 51, 0, 9}};
  expect_near(run<float>("preprocess", {1, 3, 1, 4}, {{"normalize", false}}, x),
              {0, 0.1f, 0.3f, 0.4f, 0.2f, 0.2f, 0.2f, 0.2f, 1, 0.75f, 0.25f, 0});
}

TEST(Preprocess, RefusesWhatItCannotDo) {
  const auto with = [](const Shape& out, const Params& params) {
    return [out, params] { run<float>("preprocess", out, params, pixel); };
  };
  expect_error(Errc::shape_mismatch, "[preprocess] output must be f32[1,3,2,3], got f32[1,3,1,1]",
               with({1, 3, 1, 1}, {{"size", {2, 3}}}));
  expect_error(Errc::shape_mismatch, "[preprocess] output must be f32[1,3,h,w], got f32[3,1,1]", with({3, 1, 1}, {}));
  expect_error(Errc::invalid_parameter, "[preprocess] parameter 'size' must be a list of 2 numbers, got [1, 1, 1]",
               with({1, 3, 1, 1}, {{"size", {1, 1, 1}}}));
  expect_error(Errc::invalid_parameter, "[preprocess] parameter 'size' must be between 1 and 1048576",
               with({1, 3, 1, 1}, {{"size", {0, 1}}}));
  expect_error(Errc::invalid_parameter, "[preprocess] parameter 'size' must be between 1 and 1048576",
               with({1, 3, 1, 1}, {{"size", {std::int64_t{1} << 40, std::int64_t{1} << 40}}}));
  expect_error(Errc::invalid_parameter, "[preprocess] parameter 'mean' must be a list of 3 numbers, got [1, 2]",
               with({1, 3, 1, 1}, {{"mean", {1, 2}}}));
  expect_error(Errc::invalid_parameter, "[preprocess] parameter 'normalize' must be a bool",
               with({1, 3, 1, 1}, {{"normalize", 1}}));
  expect_error(Errc::dtype_mismatch, "[preprocess] input 0 (x) must be u8, got f32[1,1,3]",
               [] { run<float>("preprocess", {1, 3, 1, 1}, {}, Floats{{1, 1, 3}, {0, 0, 0}}); });
  expect_error(Errc::shape_mismatch, "[preprocess] input 0 (x) must be [H,W,3] or [H,W,4], got u8[1,1]",
               [] { run<float>("preprocess", {1, 3, 1, 1}, {}, Bytes{{1, 1}, {0}}); });
  expect_error(Errc::dtype_mismatch, "[preprocess] output must be f32[1,3,1,1], got u8[1,3,1,1]",
               [] { run<Byte>("preprocess", {1, 3, 1, 1}, {}, pixel); });
}

}  // namespace
}  // namespace tessera::test
