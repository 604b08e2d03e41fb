#pragma once

#include <tessera/image.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace tessera::test {

inline Shape picture_shape(std::int64_t height, std::int64_t width, int channels) {
  return channels == 1 ? Shape{height, width} : Shape{height, width, channels};
}

// Every pixel and channel is different from its neighbours, with no pattern that a mistake would repeat.
inline Image noise(std::int64_t height, std::int64_t width, int channels) {
  Image image(picture_shape(height, width, channels));
  std::uint32_t state = 12345;
  for (std::uint8_t& byte : image.bytes())
    byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

// Smooth, small ones too: JPEG keeps it nearly as it is.
inline Image gradient(std::int64_t height, std::int64_t width, int channels) {
  Image image(picture_shape(height, width, channels));
  const std::int64_t steps = std::max<std::int64_t>({height, width, 128});
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t values[] = {40 + 160 * x / steps, 40 + 160 * y / steps, 150, 150};
      std::ranges::copy_n(values, channels, image.at(y, x).begin());
    }
  }
  return image;
}

// The largest difference of two bytes; 256 if the shapes differ.
inline int difference(const Image& a, const Image& b) {
  if (a.shape() != b.shape()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.bytes().size(); ++i) {
    largest = std::max(largest, std::abs(int{a.bytes()[i]} - int{b.bytes()[i]}));
  }
  return largest;
}

// With other channels: gray becomes RGB, alpha is 255 or dropped.
inline Image with_channels(const Image& image, int channels) {
  Image result(picture_shape(image.height(), image.width(), channels));
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      for (int c = 0; c < channels; ++c) {
        const int from = image.channels() == 1 && c < 3 ? 0 : c;
        result.at(y, x)[static_cast<std::size_t>(c)] =
            from < image.channels() ? image.at(y, x)[static_cast<std::size_t>(from)] : std::uint8_t{255};
      }
    }
  }
  return result;
}

// Exif data that says nothing but the orientation, of either byte order.
inline std::string exif_with(int orientation, bool is_little) {
  const auto value = static_cast<char>(orientation);
  if (is_little) {
    return std::string("II*\0\10\0\0\0\1\0\x12\x01\3\0\1\0\0\0", 18) + std::string({value, 0, 0, 0}) +
           std::string(4, '\0');
  }
  return std::string("MM\0*\0\0\0\10\0\1\x01\x12\0\3\0\0\0\1", 18) + std::string({0, value, 0, 0}) +
         std::string(4, '\0');
}

}  // namespace tessera::test
