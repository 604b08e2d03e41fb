#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/pictures.hpp"
#include "support/program.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using test::noise;
using Bytes = std::vector<std::uint8_t>;

TEST(Image, Knows_its_size_and_channels) {
  const Image gray(Shape{2, 3}), rgb(Shape{2, 3, 3}), rgba(Shape{2, 3, 4});
  EXPECT_EQ(gray.shape(), (Shape{2, 3}));
  EXPECT_EQ(rgba.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(gray.channels(), 1);
  EXPECT_EQ(rgb.channels(), 3);
  EXPECT_EQ(rgba.channels(), 4);
  EXPECT_EQ(rgb.height(), 2);
  EXPECT_EQ(rgb.width(), 3);
  EXPECT_EQ(rgb.bytes().size(), 18U);
  EXPECT_EQ(rgb, Image(Shape({2, 3, 3}), Bytes(18, 0)));
}

TEST(Image, One_channel_is_gray) {
  EXPECT_EQ(Image(Shape{2, 3, 1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(Image(Shape{1, 2, 1}, Bytes{7, 8}), Image(Shape{1, 2}, Bytes{7, 8}));
}

TEST(Image, Without_pixels_is_an_image_too) {
  EXPECT_EQ(Image().shape(), (Shape{0, 0}));
  EXPECT_TRUE(Image().bytes().empty());
  EXPECT_EQ(Image(Shape{0, 5, 4}).width(), 5);
}

TEST(Image, Gives_access_to_pixels) {
  Image image(Shape{2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(image.at(1, 0).size(), 3U);
  EXPECT_EQ(image.at(1, 0)[2], 8);
  image.at(0, 1)[0] = 200;
  EXPECT_EQ(std::as_const(image).at(0, 1)[0], 200);
  EXPECT_EQ(image.data()[3], 200);
}

TEST(Image, Refuses_pixels_outside_of_it) {
  Image image(Shape{2, 3, 3});
  for (const auto& [y, x] : std::vector<std::pair<int, int>>{{2, 0}, {0, 3}, {-1, 0}, {0, -1}}) {
    expect_error(Errc::invalid_argument, "there is no pixel", [&] { image.at(y, x); });
  }
}

TEST(Image, Refuses_other_shapes_and_counts) {
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 2, 2}, Shape{2, 2, 5}, Shape{2, 2, 0}, Shape{1, 2, 2, 3}}) {
    expect_error(Errc::shape_mismatch, "got " + to_string(shape), [&] { Image{shape}; });
    expect_error(Errc::shape_mismatch, "got " + to_string(shape), [&] { Image(shape, Bytes(4)); });
  }
  expect_error(Errc::count_mismatch, "u8[2,2] needs 4 bytes, got 3", [] { Image(Shape{2, 2}, Bytes(3)); });
}

TEST(Image, That_does_not_fit_in_memory_is_refused) {
  if (test::is_sanitized) GTEST_SKIP() << "AddressSanitizer ends the process instead";
  expect_error(Errc::out_of_memory, "no memory for u8", [] { Image(Shape{1LL << 30, 1LL << 30, 4}); });
}

TEST(Image, Copies_are_independent) {
  const Image image = noise(3, 5, 4);
  Image copy = image;
  EXPECT_EQ(copy, image);
  copy.at(0, 0)[0] ^= 1;
  EXPECT_NE(copy, image);
}

TEST(Image, A_move_takes_the_pixels_and_leaves_none) {
  Image image = noise(3, 5, 4);
  const Image before = image;
  const std::uint8_t* pixels = image.data();
  Image moved = std::move(image);
  EXPECT_EQ(moved, before);
  EXPECT_EQ(moved.data(), pixels);
  EXPECT_EQ(image, Image());  // NOLINT(bugprone-use-after-move): promised
  Image other = noise(1, 1, 3);
  other = std::move(moved);
  EXPECT_EQ(other.data(), pixels);
  EXPECT_EQ(moved, Image());  // NOLINT(bugprone-use-after-move): promised
  Image& self = other;
  other = std::move(self);
  EXPECT_EQ(other, before);
}

TEST(Image, Becomes_a_buffer_with_its_pixels) {
  const Device device = Device::best();
  for (const int channels : {1, 3, 4}) {
    Image image = noise(7, 5, channels);
    const Buffer buffer = device.buffer(image);
    EXPECT_EQ(buffer.shape(), image.shape());
    EXPECT_EQ(buffer.dtype(), u8);
    const Bytes before(image.bytes().begin(), image.bytes().end());
    image.at(0, 0)[0] ^= 1;  // the buffer has a copy
    EXPECT_EQ(buffer.read<std::uint8_t>(), before);
  }
  EXPECT_EQ(device.buffer(Image()).shape(), (Shape{0, 0}));
}

}  // namespace
}  // namespace tessera
