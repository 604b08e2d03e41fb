#include "support/depth.hpp"
#include "support/expect_error.hpp"
#include "support/gaussian.hpp"
#include "support/images.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <utility>

namespace tessera::test {
namespace {

using U8 = std::vector<Byte>;

// Every third value of an interleaved image.
U8 channel_of(const U8& values, std::size_t channels, std::size_t number) {
  U8 all;
  for (std::size_t i = number; i < values.size(); i += channels) all.push_back(values[i]);
  return all;
}

template <Element T>
Image<T> noise(const Shape& shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  Image<T> image{shape, {}};
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const std::uint32_t any = random() % 256, kind = random() % 4;
    image.values.push_back(static_cast<T>(kind == 0 ? 0 : kind == 1 ? 255 : any));
  }
  return image;
}

// The weighted sums along an axis of numbers that are [H,W,C], borders repeated.
template <class Number>
std::vector<Number> summed_along(const std::vector<Number>& x, const Shape& shape, int axis,
                                 const std::vector<Number>& weights) {
  const std::int64_t height = shape[0], width = shape[1], channels = shape.rank() == 3 ? shape[2] : 1;
  const auto radius = static_cast<std::int64_t>(weights.size() / 2);
  std::vector<Number> sums;
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    const std::int64_t row = i / (width * channels), column = i / channels % width, channel = i % channels;
    Number sum = 0;
    for (std::int64_t k = -radius; k <= radius; ++k) {
      const std::int64_t y = std::clamp<std::int64_t>(axis == 0 ? row + k : row, 0, height - 1);
      const std::int64_t at = std::clamp<std::int64_t>(axis == 1 ? column + k : column, 0, width - 1);
      sum += weights[static_cast<std::size_t>(k + radius)] *
             x[static_cast<std::size_t>((y * width + at) * channels + channel)];
    }
    sums.push_back(sum);
  }
  return sums;
}

template <class Number, Element T>
std::vector<Number> window_sums(const Image<T>& x, const std::vector<Number>& weights) {
  const std::vector<Number> numbers(x.values.begin(), x.values.end());
  return summed_along(summed_along(numbers, x.shape, 1, weights), x.shape, 0, weights);
}

struct WideWindow {
  Shape shape;
  std::int64_t radius;
};
// Smaller and larger than the image, up to the largest.
const WideWindow wide_windows[] = {
    {{37, 301}, 65}, {{29, 45, 4}, 100}, {{7, 673, 3}, 300}, {{1, 1}, 300}, {{17, 5, 4}, 1024}};

TEST(GaussianBlur, RoundsItsWeightsSoThatTheySumTo256) {
  // sigma 0.5: 27, 202, 27 of 256.
  const Bytes row{{1, 3}, {0, 255, 0}};
  const Params half = {{"radius", 1}, {"sigma", 0.5}};
  EXPECT_EQ(run_like("gaussian_blur", row, half), (U8{27, 201, 27}));
  EXPECT_EQ(run_like("blur", row, half), (U8{27, 201, 27}));
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{3, 1}, {0, 255, 0}}, half), (U8{27, 201, 27}));
  // sigma 1: 70, 116, 70.
  EXPECT_EQ(run_like("gaussian_blur", row, {{"radius", 1}, {"sigma", 1}}), (U8{70, 116, 70}));
}

TEST(GaussianBlur, RepeatsTheBorder) {
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{1, 2}, {0, 255}}, {{"radius", 1}, {"sigma", 1}}), (U8{70, 185}));
  // Wider than the image.
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{1, 1}, {77}}, {{"radius", 15}}), (U8{77}));
  EXPECT_EQ(run_like("gaussian_blur", Bytes{{2, 1}, {90, 90}}, {{"radius", 64}}), (U8{90, 90}));
}

TEST(GaussianBlur, TakesChannelsAlike) {
  const Bytes x{{1, 3, 4}, {0, 255, 9, 0, 255, 0, 9, 0, 0, 255, 9, 255}};
  const U8 z = run_like("gaussian_blur", x, {{"radius", 1}, {"sigma", 1}});
  EXPECT_EQ(channel_of(z, 4, 0), (U8{70, 116, 70}));
  EXPECT_EQ(channel_of(z, 4, 1), (U8{185, 139, 185}));
  EXPECT_EQ(channel_of(z, 4, 2), (U8{9, 9, 9}));
  EXPECT_EQ(channel_of(z, 4, 3), (U8{0, 70, 185}));
}

TEST(GaussianBlur, OfFloats) {
  const Params half = {{"radius", 1}, {"sigma", 0.5}};
  expect_near(run_like("gaussian_blur", Floats{{1, 3}, {0, 1, 0}}, half), {0.106507f, 0.786986f, 0.106507f});
  expect_near(run_like("gaussian_blur", Floats{{3, 1, 1}, {0, 1, -1}}, half), {0.106507f, 0.680479f, -0.786986f});
  expect_near(run_like("gaussian_blur", Floats{{1, 1, 3}, {1, 2, 3}}, {{"radius", 2}}), {1, 2, 3});
}

TEST(GaussianBlur, Derives_the_radius_from_sigma_as_OpenCV_does) {
  const Bytes bytes = noise<Byte>({23, 31}, 3);
  const Floats floats = noise<float>({23, 31}, 4);
  struct Derived {
    double sigma;
    int of_bytes, of_floats;
  };
  // cvRound(6 * sigma + 1) | 1 and cvRound(8 * sigma + 1) | 1 pixels wide; 3.5 and 2.5 are rounded to even.
  for (const auto& [sigma, of_bytes, of_floats] :
       std::vector<Derived>{{0.05, 0, 0}, {0.25, 1, 1}, {5.0 / 12, 2, 2}, {1, 3, 4}, {1.6, 5, 7}, {4, 12, 16}}) {
    EXPECT_EQ(run_like("gaussian_blur", bytes, {{"sigma", sigma}}),
              run_like("gaussian_blur", bytes, {{"sigma", sigma}, {"radius", of_bytes}}))
        << sigma;
    EXPECT_EQ(run_like("gaussian_blur", floats, {{"sigma", sigma}}),
              run_like("gaussian_blur", floats, {{"sigma", sigma}, {"radius", of_floats}}))
        << sigma;
  }
  expect_error(Errc::invalid_parameter,
               "[gaussian_blur] parameter 'sigma' is 400, for which the radius would be above 1024: give one",
               [&] { run_like("gaussian_blur", bytes, {{"sigma", 400}}); });
  run_like("gaussian_blur", bytes, {{"sigma", 400}, {"radius", 4}});
}

TEST(GaussianBlur, Derives_sigma_from_the_radius_as_OpenCV_does) {
  const Bytes x = noise<Byte>({23, 31}, 3);
  for (const auto& [radius, sigma] :
       std::vector<std::pair<int, double>>{{0, 0.5}, {1, 0.8}, {2, 1.1}, {3, 1.4}, {11, 3.8}}) {
    EXPECT_EQ(run_like("gaussian_blur", x, {{"radius", radius}}),
              run_like("gaussian_blur", x, {{"radius", radius}, {"sigma", sigma}}))
        << radius;
  }
  EXPECT_EQ(run_like("gaussian_blur", x), run_like("gaussian_blur", x, {{"radius", 1}}));
}

constexpr const char* borders[] = {"clamp", "reflect", "reflect_101", "wrap", "zero"};

TEST(Borders, Say_what_is_outside_of_the_image) {
  const Floats row{{1, 3}, {10, 20, 60}}, column{{3, 1}, {10, 20, 60}};
  const auto blurred = [](const Floats& x, const char* border) {
    return run_like("box_blur", x, {{"radius", 2}, {"border", border}});
  };
  const std::vector<std::pair<const char*, std::vector<float>>> expected = {
      {"clamp", {22, 32, 42}},        // aa|abc|cc
      {"reflect", {24, 32, 34}},      // ba|abc|cb
      {"reflect_101", {34, 26, 24}},  // cb|abc|ba
      {"wrap", {34, 32, 24}},         // bc|abc|ab
      {"zero", {3.6f, 3.6f, 3.6f}}};  // of 5 rows, 4 are outside
  for (const auto& [border, values] : expected) {
    SCOPED_TRACE(border);
    expect_near(blurred(row, border), values);
    expect_near(blurred(column, border), values);
  }
  expect_near(run_like("box_blur", row, {{"radius", 2}}), expected[0].second);
}

TEST(Borders, Are_in_the_schema_of_every_filter) {
  int filters = 0;
  for (const KernelInfo& kernel : Device::open("cpu").kernels()) {
    const auto border = std::ranges::find(kernel.params, "border", &ParamInfo::name);
    if (border == kernel.params.end()) continue;
    ++filters;
    EXPECT_EQ(border->range, "one of clamp, reflect, reflect_101, wrap, zero") << kernel.name;
    EXPECT_EQ(border->default_value, Value("clamp")) << kernel.name;
  }
  EXPECT_EQ(filters, 5);
  expect_error(Errc::invalid_parameter,
               "[sobel] parameter 'border' must be one of clamp, reflect, reflect_101, wrap, zero, got \"reflect101\", "
               "did you mean 'reflect_101'?",
               [] { run_like("sobel", Bytes{{1, 1}, {0}}, {{"border", "reflect101"}}); });
}

TEST(Borders, Are_kept_by_fusion) {
  const Device device = Device::best();
  const Bytes picture = noise<Byte>({37, 41, 4}, 5);
  const Buffer x = device.buffer<Byte>(picture.values, picture.shape);
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const char* first : borders) {
    for (const char* second : borders) pairs.emplace_back(first, second);
  }
  for (const auto& [first, second] : test::sampled(pairs, 3)) {
    std::vector<U8> results;
    for (const bool fuse : {false, true}) {
      Pipeline pipeline(device, {.fuse = fuse});
      const Buffer dark = pipeline.temporary(picture.shape, u8), soft = pipeline.temporary(picture.shape, u8);
      const Buffer z = device.zeros(picture.shape, u8);
      pipeline.add("scale", {x}, dark, {{"factor", 0.75}})
          .add("gaussian_blur", {dark}, soft, {{"radius", 3}, {"border", std::string(first)}})
          .add("sharpen", {soft}, z, {{"amount", 0.5}, {"radius", 2}, {"border", std::string(second)}});
      pipeline.run();
      results.push_back(z.read<Byte>());
      // The first two stages always share a launch; the blur is too expensive to compute it at each point.
      const bool is_one = pipeline.explain().starts_with("pipeline: 3 stages in 1 group");
      EXPECT_EQ(is_one, fuse && second != "wrap") << pipeline.explain();
    }
    EXPECT_EQ(results[0], results[1]) << first << ", " << second;
  }
}

TEST(GaussianBlur, OfAnyRadiusIsExactOnBytes) {
  for (const auto& [shape, radius] : wide_windows) {
    const Bytes x = noise<Byte>(shape, 3);
    for (const double sigma : test::sampled<double>({static_cast<double>(radius) / 2, 30.0, 1e6}, 1)) {
      const U8 z = run_like("gaussian_blur", x, {{"radius", radius}, {"sigma", sigma}});
      const std::vector<std::int64_t> sums = window_sums(x, fixed_gaussian(radius, sigma));
      for (std::size_t i = 0; i < z.size(); ++i) {
        ASSERT_EQ(std::int64_t{z[i]}, (sums[i] + 32768) >> 16)
            << "at " << i << " of " << to_string(u8, shape) << ", radius " << radius << ", sigma " << sigma;
      }
    }
  }
}

TEST(GaussianBlur, OfAnyRadiusIsCloseOnFloats) {
  for (const auto& [shape, radius] : wide_windows) {
    const Floats x = noise<float>(shape, 4);
    for (const double sigma : test::sampled<double>({static_cast<double>(radius) / 2, 40.0, 1e6}, 1)) {
      const std::vector<double> sums = window_sums(x, gaussian(radius, sigma));
      SCOPED_TRACE(testing::Message() << to_string(f32, shape) << ", radius " << radius << ", sigma " << sigma);
      expect_near(run_like("gaussian_blur", x, {{"radius", radius}, {"sigma", sigma}}), {sums.begin(), sums.end()},
                  255 * 2e-6f);
    }
  }
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
  expect_error(Errc::invalid_parameter, "[gaussian_blur] parameter 'radius' must be", with({{"radius", 1025}}));
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
  const Bytes x = noise<Byte>({64, 96}, 5);
  for (std::int64_t amount = -3; amount < 515; ++amount) {
    const U8 z = run_like("sharpen", x, {{"amount", static_cast<double>(amount) / 256}});
    for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
      const std::int64_t wanted = sharpened(x, i / x.shape[1], i % x.shape[1], amount);
      ASSERT_EQ(std::int64_t{z[static_cast<std::size_t>(i)]}, wanted) << "at " << i << ", amount " << amount;
    }
  }
}

// A pixel that all around it differ from as much as they can: the greatest numbers of the sums, over vectors and their
// ends.
TEST(Sharpen, IsExactForTheSharpestPixels) {
  for (const bool is_white : {false, true}) {
    Bytes x{{5, 83}, {}};
    x.values.assign(5 * 83, is_white ? Byte{0} : Byte{255});
    for (std::size_t i = 0; i < x.values.size(); i += 3) x.values[i] = is_white ? Byte{255} : Byte{0};
    for (const std::int64_t amount : {1, 127, 128, 129, 256, 258, 384, 511, 512}) {
      const U8 z = run_like("sharpen", x, {{"amount", static_cast<double>(amount) / 256}});
      for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
        const std::int64_t wanted = sharpened(x, i / x.shape[1], i % x.shape[1], amount);
        ASSERT_EQ(std::int64_t{z[static_cast<std::size_t>(i)]}, wanted) << "at " << i << ", amount " << amount;
      }
    }
  }
}

// Weights that are a byte with a sign and such that are not, in vectors and at their ends, with and without channels.
TEST(GaussianBlur, IsExactForEveryWidth) {
  for (const double sigma : {0.4, 0.8, 0.9, 1.5, 100.0}) {
    for (std::int64_t width = 1; width < 140; width += width < 40 ? 1 : 13) {
      for (const std::int64_t channels : {1, 3, 4}) {
        const Bytes x = noise<Byte>({5, width, channels}, 8);
        const U8 z = run_like("gaussian_blur", x, {{"radius", 3}, {"sigma", sigma}});
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          const Bytes one{{5, width}, channel_of(x.values, static_cast<int>(channels), static_cast<int>(channel))};
          const std::vector<std::int64_t> sums = window_sums(one, fixed_gaussian(3, sigma));
          const U8 found = channel_of(z, static_cast<int>(channels), static_cast<int>(channel));
          for (std::size_t i = 0; i < found.size(); ++i) {
            ASSERT_EQ(std::int64_t{found[i]}, (sums[i] + 32768) >> 16)
                << "at " << i << " of channel " << channel << " of " << channels << ", width " << width << ", sigma "
                << sigma;
          }
        }
      }
    }
  }
}

TEST(Sharpen, OfAnyRadiusIsExactOnBytes) {
  for (const auto& [shape, radius] : std::span(wide_windows).first(2)) {
    const Bytes x = noise<Byte>(shape, 6);
    const double sigma = static_cast<double>(radius) / 2;
    const std::vector<std::int64_t> blur = window_sums(x, fixed_gaussian(radius, sigma));
    for (const std::int64_t amount : test::sampled<std::int64_t>({-300, 200, 1 << 20}, 1)) {
      const Params params = {{"radius", radius}, {"sigma", sigma}, {"amount", static_cast<double>(amount) / 256}};
      const U8 z = run_like("sharpen", x, params);
      for (std::size_t i = 0; i < z.size(); ++i) {
        const std::int64_t middle = x.values[i];
        const std::int64_t sum = (middle << 24) + amount * ((middle << 16) - blur[i]) + (1 << 23);
        ASSERT_EQ(std::int64_t{z[i]}, std::clamp<std::int64_t>(sum >> 24, 0, 255))
            << "at " << i << " of " << to_string(u8, shape) << ", radius " << radius << ", amount " << amount;
      }
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

TEST(BoxBlur, OfAnyRadiusIsExactOnBytes) {
  for (const auto& [shape, radius] : wide_windows) {
    const Bytes x = noise<Byte>(shape, 8);
    const std::int64_t side = 2 * radius + 1, window = side * side;
    const U8 z = run_like("box_blur", x, {{"radius", radius}});
    const std::vector<std::int64_t> sums = window_sums(x, std::vector<std::int64_t>(static_cast<std::size_t>(side), 1));
    for (std::size_t i = 0; i < z.size(); ++i) {
      ASSERT_EQ(std::int64_t{z[i]}, (2 * sums[i] + window) / (2 * window))
          << "at " << i << " of " << to_string(u8, shape) << ", radius " << radius;
    }
  }
}

TEST(BoxBlur, OfAnyRadiusIsCloseOnFloats) {
  for (const auto& [shape, radius] : wide_windows) {
    const Floats x = noise<float>(shape, 9);
    const double side = static_cast<double>(2 * radius + 1);
    std::vector<double> means = window_sums(x, std::vector<double>(static_cast<std::size_t>(side), 1));
    for (double& mean : means) mean /= side * side;
    SCOPED_TRACE(testing::Message() << to_string(f32, shape) << ", radius " << radius);
    expect_near(run_like("box_blur", x, {{"radius", radius}}), {means.begin(), means.end()}, 255 * 4e-6f);
  }
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

TEST(Denoise, HasAStrength) {
  const Bytes x{{1, 2}, {100, 120}};
  EXPECT_EQ(run_like("denoise", x, {{"strength", 0.2}}), run_like("denoise", x, {{"sigma_color", 51}}));
  expect_error(Errc::invalid_parameter, "[denoise] 'sigma_color' and 'strength' mean the same: give one",
               [&] { run_like("denoise", x, {{"strength", 0.2}, {"sigma_color", 51}}); });
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
