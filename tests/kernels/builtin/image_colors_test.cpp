#include "support/expect_error.hpp"
#include "support/images.hpp"

namespace tessera::test {
namespace {

using U8 = std::vector<Byte>;

const Bytes rgb{{1, 2, 3}, {255, 0, 0, 10, 20, 30}};
const Bytes rgba{{1, 2, 4}, {255, 0, 0, 7, 10, 20, 30, 9}};
const Floats colors{{1, 1, 4}, {0.5f, 0.25f, 1, 0.125f}};

TEST(Grayscale, OfBytes) {
  // 0.299 * 255 = 76.2; 2.99 + 11.74 + 3.42 = 18.15
  EXPECT_EQ((run<Byte>("grayscale", {1, 2}, {}, rgb)), (U8{76, 18}));
  EXPECT_EQ((run<Byte>("grayscale", {1, 2, 1}, {}, rgba)), (U8{76, 18}));
  EXPECT_EQ((run<Byte>("grayscale", {1, 2, 4}, {}, rgba)), (U8{76, 76, 76, 7, 18, 18, 18, 9}));
}

TEST(Grayscale, OfFloats) {
  expect_near(run<float>("grayscale", {1, 1}, {}, colors), {0.41025f});
  expect_near(run_like("grayscale", colors), {0.41025f, 0.41025f, 0.41025f, 0.125f});
}

TEST(Grayscale, RefusesWhatItCannotDo) {
  expect_error(Errc::shape_mismatch, "[grayscale] output must be u8[1,2], got u8[1,2,4]",
               [] { run<Byte>("grayscale", {1, 2, 4}, {}, rgb); });
  expect_error(Errc::shape_mismatch, "[grayscale] output must be u8[1,2], got u8[2,1]",
               [] { run<Byte>("grayscale", {2, 1}, {}, rgb); });
  expect_error(Errc::shape_mismatch, "[grayscale] input 0 (x) must be [H,W,3] or [H,W,4], got u8[1,2]",
               [] { run<Byte>("grayscale", {1, 2}, {}, Bytes{{1, 2}, {0, 0}}); });
  expect_error(Errc::dtype_mismatch, "[grayscale] output must be u8[1,2], got f32[1,2]",
               [] { run<float>("grayscale", {1, 2}, {}, rgb); });
  expect_error(Errc::dtype_mismatch, "[grayscale] input 0 (x) must be f32 or u8, got s64",
               [] { run<Byte>("grayscale", {1, 1}, {}, Image<std::int64_t>{{1, 1, 3}, {1, 2, 3}}); });
}

TEST(BrightnessContrast, OfBytes) {
  const Bytes x{{1, 4}, {0, 100, 128, 255}};
  EXPECT_EQ(run_like("brightness_contrast", x), x.values);
  EXPECT_EQ(run_like("brightness_contrast", x, {{"brightness", 0.2}}), (U8{51, 151, 179, 255}));
  EXPECT_EQ(run_like("brightness_contrast", x, {{"contrast", 2}}), (U8{0, 73, 129, 255}));  // 72.5, 128.5
  EXPECT_EQ(run_like("brightness_contrast", x, {{"contrast", 0}, {"brightness", -1}}), (U8{0, 0, 0, 0}));
}

TEST(BrightnessContrast, KeepsAlpha) {
  EXPECT_EQ(run_like("brightness_contrast", rgba, {{"brightness", 0.2}}), (U8{255, 51, 51, 7, 61, 71, 81, 9}));
  expect_near(run_like("brightness_contrast", colors, {{"brightness", 0.1}, {"contrast", 2}}),
              {0.6f, 0.1f, 1.6f, 0.125f});
  EXPECT_EQ(run_like("brightness_contrast", rgb, {{"brightness", 0.2}}), (U8{255, 51, 51, 61, 71, 81}));
}

TEST(Saturation, MovesFromGray) {
  EXPECT_EQ(run_like("saturation", rgba), rgba.values);
  EXPECT_EQ(run_like("saturation", rgba, {{"amount", 0}}), (U8{76, 76, 76, 7, 18, 18, 18, 9}));
  EXPECT_EQ(run_like("saturation", rgb, {{"amount", 2}}), (U8{255, 0, 0, 2, 22, 42}));  // 18.15 +- …
  expect_near(run_like("saturation", colors, {{"amount", 0.5}}), {0.455125f, 0.330125f, 0.705125f, 0.125f});
  expect_error(Errc::shape_mismatch, "[saturation] input 0 (x) must be [H,W,3] or [H,W,4], got u8[1,1,2]",
               [] { run_like("saturation", Bytes{{1, 1, 2}, {0, 0}}); });
}

TEST(Sepia, IsBrown) {
  EXPECT_EQ(run_like("sepia", rgb), (U8{100, 89, 69, 25, 22, 17}));
  EXPECT_EQ(run_like("sepia", rgba, {{"amount", 0}}), rgba.values);
  EXPECT_EQ(run_like("sepia", Bytes{{1, 1, 4}, {255, 255, 255, 3}}), (U8{255, 255, 239, 3}));
  expect_near(run_like("sepia", colors, {{"amount", 0.5}}), {0.538875f, 0.382f, 0.70025f, 0.125f});
}

TEST(Vignette, DarkensTheCorners) {
  // Pixel centres of 2x2 are at half the way to the corner.
  const Floats x{{2, 2}, {1, 1, 1, 1}};
  expect_near(run_like("vignette", x), {1, 1, 1, 1});
  // t = 0.5: 3t^2 - 2t^3 = 0.5
  expect_near(run_like("vignette", x, {{"radius", 0}, {"strength", 1}}), {0.5f, 0.5f, 0.5f, 0.5f});
  expect_near(run_like("vignette", Floats{{1, 1}, {3}}, {{"radius", 0}, {"strength", 1}}), {3});
  expect_near(run_like("vignette", x, {{"radius", 1}, {"strength", 1}}), {1, 1, 1, 1});
  EXPECT_EQ(run_like("vignette", Bytes{{2, 2}, {100, 200, 0, 255}}, {{"radius", 0}}), (U8{75, 150, 0, 191}));
}

TEST(Vignette, KeepsAlpha) {
  const Bytes x{{2, 1, 4}, {100, 200, 0, 77, 100, 200, 0, 78}};
  // d = 0.5 / (sqrt(5) / 2) = 0.4472: 3d^2 - 2d^3 = 0.4211; 1 - 0.5 * 0.4211 = 0.7894
  EXPECT_EQ(run_like("vignette", x, {{"radius", 0}}), (U8{79, 158, 0, 77, 79, 158, 0, 78}));
  EXPECT_EQ(run_like("vignette", Bytes{{2, 1, 3}, {100, 200, 0, 100, 200, 0}}, {{"radius", 0}}),
            (U8{79, 158, 0, 79, 158, 0}));
}

Bytes inverse_table() {
  Bytes lut{{256}, U8(256)};
  for (int i = 0; i < 256; ++i) lut.values[static_cast<std::size_t>(i)] = static_cast<Byte>(255 - i);
  return lut;
}

TEST(LutApply, LooksUp) {
  const Bytes lut = inverse_table();
  EXPECT_EQ((run<Byte>("lut_apply", {1, 2, 3}, {}, rgb, lut)), (U8{0, 255, 255, 245, 235, 225}));
  Floats floats{{256}, std::vector<float>(lut.values.begin(), lut.values.end())};
  floats.values[10] = 0.5f;
  expect_near(run<float>("lut_apply", {1, 2}, {}, Bytes{{1, 2}, {10, 255}}, floats), {0.5f, 0});
}

TEST(LutApply, HasATableForEachChannel) {
  Bytes lut{{256, 3}, U8(768)};
  for (std::size_t i = 0; i < 768; ++i) lut.values[i] = static_cast<Byte>(i / 3 / (i % 3 + 1));
  EXPECT_EQ((run<Byte>("lut_apply", {1, 2, 3}, {}, Bytes{{1, 2, 3}, {60, 60, 60, 255, 254, 252}}, lut)),
            (U8{60, 30, 20, 255, 127, 84}));
  expect_error(Errc::shape_mismatch, "[lut_apply] input 1 (lut) must be [256] or [256,4], got u8[256,3]",
               [&] { run<Byte>("lut_apply", rgba.shape, {}, rgba, lut); });
}

TEST(LutApply, RefusesWhatItCannotDo) {
  const Bytes lut = inverse_table();
  expect_error(Errc::dtype_mismatch, "[lut_apply] input 0 (x) must be u8, got f32[1,1,4]",
               [&] { run<Byte>("lut_apply", colors.shape, {}, colors, lut); });
  expect_error(Errc::dtype_mismatch, "[lut_apply] input 1 (lut) must be f32 or u8, got s32",
               [&] { run<Byte>("lut_apply", rgb.shape, {}, rgb, Image<std::int32_t>{{1}, {1}}); });
  expect_error(Errc::dtype_mismatch, "[lut_apply] output must be u8[1,2,3], got f32[1,2,3]",
               [&] { run<float>("lut_apply", rgb.shape, {}, rgb, lut); });
  expect_error(Errc::shape_mismatch, "[lut_apply] output must be u8[1,2,3], got u8[1,2]",
               [&] { run<Byte>("lut_apply", {1, 2}, {}, rgb, lut); });
  expect_error(Errc::count_mismatch, "[lut_apply] takes 2 inputs, got 1", [] { run_like("lut_apply", rgb); });
}

TEST(ChromaKey, MakesAColorTransparent) {
  const Bytes x{{1, 3, 3}, {0, 255, 0, 255, 0, 0, 0, 200, 0}};
  EXPECT_EQ((run<Byte>("chroma_key", {1, 3, 4}, {}, x)), (U8{0, 255, 0, 0, 255, 0, 0, 255, 0, 200, 0, 0}));
  // d = 55 / 255 / sqrt(3) = 0.12453
  EXPECT_EQ((run<Byte>("chroma_key", {1, 3, 4}, {{"threshold", 0.1}}, x))[11], 63);
  EXPECT_EQ((run<Byte>("chroma_key", {1, 3, 4}, {{"threshold", 0.1}, {"softness", 0}}, x))[11], 255);
  EXPECT_EQ((run<Byte>("chroma_key", {1, 3, 4}, {{"color", {255, 0, 0}}}, x))[3], 255);
}

TEST(ChromaKey, TakesItsColorAsText) {
  const Bytes x{{1, 2, 3}, {0, 255, 0, 255, 0, 255}};
  const auto alphas = [&](const char* color) {
    const U8 z = run<Byte>("chroma_key", {1, 2, 4}, {{"color", color}}, x);
    return U8{z[3], z[7]};
  };
  for (const char* color : {"green", "#00ff00", "#00FF00", "#0f0"}) EXPECT_EQ(alphas(color), (U8{0, 255})) << color;
  for (const char* color : {"magenta", "#ff00ff"}) EXPECT_EQ(alphas(color), (U8{255, 0})) << color;
  expect_near(run<float>("chroma_key", {1, 1, 4}, {{"color", "#ff0000"}}, Floats{{1, 1, 3}, {1, 0, 0}}), {1, 0, 0, 0});
  expect_error(Errc::invalid_parameter,
               "[chroma_key] parameter 'color' must be #rrggbb, #rgb or one of black, white, gray, red, green, blue, "
               "yellow, cyan, magenta, got \"grene\", did you mean 'green'?",
               [&] { alphas("grene"); });
  for (const char* color : {"", "#", "#00ff0", "#00ff0g", "00ff00", "#00ff00ff"}) {
    expect_error(Errc::invalid_parameter, "parameter 'color' must be #rrggbb", [&] { alphas(color); });
  }
  expect_error(Errc::invalid_parameter,
               "[chroma_key] parameter 'color' must be a list of 3 numbers or a text, got an integer, 255",
               [&] { run<Byte>("chroma_key", {1, 2, 4}, {{"color", 255}}, x); });
}

TEST(ChromaKey, MultipliesAlpha) {
  const Bytes x{{1, 2, 4}, {0, 255, 0, 100, 255, 0, 255, 100}};
  EXPECT_EQ(run_like("chroma_key", x), (U8{0, 255, 0, 0, 255, 0, 255, 100}));
  expect_near(run_like("chroma_key", Floats{{1, 2, 4}, {0, 1, 0, 0.5f, 1, 0, 1, 0.5f}}), {0, 1, 0, 0, 1, 0, 1, 0.5f});
  expect_near(run<float>("chroma_key", {1, 1, 4}, {}, Floats{{1, 1, 3}, {1, 1, 1}}), {1, 1, 1, 1});
}

TEST(ChromaKey, RefusesWhatItCannotDo) {
  expect_error(Errc::invalid_parameter, "[chroma_key] parameter 'color' must be a list of 3 numbers, got [1, 2]",
               [] { run_like("chroma_key", rgba, {{"color", {1, 2}}}); });
  expect_error(Errc::invalid_parameter, "[chroma_key] parameter 'softness' must be at least 0, got -1",
               [] { run_like("chroma_key", rgba, {{"softness", -1}}); });
  expect_error(Errc::shape_mismatch, "[chroma_key] output must be u8[1,2,4], got u8[1,2,3]",
               [] { run_like("chroma_key", rgb); });
}

TEST(OverlayAlpha, LaysOver) {
  const Bytes top{{1, 2, 4}, {100, 100, 100, 255, 110, 120, 130, 51}};
  EXPECT_EQ((run<Byte>("overlay_alpha", rgb.shape, {}, rgb, top)), (U8{100, 100, 100, 30, 40, 50}));
  // alpha: 255; 51 + 9 * 0.8 = 58.2
  EXPECT_EQ((run<Byte>("overlay_alpha", rgba.shape, {}, rgba, top)), (U8{100, 100, 100, 255, 30, 40, 50, 58}));
  EXPECT_EQ((run<Byte>("overlay_alpha", rgba.shape, {{"opacity", 0}}, rgba, top)), rgba.values);
  expect_near(run<float>("overlay_alpha", colors.shape, {}, colors, Floats{{1, 1, 4}, {1, 0, 0, 0.5f}}),
              {0.75f, 0.125f, 0.5f, 0.5625f});
}

TEST(OverlayAlpha, LaysASmallerImageAtAPosition) {
  const Bytes dot{{1, 1, 4}, {100, 110, 120, 255}};
  EXPECT_EQ((run<Byte>("overlay_alpha", rgb.shape, {{"x", 1}}, rgb, dot)), (U8{255, 0, 0, 100, 110, 120}));
  EXPECT_EQ((run<Byte>("overlay_alpha", rgb.shape, {{"x", 1}, {"alpha", 0.5}}, rgb, dot)), (U8{255, 0, 0, 55, 65, 75}));
  for (const int x : {-1, 2, 1000000}) {
    EXPECT_EQ((run<Byte>("overlay_alpha", rgb.shape, {{"x", x}}, rgb, dot)), rgb.values) << x;
  }
  expect_error(Errc::invalid_parameter, "[overlay_alpha] 'alpha' and 'opacity' are the same parameter: give one",
               [&] { run<Byte>("overlay_alpha", rgb.shape, {{"alpha", 1}, {"opacity", 1}}, rgb, dot); });
  expect_error(Errc::invalid_parameter, "[overlay_alpha] parameter 'x' must be an integer, got a number, 0.5",
               [&] { run<Byte>("overlay_alpha", rgb.shape, {{"x", 0.5}}, rgb, dot); });
}

TEST(OverlayAlpha, RefusesWhatItCannotDo) {
  expect_error(Errc::shape_mismatch, "[overlay_alpha] input 1 (top) must be [h,w,4], got u8[1,2,3]",
               [] { run<Byte>("overlay_alpha", rgb.shape, {}, rgb, rgb); });
  expect_error(Errc::dtype_mismatch, "[overlay_alpha] input 1 (top) must be u8, got f32[1,1,4]",
               [] { run<Byte>("overlay_alpha", rgb.shape, {}, rgb, colors); });
  expect_error(Errc::shape_mismatch, "[overlay_alpha] input 0 (base) must be u8[1,2,4] like the output, got u8[1,2,3]",
               [] { run<Byte>("overlay_alpha", rgba.shape, {}, rgb, rgba); });
}

TEST(VideoMix, CombinesTwoFrames) {
  const Bytes a{{1, 1, 4}, {100, 200, 0, 90}}, b{{1, 1, 4}, {200, 100, 255, 10}};
  const auto mixed = [&](const Params& params) { return run<Byte>("video_mix", {1, 1, 4}, params, a, b); };
  EXPECT_EQ(mixed({}), (U8{150, 150, 128, 50}));
  EXPECT_EQ(mixed({{"ratio", 0.25}}), (U8{125, 175, 64, 70}));
  EXPECT_EQ(mixed({{"mode", "add"}, {"ratio", 1}}), (U8{255, 255, 255, 90}));
  EXPECT_EQ(mixed({{"mode", "multiply"}, {"ratio", 1}}), (U8{78, 78, 0, 90}));
  expect_error(Errc::invalid_parameter,
               "[video_mix] parameter 'mode' must be one of dissolve, add, multiply, got \"screen\"",
               [&] { mixed({{"mode", "screen"}}); });
  expect_error(Errc::shape_mismatch, "[video_mix] input 1 (b) must be u8[1,1,4] like the output, got u8[1,2,4]",
               [&] { run<Byte>("video_mix", {1, 1, 4}, {}, a, rgba); });
}

TEST(Mix, GoesFromOneToTheOther) {
  const Bytes a{{3}, {0, 10, 255}}, b{{3}, {255, 20, 0}};
  EXPECT_EQ((run<Byte>("mix", {3}, {}, a, b)), (U8{128, 15, 128}));
  EXPECT_EQ((run<Byte>("mix", {3}, {{"amount", 2}}, a, b)), (U8{255, 30, 0}));
  expect_near(run<float>("mix", {1, 1, 4}, {{"amount", 0.25}}, colors, colors), colors.values);
  expect_near(run<float>("mix", {2}, {{"amount", 0.25}}, Floats{{2}, {0, 4}}, Floats{{2}, {1, 8}}), {0.25f, 5});
  expect_error(Errc::shape_mismatch, "[mix] input 1 (b) must be u8[3] like the output, got u8[1,2,3]",
               [&] { run<Byte>("mix", {3}, {}, a, rgb); });
  expect_error(Errc::dtype_mismatch, "[mix] output must be f32 or u8, got s32", [] {
    const Image<std::int32_t> x{{1}, {1}};
    run<std::int32_t>("mix", {1}, {}, x, x);
  });
}

TEST(Yuv, ThereAndBack) {
  const U8 yuv = run_like("rgb_to_yuv", Bytes{{1, 2, 3}, {255, 0, 0, 80, 80, 80}});
  EXPECT_EQ(yuv, (U8{76, 85, 255, 80, 128, 128}));  // 76.2, 84.97, 255.5
  EXPECT_EQ(run_like("yuv_to_rgb", Bytes{{1, 2, 3}, {76, 85, 255, 80, 128, 128}}), (U8{254, 0, 0, 80, 80, 80}));
  expect_near(run_like("rgb_to_yuv", Floats{{1, 1, 3}, {1, 0, 0}}), {0.299f, 0.331264f, 1});
  expect_near(run_like("yuv_to_rgb", Floats{{1, 1, 3}, {0.299f, 0.331264f, 1}}), {1, 0, 0}, 1e-4f);
  expect_error(Errc::shape_mismatch, "[rgb_to_yuv] input 0 (x) must be [H,W,3], got u8[1,2,4]",
               [] { run_like("rgb_to_yuv", rgba); });
  expect_error(Errc::shape_mismatch, "[yuv_to_rgb] input 0 (x) must be [H,W,3], got u8[1,2,4]",
               [] { run_like("yuv_to_rgb", rgba); });
}

}  // namespace
}  // namespace tessera::test
