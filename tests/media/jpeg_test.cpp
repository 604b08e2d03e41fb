#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/pictures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {
namespace {

using test::difference;
using test::expect_error;
using test::gradient;
using test::JpegFile;
using test::noise;
using test::with_channels;
using Bytes = std::vector<std::uint8_t>;
using File = std::vector<std::byte>;

constexpr LoadImageOptions as_file{.channels = Channels::as_file};

Bytes samples_of(const Image& image) { return {image.bytes().begin(), image.bytes().end()}; }

// Encodes this picture with the settings that `change` makes.
template <class Change>
File jpeg_of(const Image& image, Change&& change) {
  JpegFile jpeg{.width = static_cast<int>(image.width()), .height = static_cast<int>(image.height())};
  jpeg.samples = samples_of(image);
  if (image.channels() == 1) jpeg.samples_are = jpeg.colors = JCS_GRAYSCALE;
  change(jpeg);
  return jpeg.bytes();
}
File jpeg_of(const Image& image) {
  return jpeg_of(image, [](JpegFile&) {});
}

TEST(Jpeg, Barely_changes_smooth_pictures_of_every_size) {
  for (const int channels : {1, 3, 4}) {
    for (const auto& [height, width] :
         std::vector<std::array<int, 2>>{{1, 1}, {1, 9}, {9, 1}, {7, 5}, {33, 17}, {480, 640}}) {
      const Image image = gradient(height, width, channels);
      const Image without_alpha = with_channels(image, channels == 1 ? 1 : 3);
      const File file = encode_image(image, ImageFormat::jpeg, {.quality = 100});
      EXPECT_LE(difference(decode_image(file, as_file), without_alpha), 4) << height << " x " << width;
      EXPECT_EQ(decode_image(file, as_file), test::read_jpeg(file));
      EXPECT_EQ(decode_image(file), with_channels(test::read_jpeg(file), 4));
    }
  }
}

TEST(Jpeg, The_caller_chooses_the_quality) {
  const Image image = noise(64, 64, 3);
  const std::size_t low = encode_image(image, ImageFormat::jpeg, {.quality = 10}).size();
  const std::size_t usual = encode_image(image, ImageFormat::jpeg).size();
  const std::size_t high = encode_image(image, ImageFormat::jpeg, {.quality = 100}).size();
  EXPECT_LT(low * 2, usual);
  EXPECT_LT(usual, high);
  for (const int quality : {0, 101, -1}) {
    expect_error(Errc::invalid_argument, "quality must be 1 to 100",
                 [&] { encode_image(image, ImageFormat::jpeg, {.quality = quality}); });
  }
}

TEST(Jpeg, Alpha_is_discarded) {
  Image image = gradient(16, 16, 4);
  Image opaque = image;
  for (std::int64_t x = 0; x < 16; ++x) image.at(0, x)[3] = 0;
  EXPECT_EQ(encode_image(image, ImageFormat::jpeg), encode_image(opaque, ImageFormat::jpeg));
  EXPECT_EQ(decode_image(encode_image(image, ImageFormat::jpeg)).at(0, 0)[3], 255);
}

TEST(Jpeg, All_kinds_are_read) {
  const Image picture = gradient(37, 53, 3), gray = gradient(37, 53, 1);
  const auto expect_picture = [&](const File& file, int tolerance) {
    EXPECT_LE(difference(decode_image(file, as_file), picture), tolerance);
    EXPECT_LE(difference(decode_image(file), with_channels(picture, 4)), tolerance);
    EXPECT_LE(difference(decode_image(file, {.channels = Channels::rgb}), picture), tolerance);
  };
  expect_picture(jpeg_of(picture), 4);
  expect_picture(jpeg_of(picture, [](JpegFile& jpeg) { jpeg.is_progressive = true; }), 4);
  expect_picture(jpeg_of(picture, [](JpegFile& jpeg) { jpeg.is_arithmetic = true; }), 4);
  expect_picture(jpeg_of(picture, [](JpegFile& jpeg) { jpeg.colors = JCS_RGB; }), 3);

  for (const bool is_progressive : {false, true}) {
    const File file = jpeg_of(gray, [&](JpegFile& jpeg) { jpeg.is_progressive = is_progressive; });
    EXPECT_LE(difference(decode_image(file, as_file), gray), 3);
    EXPECT_LE(difference(decode_image(file, {.channels = Channels::gray}), gray), 3);
    EXPECT_LE(difference(decode_image(file), with_channels(gray, 4)), 3);
  }
}

TEST(Jpeg, Becomes_gray_like_the_grayscale_kernel) {
  const File file = jpeg_of(gradient(37, 53, 3));
  const Device device = Device::best();
  const Buffer gray = device.zeros({37, 53}, u8);
  device.run("grayscale", {device.buffer(decode_image(file))}, gray);
  EXPECT_EQ(decode_image(file, {.channels = Channels::gray}), Image(Shape{37, 53}, gray.read<std::uint8_t>()));
}

TEST(Jpeg, CMYK_becomes_RGB) {
  const int height = 16, width = 24;
  const Image inks = gradient(height, width, 4);  // cyan to the right, magenta downwards, some yellow and black
  Image expected(Shape{height, width, 3});
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const int light = 255 - inks.at(y, x)[c], white = 255 - inks.at(y, x)[3];
        expected.at(y, x)[c] = static_cast<std::uint8_t>(light * white / 255);
      }
    }
  }
  for (const bool has_adobe_marker : {false, true}) {
    for (const J_COLOR_SPACE colors : {JCS_CMYK, JCS_YCCK}) {
      if (colors == JCS_YCCK && !has_adobe_marker) continue;  // only the marker identifies it
      JpegFile jpeg{.width = width, .height = height, .samples_are = JCS_CMYK, .samples = samples_of(inks)};
      jpeg.colors = colors;
      jpeg.has_adobe_marker = has_adobe_marker;
      if (has_adobe_marker) {
        for (std::uint8_t& sample : jpeg.samples) sample = static_cast<std::uint8_t>(255 - sample);
      }
      EXPECT_LE(difference(decode_image(jpeg.bytes(), as_file), expected), 4);
      EXPECT_LE(difference(decode_image(jpeg.bytes()), with_channels(expected, 4)), 4);
      EXPECT_EQ(decode_image(jpeg.bytes(), {.channels = Channels::gray}).shape(), (Shape{height, width}));
    }
  }
}

TEST(Jpeg, Is_turned_upright) {
  const Image image = gradient(8, 24, 3);
  const File plain = jpeg_of(image);
  for (const bool is_little : {false, true}) {
    const File turned = jpeg_of(image, [&](JpegFile& jpeg) { jpeg.exif = test::exif_with(6, is_little); });
    const Image before = decode_image(plain), upright = decode_image(turned);
    ASSERT_EQ(upright.shape(), (Shape{24, 8, 4}));
    for (std::int64_t y = 0; y < 8; ++y) {
      for (std::int64_t x = 0; x < 24; ++x) {
        ASSERT_TRUE(std::ranges::equal(upright.at(x, 7 - y), before.at(y, x))) << y << ',' << x;
      }
    }
    EXPECT_EQ(decode_image(turned, {.upright = false}), before);
  }
}

TEST(Jpeg, A_header_that_claims_too_much_is_refused_at_once) {
  File file = jpeg_of(gradient(8, 8, 3));
  // The frame's header: marker, length, depth, height, width.
  const std::array frame = {std::byte{0xff}, std::byte{0xc0}};
  const auto at = std::ranges::search(file, frame).begin();
  ASSERT_NE(at, file.end());
  const auto claim = [&](int height, int width) {
    at[5] = static_cast<std::byte>(height >> 8), at[6] = static_cast<std::byte>(height & 255);
    at[7] = static_cast<std::byte>(width >> 8), at[8] = static_cast<std::byte>(width & 255);
    return file;
  };
  expect_error(Errc::io_error, "it claims 65000 x 65000 pixels, at most 268435456 are allowed",
               [&] { decode_image(claim(65000, 65000)); });
  expect_error(Errc::io_error, "it claims 16000 x 16000 pixels, but has only",
               [&] { decode_image(claim(16000, 16000)); });
  expect_error(Errc::io_error, "cannot decode the JPEG: ", [&] { decode_image(claim(0, 8)); });
  expect_error(Errc::io_error, "cannot decode the JPEG: ", [&] { decode_image(claim(8, 0)); });
  expect_error(Errc::io_error, "cannot decode the JPEG: Maximum", [&] { decode_image(claim(65535, 65535)); });
}

TEST(Jpeg, The_densest_files_are_read) {
  for (const bool is_progressive : {false, true}) {
    const File file = jpeg_of(Image(Shape{2000, 2000}), [&](JpegFile& jpeg) { jpeg.is_progressive = is_progressive; });
    EXPECT_EQ(decode_image(file, as_file), Image(Shape{2000, 2000}));
  }
}

TEST(Jpeg, A_truncated_file_is_refused) {
  for (const bool is_progressive : {false, true}) {
    const File file = jpeg_of(gradient(24, 24, 3), [&](JpegFile& jpeg) { jpeg.is_progressive = is_progressive; });
    for (std::size_t size = 3; size < file.size() - 1; ++size) {
      expect_error(Errc::io_error, "cannot decode the JPEG: ", [&] { decode_image(std::span(file).first(size)); });
    }
  }
}

TEST(Jpeg, Extra_bytes_after_and_inside_the_picture_are_ignored) {
  File file = jpeg_of(gradient(24, 24, 3));
  const Image image = decode_image(file);
  file.insert(file.end(), 100, std::byte{7});
  EXPECT_EQ(decode_image(file), image);
}

// A progressive file with its last scan, which refines nothing new, repeated until there are this many.
File with_scans(const Image& image, int count) {
  File file = jpeg_of(image, [](JpegFile& jpeg) { jpeg.is_progressive = true; });
  const std::array marker = {std::byte{0xff}, std::byte{0xda}};
  int scans = 0;
  for (auto at = file.begin();
       (at = std::ranges::search(at, file.end(), marker.begin(), marker.end()).begin()) != file.end(); ++at) {
    ++scans;
  }
  const auto scan = std::ranges::find_end(file, marker).begin() - file.begin();
  const File last(file.begin() + scan, file.end() - 2);
  File repeated(file.begin(), file.end() - 2);
  for (; scans < count; ++scans) repeated.insert(repeated.end(), last.begin(), last.end());
  repeated.insert(repeated.end(), file.end() - 2, file.end());
  return repeated;
}

TEST(Jpeg, Too_many_scans_are_refused) {
  const Image small = gradient(16, 16, 1);
  EXPECT_EQ(decode_image(with_scans(small, 100)), decode_image(with_scans(small, 0)));
  expect_error(Errc::io_error, "cannot decode the JPEG: it has more than 100 scans",
               [&] { decode_image(with_scans(small, 101)); });
  expect_error(Errc::io_error, "cannot decode the JPEG: it has more than 100 scans",
               [&] { decode_image(with_scans(small, 1000)); });
}

// 2^29 pixels in all, so that a file of a megabyte cannot take minutes.
TEST(Jpeg, Large_pictures_may_have_fewer_scans) {
  const Image large(Shape{2320, 2320});
  expect_error(Errc::io_error, "cannot decode the JPEG: it has more than 99 scans",
               [&] { decode_image(with_scans(large, 100), as_file); });
}

TEST(Jpeg, Has_at_most_65500_pixels_per_side) {
  expect_error(Errc::invalid_argument,
               "[encode_image] a JPEG has at most 65500 pixels per side, the image is [1,65501]",
               [] { encode_image(Image(Shape{1, 65501}), ImageFormat::jpeg); });
  EXPECT_EQ(decode_image(encode_image(Image(Shape{1, 65500}), ImageFormat::jpeg), as_file), Image(Shape{1, 65500}));
}

}  // namespace
}  // namespace tessera
