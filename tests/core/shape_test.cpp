#include <tessera/shape.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

Shape shape_of(const std::vector<std::int64_t>& dims) { return Shape(std::span(dims)); }

TEST(Shape, Of_rank_0_is_a_scalar) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.begin(), scalar.end());
  EXPECT_EQ(scalar, Shape{});
  EXPECT_EQ(scalar, shape_of({}));
}

TEST(Shape, Has_one_to_eight_dimensions) {
  const Shape shapes[] = {{2},
                          {2, 2},
                          {2, 2, 2},
                          {2, 2, 2, 2},
                          {2, 2, 2, 2, 2},
                          {2, 2, 2, 2, 2, 2},
                          {2, 2, 2, 2, 2, 2, 2},
                          {2, 2, 2, 2, 2, 2, 2, 2}};
  int rank = 0;
  for (const Shape& shape : shapes) {
    ++rank;
    EXPECT_EQ(shape.rank(), rank);
    EXPECT_EQ(shape.elements(), std::int64_t{1} << rank);
    EXPECT_EQ(shape, shape_of(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 2)));
  }
}

TEST(Shape, Nine_dimensions_are_too_many) {
  static_assert(!std::is_constructible_v<Shape, int, int, int, int, int, int, int, int, int>);
  expect_error(Errc::invalid_argument, "at most 8 dimensions, got 9", [] { shape_of({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
}

TEST(Shape, Is_constexpr) {
  constexpr Shape image{480, 640U, std::uint8_t{4}};
  static_assert(image.rank() == 3 && image.elements() == 480 * 640 * 4 && image[1] == 640);
  static_assert(!std::is_constructible_v<Shape, bool>);
  static_assert(!std::is_constructible_v<Shape, double>);
}

TEST(Shape, Returns_its_dimensions_in_order) {
  const Shape shape{480, 640, 4};
  EXPECT_EQ(shape[0], 480);
  EXPECT_EQ(shape[1], 640);
  EXPECT_EQ(shape[2], 4);
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{480, 640, 4}));
}

TEST(Shape, Refuses_an_axis_that_does_not_exist) {
  expect_error(Errc::invalid_argument, "no axis 2 in a shape of rank 2", [] { return Shape{3, 4}[2]; });
  expect_error(Errc::invalid_argument, "no axis -1", [] { return Shape{3, 4}[-1]; });
  expect_error(Errc::invalid_argument, "no axis 0 in a shape of rank 0", [] { return Shape{}[0]; });
  expect_error(Errc::invalid_argument, "no axis 8", [] { return Shape{1, 1, 1, 1, 1, 1, 1, 1}[Shape::max_rank]; });
}

TEST(Shape, A_zero_dimension_means_no_elements) {
  EXPECT_EQ(Shape{0}.elements(), 0);
  EXPECT_EQ((Shape{3, 0, 4}.elements()), 0);
  EXPECT_EQ((Shape{3, 0, 4}.size_bytes(f64)), 0U);
  EXPECT_NE((Shape{3, 0}), (Shape{0, 3}));
}

TEST(Shape, Refuses_a_negative_dimension) {
  expect_error(Errc::invalid_argument, "got -1", [] { return Shape{3, -1}; });
  expect_error(Errc::invalid_argument, "got -7", [] { return Shape{0, -7}; });
  expect_error(Errc::invalid_argument, "got -9223372036854775808",
               [] { return shape_of({std::numeric_limits<std::int64_t>::min()}); });
}

TEST(Shape, Holds_up_to_63_bits_of_elements) {
  EXPECT_EQ(Shape{most}.elements(), most);
  EXPECT_EQ((Shape{1, most, 1}.elements()), most);
  EXPECT_EQ((Shape{std::int64_t{1} << 31, std::int64_t{1} << 31}.elements()), std::int64_t{1} << 62);
}

TEST(Shape, Refuses_more_elements_than_63_bits) {
  expect_error(Errc::overflow, "63 bits", [] { return Shape{std::int64_t{1} << 32, std::int64_t{1} << 31}; });
  expect_error(Errc::overflow, "63 bits", [] { return Shape{2, most}; });
  expect_error(Errc::overflow, "63 bits", [] { return Shape{static_cast<std::uint64_t>(most) + 1}; });
  expect_error(Errc::overflow, "63 bits", [] { return shape_of({most, most, most, most}); });
}

TEST(Shape, Refuses_dimensions_whose_strides_overflow_even_beside_a_zero) {
  expect_error(Errc::overflow, "63 bits", [] { return Shape{0, most, 2}; });
  expect_error(Errc::overflow, "63 bits", [] { return Shape{most, 0, 2}; });
  expect_error(Errc::overflow, "63 bits", [] { return Shape{most, 2, 0}; });
}

TEST(Shape, Counts_the_bytes_of_every_type) {
  for (DType dtype : all_dtypes) {
    EXPECT_EQ((Shape{3, 5}.size_bytes(dtype)), 15 * size_of(dtype));
    EXPECT_EQ(Shape{}.size_bytes(dtype), size_of(dtype));
    EXPECT_EQ((Shape{0, most}.size_bytes(dtype)), 0U);
  }
  EXPECT_EQ(Shape{most}.size_bytes(u8), static_cast<std::size_t>(most));
}

TEST(Shape, Refuses_more_bytes_than_63_bits_and_names_the_buffer) {
  expect_error(Errc::overflow, "f32[9223372036854775807]", [] { Shape{most}.size_bytes(f32); });
  expect_error(Errc::overflow, "f64[1152921504606846976]", [] { Shape{std::int64_t{1} << 60}.size_bytes(f64); });
  EXPECT_EQ(Shape{(std::int64_t{1} << 60) - 1}.size_bytes(f64), (std::size_t{1} << 63) - 8);
}

TEST(Shape, Is_equal_to_the_same_dimensions_only) {
  EXPECT_EQ((Shape{3, 4}), (Shape{3, 4}));
  EXPECT_NE((Shape{3, 4}), (Shape{4, 3}));
  EXPECT_NE((Shape{3, 4}), Shape{12});
  EXPECT_NE((Shape{3, 1}), Shape{3});
  EXPECT_NE(Shape{1}, Shape{});
}

TEST(Shape, Prints_in_brackets) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{7}), "[7]");
  EXPECT_EQ(to_string(Shape{480, 640, 4}), "[480,640,4]");
  EXPECT_EQ(to_string(u8, Shape{480, 640, 4}), "u8[480,640,4]");
  EXPECT_EQ(to_string(f64, Shape{}), "f64[]");
}

}  // namespace
}  // namespace tessera
