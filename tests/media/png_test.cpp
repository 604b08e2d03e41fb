#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/pictures.hpp"
#include "support/png_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::File;
using test::noise;
using test::PngFile;
using test::with_channels;
using Bytes = std::vector<std::uint8_t>;

constexpr LoadImageOptions as_file{.channels = Channels::as_file};

// Sizes with uneven rows, interlacing passes and bytes of packed pixels.
constexpr std::array<std::array<int, 2>, 8> sizes = {
    {{1, 1}, {1, 9}, {9, 1}, {7, 5}, {2, 3}, {8, 8}, {33, 17}, {4, 4}}};

std::vector<int> random_samples(int count, int below) {
  std::vector<int> samples;
  std::uint32_t state = 99;
  for (int i = 0; i < count; ++i)
    samples.push_back(static_cast<int>((state = state * 1664525 + 1013904223) >> 8) % below);
  return samples;
}

// Samples converted to 8 bits as PNG specifies.
std::uint8_t to_8_bits(int sample, int depth) {
  const int most = (1 << depth) - 1;
  return static_cast<std::uint8_t>((sample * 255 * 2 + most) / (2 * most));
}

TEST(Png, Keeps_every_pixel_of_every_size) {
  for (const int channels : {1, 3, 4}) {
    for (const auto& [height, width] : sizes) {
      const Image image = noise(height, width, channels);
      const std::vector<std::byte> file = encode_image(image, ImageFormat::png);
      EXPECT_EQ(decode_image(file, as_file), image);
      EXPECT_EQ(test::read_png(file), image);  // an independent reader agrees
    }
  }
}

TEST(Png, Keeps_every_pixel_of_large_and_long_images) {
  for (const Image& image : {noise(1080, 1920, 4), noise(1, 1'500'000, 1), noise(1'500'000, 1, 3)}) {
    const std::vector<std::byte> file = encode_image(image, ImageFormat::png);
    EXPECT_EQ(decode_image(file, as_file), image);
    EXPECT_EQ(test::read_png(file), image);
  }
}

TEST(Png, Is_read_as_RGBA_by_default) {
  for (const int channels : {1, 3, 4}) {
    const Image image = noise(7, 5, channels);
    const std::vector<std::byte> file = encode_image(image, ImageFormat::png);
    EXPECT_EQ(decode_image(file), with_channels(image, 4));
    EXPECT_EQ(decode_image(file, {.channels = Channels::rgb}), with_channels(image, 3));
  }
}

TEST(Png, Becomes_gray_like_the_grayscale_kernel) {
  const Device device = Device::best();
  for (const int channels : {3, 4}) {
    const Image image = noise(33, 17, channels);
    const Buffer gray = device.zeros({33, 17}, u8);
    device.run("grayscale", {device.buffer(image)}, gray);
    EXPECT_EQ(decode_image(encode_image(image, ImageFormat::png), {.channels = Channels::gray}),
              Image(Shape{33, 17}, gray.read<std::uint8_t>()));
  }
  const Image gray = noise(33, 17, 1);
  EXPECT_EQ(decode_image(encode_image(gray, ImageFormat::png), {.channels = Channels::gray}), gray);
}

// Every colour type and depth, interlaced or not, decoded to the file's own channels and to all others.
TEST(Png, All_colour_types_and_depths_are_read) {
  using Kind = std::tuple<PngFile::Colors, std::vector<int>>;
  for (const auto& [colors, depths] : {Kind{PngFile::gray, {1, 2, 4, 8, 16}}, Kind{PngFile::rgb, {8, 16}},
                                       Kind{PngFile::gray_alpha, {8, 16}}, Kind{PngFile::rgba, {8, 16}}}) {
    for (const int depth : depths) {
      for (const auto& [height, width] : sizes) {
        for (const bool is_interlaced : {false, true}) {
          PngFile png{
              .width = width, .height = height, .depth = depth, .colors = colors, .is_interlaced = is_interlaced};
          png.samples = random_samples(width * height * png.channels(), 1 << depth);
          SCOPED_TRACE(testing::Message() << "colours " << int{colors} << ", depth " << depth << ", " << height << " x "
                                          << width << (is_interlaced ? ", interlaced" : ""));
          Bytes bytes;
          for (std::size_t i = 0; i < png.samples.size(); ++i) {
            const std::uint8_t byte = to_8_bits(png.samples[i], depth);
            // There is no gray with alpha in Image: it becomes RGBA.
            const bool is_repeated = colors == PngFile::gray_alpha && i % 2 == 0;
            bytes.insert(bytes.end(), is_repeated ? 3 : 1, byte);
          }
          const int channels = colors == PngFile::gray_alpha ? 4 : png.channels();
          const Image expected(test::picture_shape(height, width, channels), bytes);
          const File file = png.bytes();
          EXPECT_EQ(decode_image(file, as_file), expected);
          EXPECT_EQ(decode_image(file), with_channels(expected, 4));
          EXPECT_EQ(decode_image(file, {.channels = Channels::rgb}), with_channels(expected, 3));
          if (colors == PngFile::gray || colors == PngFile::gray_alpha) {
            EXPECT_EQ(decode_image(file, {.channels = Channels::gray}), with_channels(expected, 1));
          }
        }
      }
    }
  }
}

TEST(Png, Palettes_are_read) {
  for (const int depth : {1, 2, 4, 8}) {
    for (const auto& [height, width] : sizes) {
      for (const bool is_transparent : {false, true}) {
        PngFile png{.width = width, .height = height, .depth = depth, .colors = PngFile::palette};
        png.samples = random_samples(width * height, 1 << depth);
        for (int i = 0; i < 1 << depth; ++i) {
          png.plte += {static_cast<char>(i * 3), static_cast<char>(255 - i), static_cast<char>(i ^ 77)};
        }
        if (is_transparent) png.trns = "\x10\x80";  // for the first two colours; the others are opaque
        Bytes bytes;
        for (const int i : png.samples) {
          bytes.insert(bytes.end(), {static_cast<std::uint8_t>(i * 3), static_cast<std::uint8_t>(255 - i),
                                     static_cast<std::uint8_t>(i ^ 77)});
          if (is_transparent) bytes.push_back(i == 0 ? 0x10 : i == 1 ? 0x80 : 0xff);
        }
        const Image expected(Shape{height, width, is_transparent ? 4 : 3}, bytes);
        EXPECT_EQ(decode_image(png.bytes(), as_file), expected);
        EXPECT_EQ(decode_image(png.bytes()), with_channels(expected, 4));
        EXPECT_EQ(decode_image(png.bytes(), {.channels = Channels::rgb}), with_channels(expected, 3));
      }
    }
  }
}

TEST(Png, A_colour_that_is_not_in_the_palette_is_an_error) {
  for (const int depth : {2, 4, 8}) {
    for (const bool is_interlaced : {false, true}) {
      PngFile png{.width = 5, .height = 3, .depth = depth, .colors = PngFile::palette, .is_interlaced = is_interlaced};
      png.plte = "redgreblu";
      png.samples = {0, 1, 2, 2, 1, 0, 0, 1, 1, 2, 2, 1, 0, 1, 2};
      EXPECT_EQ(decode_image(png.bytes()).shape(), Shape({3, 5, 4}));
      png.samples[13] = 3;
      expect_error(Errc::io_error, "a colour that is not in the palette", [&] { decode_image(png.bytes()); });
    }
  }
}

TEST(Png, A_transparent_colour_becomes_alpha) {
  PngFile gray{.width = 3, .height = 1, .depth = 4, .samples = {0, 7, 15}, .trns = std::string("\0\7", 2)};
  EXPECT_EQ(decode_image(gray.bytes()), Image(Shape({1, 3, 4}), {0, 0, 0, 255, 119, 119, 119, 0, 255, 255, 255, 255}));
  EXPECT_EQ(decode_image(gray.bytes(), as_file).channels(), 4);
  EXPECT_EQ(decode_image(gray.bytes(), {.channels = Channels::gray}), Image(Shape({1, 3}), {0, 119, 255}));

  PngFile rgb{.width = 2, .height = 1, .colors = PngFile::rgb, .samples = {1, 2, 3, 1, 2, 4}};
  rgb.trns = std::string("\0\1\0\2\0\3", 6);
  EXPECT_EQ(decode_image(rgb.bytes()), Image(Shape({1, 2, 4}), {1, 2, 3, 0, 1, 2, 4, 255}));
  EXPECT_EQ(decode_image(rgb.bytes(), {.channels = Channels::rgb}), Image(Shape({1, 2, 3}), {1, 2, 3, 1, 2, 4}));

  // All 16 bits are compared, though only 8 are kept.
  PngFile deep{.width = 2, .height = 1, .depth = 16, .samples = {0x1234, 0x1235}, .trns = "\x12\x34"};
  EXPECT_EQ(decode_image(deep.bytes()).at(0, 0)[3], 0);
  EXPECT_EQ(decode_image(deep.bytes()).at(0, 1)[3], 255);
}

TEST(Png, Gamma_profiles_and_text_change_nothing) {
  PngFile png{.width = 3, .height = 1, .samples = {10, 100, 200}};
  const Image plain = decode_image(png.bytes(), as_file);
  png.others = {{"gAMA", test::big_endian(100000)}, {"tEXt", "Comment\0no"}, {"iCCP", "broken"}, {"teSt", "unknown"}};
  EXPECT_EQ(decode_image(png.bytes(), as_file), plain);
}

TEST(Png, Is_turned_upright) {
  PngFile png{.width = 3, .height = 2, .samples = {1, 2, 3, 4, 5, 6}};
  const Image as_stored = decode_image(png.bytes(), as_file);
  const std::vector<Image> turned = {
      as_stored,
      Image(Shape{2, 3}, {3, 2, 1, 6, 5, 4}),
      Image(Shape{2, 3}, {6, 5, 4, 3, 2, 1}),
      Image(Shape{2, 3}, {4, 5, 6, 1, 2, 3}),
      Image(Shape{3, 2}, {1, 4, 2, 5, 3, 6}),
      Image(Shape{3, 2}, {4, 1, 5, 2, 6, 3}),
      Image(Shape{3, 2}, {6, 3, 5, 2, 4, 1}),
      Image(Shape{3, 2}, {3, 6, 2, 5, 1, 4}),
  };
  for (const bool is_little : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      png.exif = test::exif_with(orientation, is_little);
      EXPECT_EQ(decode_image(png.bytes(), as_file), turned[static_cast<std::size_t>(orientation) - 1]) << orientation;
      EXPECT_EQ(decode_image(png.bytes(), {.channels = Channels::as_file, .upright = false}), as_stored);
    }
  }
  // With channels, pixels stay whole.
  const auto colored = decode_image(png.bytes());
  EXPECT_EQ(colored, with_channels(turned[7], 4));
}

TEST(Png, A_damaged_orientation_is_ignored) {
  PngFile png{.width = 3, .height = 2, .samples = {1, 2, 3, 4, 5, 6}};
  const Image as_stored = decode_image(png.bytes(), as_file);
  const std::string good = test::exif_with(6, true);
  for (std::size_t size = 4; size < 20; ++size) {
    png.exif = good.substr(0, size);
    EXPECT_EQ(decode_image(png.bytes(), as_file), as_stored) << size << " bytes of it";
  }
  for (const int orientation : {0, 9, 255}) {
    png.exif = test::exif_with(orientation, false);
    EXPECT_EQ(decode_image(png.bytes(), as_file), as_stored);
  }
  png.exif = std::string("II*\0\xff\xff\xff\xff", 8);
  EXPECT_EQ(decode_image(png.bytes(), as_file), as_stored);
  png.exif = std::string("II*\0\4\0\0\0\xff\xff\xff\xff", 12);
  EXPECT_EQ(decode_image(png.bytes(), as_file), as_stored);
}

TEST(Png, A_header_that_claims_too_much_is_refused_at_once) {
  const auto claim = [](int width, int height) {
    File bomb;
    test::append(bomb, "\x89PNG\r\n\x1a\n");
    test::append_chunk(bomb, "IHDR",
                       test::big_endian(static_cast<std::uint32_t>(width)) +
                           test::big_endian(static_cast<std::uint32_t>(height)) + std::string("\x08\x06\0\0\0", 5));
    test::append_chunk(bomb, "IDAT", "x");
    test::append_chunk(bomb, "IEND", "");
    return bomb;
  };
  expect_error(Errc::io_error,
               "it claims 100000 x 100000 pixels, at most 268435456 are allowed (LoadImageOptions::max_pixels)",
               [&] { decode_image(claim(100000, 100000)); });
  expect_error(Errc::io_error, "pixels, at most 268435456 are allowed",
               [&] { decode_image(claim(0x7fffffff, 0x7fffffff)); });
  expect_error(Errc::io_error, "it claims 16384 x 16384 pixels, but has only 58 bytes",
               [&] { decode_image(claim(16384, 16384)); });
  expect_error(Errc::io_error, "but has only", [&] {
    decode_image(claim(0x7fffffff, 0x7fffffff), {.max_pixels = std::numeric_limits<std::int64_t>::max()});
  });
  for (const auto& [width, height] : std::vector<std::array<int, 2>>{{0, 1}, {1, 0}, {0, 0}, {-1, 1}}) {
    expect_error(Errc::io_error, "cannot decode the PNG: ", [&] { decode_image(claim(width, height)); });
  }
}

TEST(Png, The_caller_limits_the_number_of_pixels) {
  const std::vector<std::byte> file = encode_image(noise(7, 5, 3), ImageFormat::png);
  EXPECT_EQ(decode_image(file, {.max_pixels = 35}).height(), 7);
  expect_error(Errc::io_error, "it claims 7 x 5 pixels, at most 34 are allowed",
               [&] { decode_image(file, {.max_pixels = 34}); });
  expect_error(Errc::invalid_argument, "max_pixels must be positive", [&] { decode_image(file, {.max_pixels = 0}); });
}

// Black compresses best: the densest valid file must not be refused.
TEST(Png, The_densest_files_are_read) {
  const Image black(Shape{4000, 4000});
  EXPECT_EQ(decode_image(encode_image(black, ImageFormat::png), as_file), black);
}

TEST(Png, A_truncated_or_changed_file_is_refused) {
  std::vector<std::byte> file = encode_image(noise(7, 5, 3), ImageFormat::png);
  for (std::size_t size = 8; size < file.size(); ++size) {
    expect_error(Errc::io_error, "cannot decode the PNG: ", [&] { decode_image(std::span(file).first(size)); });
  }
  expect_error(Errc::io_error, "truncated", [&] { decode_image(std::span(file).first(file.size() - 20)); });
  file[60] ^= std::byte{1};
  expect_error(Errc::io_error, "cannot decode the PNG: IDAT: ", [&] { decode_image(file); });
}

}  // namespace
}  // namespace tessera
