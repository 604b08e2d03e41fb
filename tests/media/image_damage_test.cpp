// Randomly damaged files: decoding either throws an Error or returns an image.
#include <tessera/image.hpp>

#include "support/jpeg_file.hpp"
#include "support/pictures.hpp"
#include "support/png_file.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {
namespace {

using test::File;
using test::gradient;
using test::JpegFile;
using test::noise;
using test::PngFile;

// Changes one to four bits or bytes, or removes, doubles or truncates a part.
File damaged(File file, std::mt19937_64& random) {
  const auto place = [&] { return static_cast<std::ptrdiff_t>(random() % file.size()); };
  switch (random() % 5) {
    case 0:
      file.resize(static_cast<std::size_t>(place()));
      break;
    case 1: {
      const auto at = place(), size = std::min<std::ptrdiff_t>(1 + static_cast<std::ptrdiff_t>(random() % 8),
                                                               static_cast<std::ptrdiff_t>(file.size()) - at);
      file.erase(file.begin() + at, file.begin() + at + size);
      break;
    }
    case 2: {
      const auto at = place();
      const File piece(file.begin() + at,
                       file.begin() + at + std::min<std::ptrdiff_t>(16, file.end() - file.begin() - at));
      file.insert(file.begin() + place(), piece.begin(), piece.end());
      break;
    }
    default:
      for (std::uint64_t i = 0; i <= random() % 4; ++i) {
        file[static_cast<std::size_t>(place())] ^= static_cast<std::byte>(random() % 2 ? 1U << random() % 8 : random());
      }
  }
  return file;
}

// Recomputes the checksums, which would otherwise reveal all damage at once.
void put_checksums_right(File& file) {
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(file[at + i]);
    return value;
  };
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t size = number(at);
    if (size > file.size() - at - 12) return;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(file.data() + at + 4), static_cast<uInt>(size + 4));
    for (std::size_t i = 0; i < 4; ++i) file[at + 8 + size + i] = static_cast<std::byte>(crc >> (24 - 8 * i) & 255);
    at += 12 + size;
  }
}

void expect_error_or_image(const File& file, Channels channels) {
  try {
    const Image image = decode_image(file, {.channels = channels, .max_pixels = 1 << 22});
    EXPECT_EQ(image.bytes().size(), static_cast<std::size_t>(image.height() * image.width() * image.channels()));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::io_error) << error.what();
    EXPECT_TRUE(std::string_view(error.what()).starts_with("[decode_image] ")) << error.what();
  }
}

void expect_survives(const std::vector<File>& files, bool is_png) {
  std::mt19937_64 random(4);
  for (const File& file : files) {
    ASSERT_NO_THROW(decode_image(file));
    for (int i = 0; i < 1000; ++i) {
      File bad = damaged(file, random);
      if (is_png && i % 2 == 0) put_checksums_right(bad);
      expect_error_or_image(bad, static_cast<Channels>(random() % 4));
    }
  }
}

std::vector<std::uint8_t> samples_of(const Image& image) { return {image.bytes().begin(), image.bytes().end()}; }

TEST(Image_damage, PNG_is_an_error_or_an_image) {
  std::vector<int> samples(35 * 4);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int>(i % 16);
  const std::string colors(48, 'x'), exif = test::exif_with(6, true);
  const auto kind = [&](int depth, PngFile::Colors type, bool is_interlaced) {
    return PngFile{.width = 5,
                   .height = 7,
                   .depth = depth,
                   .colors = type,
                   .samples = samples,
                   .is_interlaced = is_interlaced,
                   .plte = type == PngFile::palette ? colors : "",
                   .trns = type == PngFile::palette ? "abc" : "",
                   .exif = exif}
        .bytes();
  };
  expect_survives({encode_image(noise(7, 5, 4), ImageFormat::png), encode_image(gradient(30, 40, 3), ImageFormat::png),
                   kind(16, PngFile::rgba, true), kind(4, PngFile::palette, false), kind(4, PngFile::gray, true)},
                  true);
}

TEST(Image_damage, JPEG_is_an_error_or_an_image) {
  const Image picture = gradient(24, 40, 3), gray = gradient(24, 40, 1), inks = gradient(24, 40, 4);
  const JpegFile plain{.width = 40, .height = 24, .samples = samples_of(picture)};
  JpegFile progressive = plain, arithmetic = plain, one = plain, cmyk = plain;
  progressive.is_progressive = true;
  progressive.exif = test::exif_with(8, false);
  arithmetic.is_arithmetic = arithmetic.is_progressive = true;
  one.samples = samples_of(gray);
  one.samples_are = one.colors = JCS_GRAYSCALE;
  cmyk.samples = samples_of(inks);
  cmyk.samples_are = JCS_CMYK;
  cmyk.colors = JCS_YCCK;
  expect_survives({plain.bytes(), progressive.bytes(), arithmetic.bytes(), one.bytes(), cmyk.bytes()}, false);
}

TEST(Image_damage, Random_bytes_are_an_error) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    File file;
    test::append(file, i % 3 == 0 ? "\x89PNG\r\n\x1a\n" : i % 3 == 1 ? "\xff\xd8\xff" : "");
    for (std::uint64_t size = random() % 300; size > 0; --size) file.push_back(static_cast<std::byte>(random()));
    EXPECT_THROW(decode_image(file), Error);
  }
}

}  // namespace
}  // namespace tessera
