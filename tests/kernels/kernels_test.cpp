#include <tessera/add.hpp>
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;

// The oracle: computes integers exactly in 128 bits, then converts them.
__extension__ typedef __int128 Wide;

template <class T>
using Limits = std::numeric_limits<T>;

template <class T>
T wrapped(Wide value) {
  const Wide modulus = Wide{1} << Limits<std::make_unsigned_t<T>>::digits;
  Wide rest = value % modulus;
  if (rest < Limits<T>::min()) rest += modulus;
  if (rest > Limits<T>::max()) rest -= modulus;
  return static_cast<T>(rest);
}

template <class T>
T saturated(Wide value) {
  if (value < Limits<T>::min()) return Limits<T>::min();
  return value > Limits<T>::max() ? Limits<T>::max() : static_cast<T>(value);
}

// x * factor without any rounding but the last, halves away from zero.
template <class T>
T scaled(T x, double factor) {
  if (std::isnan(factor) || x == 0) return 0;
  const bool is_negative = (x < 0) != std::signbit(factor);
  const T end = is_negative ? Limits<T>::min() : Limits<T>::max();
  if (std::isinf(factor)) return end;
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(std::abs(factor), &exponent), 53));
  exponent -= 53;
  Wide magnitude = (x < 0 ? -Wide{x} : Wide{x}) * mantissa;  // at most 116 bits
  if (exponent > 10) return mantissa == 0 ? T{0} : end;
  if (exponent >= 0) {
    magnitude <<= exponent;
  } else if (exponent < -118) {
    magnitude = 0;
  } else {
    magnitude = (magnitude + (Wide{1} << (-exponent - 1))) >> -exponent;
  }
  return saturated<T>(is_negative ? -magnitude : magnitude);
}

template <class T>
T scaled(T x, const Value& factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(x, static_cast<T>(factor.number()), T{-0.0});
  } else {
    return factor.is_integer() ? saturated<T>(Wide{x} * factor.integer()) : scaled(x, factor.number());
  }
}

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, T{1}, b);
  } else {
    return wrapped<T>(Wide{a} + Wide{b});
  }
}

template <class T>
T product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, b, T{-0.0});
  } else {
    return wrapped<T>(Wide{a} * Wide{b});
  }
}

template <class T>
T filled(const Value& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.number());
  } else {
    return scaled(T{1}, value);
  }
}

// Bitwise equal; all NaNs are equal.
template <class T>
bool is_same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
  } else {
    return a == b;
  }
}

template <class T>
void expect_values(const Buffer& buffer, const std::vector<T>& expected, const std::string& what) {
  const std::vector<T> values = buffer.read<T>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(is_same(values[i], expected[i]))
        << what << ": element " << i << " is " << +values[i] << ", should be " << +expected[i];
  }
}

template <class T>
const std::vector<T>& corner_values() {
  using L = Limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    static const std::vector<T> values = {0,
                                          -T{0},
                                          1,
                                          -1,
                                          2,
                                          3,
                                          0.5,
                                          T{-2.5},
                                          T{1} / 3,
                                          L::max(),
                                          L::lowest(),
                                          L::max() / 2,
                                          L::min(),
                                          L::denorm_min(),
                                          -L::denorm_min(),
                                          L::epsilon(),
                                          L::infinity(),
                                          -L::infinity(),
                                          L::quiet_NaN()};
    return values;
  } else {
    static const std::vector<T> values = {0,
                                          1,
                                          2,
                                          3,
                                          5,
                                          100,
                                          L::max(),
                                          L::max() - 1,
                                          L::max() - 2,
                                          L::max() / 2,
                                          L::min(),
                                          L::min() + 1,
                                          L::min() + 2,
                                          L::min() / 2,
                                          wrapped<T>(-1),
                                          wrapped<T>(-2),
                                          wrapped<T>(-3),
                                          wrapped<T>(-100)};
    return values;
  }
}

// First every pair of corner values, then anything. `role` 0 is the first input, 1 the second.
template <class T>
std::vector<T> inputs_of(std::size_t size, std::size_t role) {
  const std::vector<T>& corners = corner_values<T>();
  std::uint64_t random = 12345 + role;
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    if (i < corners.size() * corners.size()) {
      values[i] = corners[(role == 0 ? i : i / corners.size()) % corners.size()];
    } else if constexpr (std::is_floating_point_v<T>) {
      values[i] = (static_cast<T>(random >> 40) - T{1 << 23}) / 1000;
    } else {
      values[i] = static_cast<T>(random >> 13);
    }
  }
  return values;
}

// A call of a kernel, and its result for one element.
template <class T>
struct Case {
  std::string kernel;
  Params params;
  std::size_t inputs;
  std::function<T(T, T)> oracle;

  std::string name() const {
    std::string text = kernel;
    for (const Param& param : params) text += " " + param.name + "=" + to_string(param.value);
    return text;
  }
};

template <class T>
Case<T> relu_case(const Value& slope) {
  return {"relu", {{"slope", slope}}, 1, [=](T x, T) {
            // The slope has the float's type: a number too small for it is 0.
            const bool is_zero =
                std::is_floating_point_v<T> ? static_cast<T>(slope.number()) == 0 : slope.number() == 0;
            if (x < 0) return is_zero ? T{0} : scaled(x, slope);
            return x;
          }};
}

template <class T>
Case<T> scale_case(const char* kernel, const Value& factor) {
  return {kernel, {{"factor", factor}}, 1, [=](T x, T) { return scaled(x, factor); }};
}

template <class T>
Case<T> fill_case(const Value& value) {
  return {"fill", {{"value", value}}, 0, [=](T, T) { return filled<T>(value); }};
}

template <class T>
std::vector<Case<T>> cases() {
  return {
      {"elementwise_add", {}, 2, sum<T>},
      {"elementwise_mul", {}, 2, product<T>},
      {"multiply", {}, 2, product<T>},
      {"copy", {}, 1, [](T x, T) { return x; }},
      {"scale", {}, 1, [](T x, T) { return x; }},
      {"fill", {}, 0, [](T, T) { return T{0}; }},
      relu_case<T>(1),
      relu_case<T>(-3),
      scale_case<T>("scale", 3),
      scale_case<T>("scalar_mul", -2),
      fill_case<T>(7),
  };
}

template <class T>
class Kernels : public testing::Test {
 protected:
  const Device device = Device::open("cpu");

  BufferList list_of(const Case<T>& what, const Buffer& a, const Buffer& b) const {
    if (what.inputs == 2) return {a, b};
    return what.inputs == 1 ? BufferList(a) : BufferList();
  }

  std::vector<T> expected_of(const Case<T>& what, const std::vector<T>& a, const std::vector<T>& b) const {
    std::vector<T> expected(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) expected[i] = what.oracle(a[i], b[i]);
    return expected;
  }

  void check(const Case<T>& what, const std::vector<T>& a, const std::vector<T>& b, const Shape& shape) const {
    const Buffer x = device.buffer<T>(a, shape);
    const Buffer y = device.buffer<T>(b, shape);
    const Buffer out = device.empty(shape, dtype_of<T>);
    device.run(what.kernel, list_of(what, x, y), out, what.params);
    const std::string name = what.name() + " of " + to_string(dtype_of<T>, shape);
    expect_values(out, expected_of(what, a, b), name);
    expect_values(x, a, name + ", first input");
    expect_values(y, b, name + ", second input");
  }

  void check(const Case<T>& what, std::size_t size) const {
    check(what, inputs_of<T>(size, 0), inputs_of<T>(size, 1), Shape(size));
  }
};

struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(dtype_of<T>));
  }
};

using ElementTypes = testing::Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint8_t>;
TYPED_TEST_SUITE(Kernels, ElementTypes, TypeNames);

TYPED_TEST(Kernels, Match_the_oracle_for_every_size) {
  for (const auto& what : cases<TypeParam>()) {
    for (const std::size_t size : {0U, 1U, 2U, 3U, 7U, 64U, 1000U, 1023U, 4097U, 100003U}) this->check(what, size);
  }
}

TYPED_TEST(Kernels, Match_the_oracle_in_many_pieces) {
  // Also of bytes: a piece moves 256 KiB.
  for (const auto& what : cases<TypeParam>()) this->check(what, 800'011 / sizeof(TypeParam));
}

TYPED_TEST(Kernels, Support_every_rank) {
  const Shape shapes[] = {{},
                          {5},
                          {3, 2},
                          {2, 3, 4},
                          {2, 1, 2, 3},
                          {1, 2, 3, 1, 2},
                          {2, 2, 1, 3, 1, 2},
                          {1, 2, 1, 2, 3, 2, 1},
                          {2, 1, 2, 1, 2, 1, 2, 3},
                          {3, 0, 2},
                          {0, 0, 0, 0, 0, 0, 0, 0}};
  for (const auto& what : cases<TypeParam>()) {
    for (const Shape& shape : shapes) {
      const auto size = static_cast<std::size_t>(shape.elements());
      this->check(what, inputs_of<TypeParam>(size, 0), inputs_of<TypeParam>(size, 1), shape);
    }
  }
}

TYPED_TEST(Kernels, Work_in_place) {
  for (const auto& what : cases<TypeParam>()) {
    for (const std::size_t size : {1U, 7U, 1000U, 100003U}) {
      const auto a = inputs_of<TypeParam>(size, 0);
      const auto b = inputs_of<TypeParam>(size, 1);
      for (const bool is_second : {false, true}) {
        const Buffer x = this->device.template buffer<TypeParam>(a);
        const Buffer y = this->device.template buffer<TypeParam>(b);
        const Buffer& out = is_second && what.inputs == 2 ? y : x;
        this->device.run(what.kernel, this->list_of(what, x, y), out, what.params);
        expect_values(out, this->expected_of(what, a, b), what.name() + " in place");
      }
    }
  }
}

TYPED_TEST(Kernels, Accept_one_buffer_for_everything) {
  const auto values = inputs_of<TypeParam>(4097, 0);
  for (const auto& what : cases<TypeParam>()) {
    const Buffer all = this->device.template buffer<TypeParam>(values);
    this->device.run(what.kernel, this->list_of(what, all, all), all, what.params);
    expect_values(all, this->expected_of(what, values, values), what.name() + " of one buffer");
  }
}

TYPED_TEST(Kernels, Have_the_same_result_when_submitted) {
  for (const auto& what : cases<TypeParam>()) {
    const auto a = inputs_of<TypeParam>(4097, 0);
    const auto b = inputs_of<TypeParam>(4097, 1);
    const Buffer x = this->device.template buffer<TypeParam>(a);
    const Buffer y = this->device.template buffer<TypeParam>(b);
    const Buffer out = this->device.empty(x.shape(), x.dtype());
    this->device.submit(what.kernel, this->list_of(what, x, y), out, what.params).wait();
    expect_values(out, this->expected_of(what, a, b), what.name() + " submitted");
  }
}

TYPED_TEST(Kernels, Copy_keeps_every_bit) {
  std::vector<std::byte> bytes(4096);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  const Shape shape(bytes.size() / sizeof(TypeParam));
  const Buffer x = this->device.from_bytes(bytes, shape, dtype_of<TypeParam>);
  const Buffer out = this->device.zeros(shape, dtype_of<TypeParam>);
  this->device.run("copy", {x}, out);
  EXPECT_EQ(out.read_bytes(), bytes);
}

TYPED_TEST(Kernels, Relu_without_a_slope_is_the_larger_of_the_value_and_zero) {
  std::vector<TypeParam> values;
  for (const TypeParam value : inputs_of<TypeParam>(4097, 0)) {
    if (!std::is_floating_point_v<TypeParam> || std::isfinite(static_cast<double>(value))) values.push_back(value);
  }
  const Buffer x = this->device.template buffer<TypeParam>(values);
  const Buffer out = this->device.empty(x.shape(), x.dtype());
  relu(x, out);
  const auto rectified = out.template read<TypeParam>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rectified[i], std::max(values[i], TypeParam{0})) << "of " << +values[i];
  }
}

TYPED_TEST(Kernels, Scale_and_relu_accept_any_integer_factor) {
  constexpr auto least = Limits<std::int64_t>::min();
  constexpr auto most = Limits<std::int64_t>::max();
  for (const std::int64_t factor : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{2},
                                    std::int64_t{1} << 31, std::int64_t{-1} << 32, most, least}) {
    this->check(scale_case<TypeParam>("scale", factor), 4097);
    this->check(relu_case<TypeParam>(factor), 4097);
  }
}

// So small that a product with a short fraction is exact in f64.
template <class T>
std::vector<T> values_for_fractions() {
  std::vector<T> values = inputs_of<T>(4097, 0);
  if constexpr (std::is_same_v<T, std::int64_t>) {
    for (T& value : values) value /= 1 << 14;
  }
  return values;
}

TYPED_TEST(Kernels, Scale_and_relu_round_halves_away_from_zero_and_saturate) {
  const auto values = values_for_fractions<TypeParam>();
  const Shape shape(values.size());
  for (const double factor : {0.0,
                              -0.0,
                              1.0,
                              -1.0,
                              0.5,
                              -0.5,
                              0.25,
                              1.5,
                              -2.5,
                              0.1,
                              -0.1,
                              1e10,
                              -1e10,
                              1e300,
                              -1e300,
                              1e-300,
                              4e-320,
                              Limits<double>::infinity(),
                              -Limits<double>::infinity(),
                              Limits<double>::quiet_NaN()}) {
    this->check(scale_case<TypeParam>("scale", factor), values, values, shape);
    this->check(relu_case<TypeParam>(factor), values, values, shape);
  }
}

TYPED_TEST(Kernels, Fill_rounds_and_saturates) {
  constexpr double infinity = Limits<double>::infinity();
  const Value values[] = {0,
                          1,
                          -1,
                          255,
                          256,
                          std::int64_t{1} << 31,
                          (std::int64_t{-1} << 31) - 1,
                          std::int64_t{1} << 32,
                          (std::int64_t{1} << 53) + 1,
                          Limits<std::int64_t>::max(),
                          Limits<std::int64_t>::min(),
                          0.5,
                          -0.5,
                          -0.0,
                          1.5,
                          2.5,
                          -2.5,
                          0.49999999999999994,
                          254.5,
                          255.49,
                          255.5,
                          2147483646.5,
                          2147483647.5,
                          -2147483648.5,
                          4294967295.5,
                          9223372036854774784.0,
                          9223372036854775808.0,
                          -9223372036854775808.0,
                          1e300,
                          -1e300,
                          1e-300,
                          infinity,
                          -infinity,
                          Limits<double>::quiet_NaN()};
  for (const Value& value : values) this->check(fill_case<TypeParam>(value), 7);
}

template <class T>
void expect_one(std::string_view kernel, const std::vector<T>& inputs, const Params& params, T expected) {
  const Device device = Device::open("cpu");
  std::vector<Buffer> buffers;
  for (const T value : inputs) buffers.push_back(device.buffer<T>({value}, {}));
  const Buffer out = device.empty({}, dtype_of<T>);
  device.run(kernel, buffers, out, params);
  expect_values<T>(out, {expected}, std::string(kernel));
}

// Answers worked out by hand, so that the oracle is not the only judge.
TEST(KernelsByHand, Integers_wrap_around_in_sums_and_products) {
  expect_one<std::uint8_t>("elementwise_add", {200, 100}, {}, 44);
  expect_one<std::uint8_t>("elementwise_mul", {16, 17}, {}, 16);
  expect_one<std::int32_t>("elementwise_add", {2147483647, 1}, {}, -2147483647 - 1);
  expect_one<std::int32_t>("elementwise_mul", {-2147483647 - 1, -1}, {}, -2147483647 - 1);
  expect_one<std::int32_t>("elementwise_mul", {65536, 65536}, {}, 0);
  expect_one<std::uint32_t>("elementwise_add", {4294967295U, 2}, {}, 1);
  expect_one<std::uint32_t>("elementwise_mul", {4294967295U, 4294967295U}, {}, 1);
  expect_one<std::int64_t>("elementwise_add", {Limits<std::int64_t>::max(), 1}, {}, Limits<std::int64_t>::min());
  expect_one<std::int64_t>("elementwise_mul", {Limits<std::int64_t>::min(), -1}, {}, Limits<std::int64_t>::min());
}

TEST(KernelsByHand, Scaling_saturates) {
  expect_one<std::uint8_t>("scale", {200}, {{"factor", 2}}, 255);
  expect_one<std::uint8_t>("scale", {200}, {{"factor", -1}}, 0);
  expect_one<std::uint8_t>("scale", {200}, {{"factor", 1.5}}, 255);
  expect_one<std::int32_t>("scale", {-2147483647 - 1}, {{"factor", -1}}, 2147483647);
  expect_one<std::int32_t>("scale", {-2147483647 - 1}, {{"factor", 1.5}}, -2147483647 - 1);
  expect_one<std::uint32_t>("scale", {4294967295U}, {{"factor", Limits<std::int64_t>::max()}}, 4294967295U);
  expect_one<std::int64_t>("scale", {Limits<std::int64_t>::min()}, {{"factor", -1}}, Limits<std::int64_t>::max());
  expect_one<std::int64_t>("relu", {Limits<std::int64_t>::min()}, {{"slope", 2}}, Limits<std::int64_t>::min());
}

TEST(KernelsByHand, Scaling_rounds_halves_away_from_zero) {
  expect_one<std::int32_t>("scale", {5}, {{"factor", 0.5}}, 3);
  expect_one<std::int32_t>("scale", {-5}, {{"factor", 0.5}}, -3);
  expect_one<std::int32_t>("scale", {3}, {{"factor", 0.25}}, 1);
  expect_one<std::int32_t>("scale", {1}, {{"factor", 0.49999999999999994}}, 0);
  expect_one<std::uint8_t>("scale", {7}, {{"factor", 0.5}}, 4);
  expect_one<std::int32_t>("relu", {-5}, {{"slope", 0.1}}, -1);
  expect_one<std::int32_t>("fill", {}, {{"value", -2.5}}, -3);
}

TEST(KernelsByHand, NaN_stays_NaN_in_floats_and_is_zero_in_integers) {
  constexpr float nan = Limits<float>::quiet_NaN();
  expect_one<float>("relu", {nan}, {}, nan);
  expect_one<float>("elementwise_add", {nan, 1}, {}, nan);
  expect_one<float>("elementwise_mul", {0, Limits<float>::infinity()}, {}, nan);
  expect_one<float>("fill", {}, {{"value", nan}}, nan);
  expect_one<std::int32_t>("fill", {}, {{"value", nan}}, 0);
  expect_one<std::int32_t>("scale", {7}, {{"factor", nan}}, 0);
}

TEST(KernelsByHand, Negative_zero_keeps_its_sign) {
  expect_one<float>("elementwise_add", {-0.0F, -0.0F}, {}, -0.0F);
  expect_one<float>("elementwise_mul", {-0.0F, 3}, {}, -0.0F);
  expect_one<float>("scale", {0}, {{"factor", -1}}, -0.0F);
  expect_one<double>("copy", {-0.0}, {}, -0.0);
  expect_one<double>("fill", {}, {{"value", -0.0}}, -0.0);
}

// kernels.hpp: max(input, 0).
TEST(KernelsByHand, Relu_of_minus_infinity_is_zero) {
  const Device device = Device::open("cpu");
  const Buffer x = device.buffer<float>({-Limits<float>::infinity(), Limits<float>::infinity()});
  const Buffer out = device.empty({2});
  relu(x, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{0, Limits<float>::infinity()}));
}

TEST(KernelsByHand, Large_integers_are_scaled_exactly_even_by_a_float) {
  constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;
  constexpr std::int64_t most = Limits<std::int64_t>::max();
  expect_one<std::int64_t>("scale", {odd}, {{"factor", 1.0}}, odd);
  expect_one<std::int64_t>("scale", {odd}, {{"factor", -2.0}}, -2 * odd);
  expect_one<std::int64_t>("scale", {most - 1}, {{"factor", 1.0}}, most - 1);
  expect_one<std::int64_t>("relu", {-odd}, {{"slope", 1.0}}, -odd);
  const Device device = Device::open("cpu");
  const Buffer x = device.buffer<std::int64_t>({odd});
  scale(x, 1, x);
  EXPECT_EQ(x.read<std::int64_t>(), std::vector<std::int64_t>{odd});
}

TEST(KernelFunctions, Run_the_kernels_of_their_names) {
  const Device device = Device::open("cpu");
  const Buffer a = device.buffer<float>({1, -2, 3});
  const Buffer b = device.buffer<float>({10, 20, 30});
  const Buffer out = device.empty({3});
  add(a, b, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{11, 18, 33}));
  multiply(a, b, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{10, -40, 90}));
  scale(a, 0.5, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{0.5, -1, 1.5}));
  relu(a, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{1, 0, 3}));
}

TEST(KernelList, Names_every_kernel_once_in_order) {
  std::vector<std::string> names;
  for (const KernelInfo& kernel : Device::open("cpu").kernels()) names.push_back(kernel.name);
  EXPECT_TRUE(std::ranges::is_sorted(names, std::ranges::less_equal()));
  for (const char* name : {"copy", "elementwise_add", "fill", "layer_norm", "matmul", "relu", "uniform"}) {
    EXPECT_TRUE(std::ranges::binary_search(names, name)) << name;
  }
}

TEST(KernelList, Every_kernel_and_parameter_is_documented) {
  for (const KernelInfo& kernel : Device::open("cpu").kernels()) {
    EXPECT_FALSE(kernel.documentation.empty()) << kernel.name;
    EXPECT_FALSE(kernel.dtypes.empty()) << kernel.name;
    for (const ParamInfo& param : kernel.params) {
      EXPECT_FALSE(param.documentation.empty()) << kernel.name << "." << param.name;
      EXPECT_FALSE(param.type.empty()) << kernel.name << "." << param.name;
    }
  }
}

TEST(KernelList, Kernels_have_the_names_of_other_libraries) {
  const Device device = Device::open("cpu");
  const Buffer a = device.buffer<float>({5, -2, 9}), b = device.buffer<float>({3, 2, 0.5F}), out = device.zeros({3});
  device.run("subtract", {a, b}, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{2, -4, 8.5F}));
  device.run("power", {a, b}, out);
  EXPECT_EQ(out.read<float>(), (std::vector<float>{125, 4, 3}));
  device.run("clip", {a}, out, {{"min", -1}, {"max", 6}});
  EXPECT_EQ(out.read<float>(), (std::vector<float>{5, -1, 6}));
}

TEST(KernelList, An_unknown_name_suggests_a_kernel_with_that_word_and_points_to_the_list) {
  const Device device = Device::open("cpu");
  const Buffer x = device.zeros({3});
  const auto run = [&](const char* kernel) { return [&device, &x, kernel] { device.run(kernel, {x}, x); }; };
  expect_error(Errc::unknown_kernel, "there is no kernel 'sum', did you mean 'reduce_sum'? Device::kernels() lists all",
               run("sum"));
  expect_error(Errc::unknown_kernel, "no kernel 'max_pool', did you mean 'max_pool2d'?", run("max_pool"));
  expect_error(Errc::unknown_kernel, "no kernel 'mean', did you mean 'reduce_mean'?", run("mean"));
  expect_error(Errc::unknown_kernel, "no kernel 'subb', did you mean 'sub'?", run("subb"));
  expect_error(Errc::unknown_kernel, "there is no kernel 'photosynthesis'; Device::kernels() lists all",
               run("photosynthesis"));
}

TEST(KernelList, Kernels_run_as_they_are_described) {
  const Device device = Device::open("cpu");
  // Kernels that turn zeros into zeros with default parameters.
  const std::vector<std::string> names = {"abs",  "cast", "clamp", "copy", "elementwise_add", "elementwise_mul",
                                          "fill", "gelu", "neg",   "relu", "scale",           "silu",
                                          "sqrt", "tanh"};
  for (const KernelInfo& kernel : device.kernels()) {
    if (!std::ranges::binary_search(names, kernel.name)) continue;
    EXPECT_EQ(kernel.dtypes, device.info().dtypes) << kernel.name;
    for (const DType dtype : kernel.dtypes) {
      const std::vector<Buffer> inputs(kernel.inputs.size(), device.zeros({3}, dtype));
      Params params;
      for (const ParamInfo& param : kernel.params) params.set(param.name, param.default_value);
      const std::vector<std::byte> ones(3 * size_of(dtype), std::byte{1});
      const Buffer out = device.from_bytes(ones, {3}, dtype);
      device.run(kernel.name, inputs, out, params);
      if (kernel.name == "neg" && is_float(dtype)) continue;  // -0
      EXPECT_EQ(out.read_bytes(), std::vector<std::byte>(3 * size_of(dtype))) << kernel.name;
    }
  }
}

TEST(KernelList, Prints_as_signatures) {
  std::vector<std::string> lines;
  for (const KernelInfo& kernel : Device::open("cpu").kernels()) lines.push_back(to_string(kernel));
  for (const char* start :
       {"copy(x)  ", "elementwise_add(a, b)  a + b", "fill(value: number = 0)  ", "relu(x; slope: number = 0)  ",
        "layer_norm(x, [gamma], [beta]; epsilon: number at least 0 = 1e-05) for f32, f64  ",
        "reduce_sum(x; axis: integer = -1)  ",
        "elementwise_max(a, b)  the larger of a and b; NaN if either is NaN; also max",
        "elementwise_sub(a, b)  a - b; integers wrap around; also sub, subtract",
        "gaussian_blur(x; radius: integer 0..1024 = 1, sigma: number greater than 0 = 0.8, border: string one of "
        "clamp, "
        "reflect, reflect_101, wrap, zero = \"clamp\") for f32, u8  "}) {
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) { return line.starts_with(start); })) << start;
  }
}

}  // namespace
}  // namespace tessera
