// What is refused for its shapes alone, which may need more memory than there is.
#include "kernels/kernel.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace tessera::kernels {
namespace {

using test::expect_error;

void lower(std::string_view name, DType from, const Shape& x, DType to, const Shape& output,
           const Params& params = {}) {
  const Kernel& kernel = find(name);
  Arguments arguments;
  kernel.bind(params, arguments);
  const Operand input{from, &x};
  kernel.lower({.kernel = kernel, .inputs = {&input, 1}, .output = {to, &output}, .arguments = arguments});
}

TEST(Lowering, Argmax_refuses_an_output_that_cannot_hold_every_index) {
  constexpr std::int64_t most_s32 = std::int64_t{1} << 31, most_u32 = std::int64_t{1} << 32;
  lower("argmax", f32, {most_s32}, s32, {1});
  lower("argmax", f32, {most_u32}, u32, {1});
  lower("argmax", f32, {most_u32 + 1}, s64, {1});
  expect_error(Errc::dtype_mismatch,
               "[argmax] output must be s64: indices along an axis of 2147483649 elements do not fit in s32",
               [&] { lower("argmax", f32, {most_s32 + 1}, s32, {1}); });
  expect_error(Errc::dtype_mismatch,
               "[argmax] output must be s64: indices along an axis of 4294967297 elements do not fit in u32",
               [&] { lower("argmax", u8, {most_u32 + 1}, u32, {1}); });
}

TEST(Lowering, Argmax_counts_the_elements_along_the_axis) {
  constexpr std::int64_t many = std::int64_t{1} << 32;
  lower("argmax", f32, {many, 4}, s32, {many}, {{"axis", 1}});
  expect_error(Errc::dtype_mismatch, "an axis of 4294967296 elements",
               [&] { lower("argmax", f32, {many, 4}, s32, {4}, {{"axis", 0}}); });
  // Without an axis, all elements of a matrix are one axis.
  expect_error(Errc::dtype_mismatch, "an axis of 17179869184 elements",
               [&] { lower("argmax", f32, {many, 4}, s32, {}); });
}

}  // namespace
}  // namespace tessera::kernels
