#include <tessera/dtype.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace tessera {
namespace {

using test::expect_error;

TEST(DType, Has_a_name_for_every_type) {
  EXPECT_EQ(to_string(f32), "f32");
  EXPECT_EQ(to_string(f64), "f64");
  EXPECT_EQ(to_string(s32), "s32");
  EXPECT_EQ(to_string(s64), "s64");
  EXPECT_EQ(to_string(u32), "u32");
  EXPECT_EQ(to_string(u8), "u8");
}

TEST(DType, The_list_of_all_has_each_once) {
  EXPECT_EQ(std::set<DType>(std::begin(all_dtypes), std::end(all_dtypes)).size(), std::size(all_dtypes));
  EXPECT_EQ(std::size(all_dtypes), 6U);
}

TEST(DType, Names_convert_back_to_types) {
  for (DType dtype : all_dtypes) EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype) << to_string(dtype);
}

TEST(DType, Has_the_names_that_other_libraries_use) {
  static_assert(float32 == f32 && int32 == s32 && i32 == s32 && DType::int64 == s64 && DType::uint8 == u8);
  const std::pair<const char*, DType> names[] = {{"float32", f32}, {"float64", f64}, {"int32", s32}, {"int64", s64},
                                                 {"uint32", u32},  {"uint8", u8},    {"i32", s32},   {"i64", s64}};
  for (const auto& [name, dtype] : names) EXPECT_EQ(dtype_from_string(name), dtype) << name;
}

TEST(DType, Other_names_are_refused) {
  for (const char* name : {"", "f16", "F32", " f32", "f32 ", "float", "u64"}) {
    expect_error(Errc::invalid_argument, std::string("'") + name + "'", [&] { dtype_from_string(name); });
  }
  expect_error(Errc::invalid_argument, "f32, f64, s32, s64, u32 or u8", [] { dtype_from_string("half"); });
}

TEST(DType, Knows_the_size_of_an_element) {
  static_assert(size_of(f32) == sizeof(float));
  static_assert(size_of(f64) == sizeof(double));
  static_assert(size_of(s32) == sizeof(std::int32_t));
  static_assert(size_of(s64) == sizeof(std::int64_t));
  static_assert(size_of(u32) == sizeof(std::uint32_t));
  static_assert(size_of(u8) == sizeof(std::uint8_t));
}

TEST(DType, Knows_which_types_are_floats) {
  for (DType dtype : all_dtypes) EXPECT_EQ(is_float(dtype), to_string(dtype).front() == 'f') << to_string(dtype);
}

TEST(DType, Corresponds_to_a_C_plus_plus_type) {
  static_assert(dtype_of<float> == f32);
  static_assert(dtype_of<double> == f64);
  static_assert(dtype_of<std::int32_t> == s32);
  static_assert(dtype_of<std::int64_t> == s64);
  static_assert(dtype_of<long long> == s64);
  static_assert(dtype_of<std::uint32_t> == u32);
  static_assert(dtype_of<std::uint8_t> == u8);
}

TEST(DType, Other_types_are_not_elements) {
  EXPECT_FALSE(Element<bool>);
  EXPECT_FALSE(Element<char>);
  EXPECT_FALSE(Element<std::int8_t>);
  EXPECT_FALSE(Element<std::int16_t>);
  EXPECT_FALSE(Element<std::uint16_t>);
  EXPECT_FALSE(Element<std::uint64_t>);
  EXPECT_FALSE(Element<long double>);
  EXPECT_FALSE(Element<float*>);
}

TEST(DType, Const_types_are_not_elements) {
  EXPECT_FALSE(Element<const float>);
  EXPECT_FALSE(Element<const std::int32_t>);
  EXPECT_FALSE(Element<const std::uint8_t>);
}

}  // namespace
}  // namespace tessera
