#include "kernels/kernel.hpp"
#include "support/expect_error.hpp"
#include "support/interpreted.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::kernels {
namespace {

using test::expect_error;
using test::Interpreted;

// The expression of x and y for each pair, with a = the argument.
template <class T>
std::vector<T> computed(std::string_view expression, const std::vector<T>& x, const std::vector<T>& y = {},
                        const Params& defaults = {}, const Params& given = {}) {
  Kernel kernel = from_text("test", {"x", "y"}, expression, defaults);
  kernel.set_defaults();
  const Shape shape = {static_cast<std::int64_t>(x.size())};
  const Operand operand{dtype_of<T>, &shape};
  const Operand inputs[] = {operand, operand};
  Arguments arguments;
  kernel.bind(given, arguments);
  const Lowering lowering = kernel.lower({kernel, inputs, operand, {arguments.begin(), arguments.end()}});
  const test::Dims dims = {shape[0]};
  Interpreted run;
  run.input<T>(dims, x).template input<T>(dims, y.empty() ? x : y);
  for (const Lowering::Scalar& scalar : lowering.scalars)
    run.scalar(std::string(scalar.name), scalar.value.number, ir::type_of(scalar.dtype));
  return run.template output<T>(dims, lowering.body);
}

float at(std::string_view expression, float x, float y = 0) { return computed<float>(expression, {x}, {y})[0]; }

TEST(TextKernel, Computes_with_the_usual_precedence) {
  EXPECT_EQ(at("x + y * 2", 1, 3), 7);
  EXPECT_EQ(at("(x + y) * 2", 1, 3), 8);
  EXPECT_EQ(at("x - y - 1", 5, 3), 1);
  EXPECT_EQ(at("x / y / 2", 12, 3), 2);
  EXPECT_EQ(at("x % 4", 7), 3);
  EXPECT_EQ(at("-x ** 2", 3), -9);
  EXPECT_EQ(at("2 ** -x", 1), 0.5F);
  EXPECT_EQ(at("2 ** 3 ** 2", 0), 512);
  EXPECT_EQ(at("--x", 3), 3);
  EXPECT_EQ(at("2 * -x", 3), -6);
  EXPECT_EQ(at(".5 + 1e1 + 2.", 0), 12.5F);
}

TEST(TextKernel, Compares_and_chooses) {
  EXPECT_EQ(at("x > 0 ? x : -x / 2", -4), 2);
  EXPECT_EQ(at("x < 0 ? 1 : x == 0 ? 2 : 3", 5), 3);
  EXPECT_EQ(at("(x >= 1) + (x <= 1) + (x != 1)", 1), 2);
  EXPECT_EQ(at("x ? 1 : 2", 0), 2);
  EXPECT_EQ(at("select(x > y, x, y)", 1, 3), 3);
}

TEST(TextKernel, Has_functions_and_constants) {
  EXPECT_FLOAT_EQ(at("exp(x) + log(x) + sqrt(x) + rsqrt(x)", 4), std::exp(4.0F) + std::log(4.0F) + 2.5F);
  EXPECT_FLOAT_EQ(at("sin(x) + cos(x) + tanh(x) + erf(x)", 1),
                  std::sin(1.0F) + std::cos(1.0F) + std::tanh(1.0F) + std::erf(1.0F));
  EXPECT_EQ(at("abs(x) + floor(x) + ceil(x) + round(x)", -2.5F), 2.5F - 3 - 2 - 3);
  EXPECT_EQ(at("min(x, y) + 10 * max(x, y) + 100 * pow(x, y)", 2, 3), 832);
  EXPECT_EQ(at("fma(x, y, 1)", 2, 3), 7);
  EXPECT_FLOAT_EQ(at("sigmoid(x)", 1), 1 / (1 + std::exp(-1.0F)));
  EXPECT_EQ(at("relu(x) + clamp(x, -1, 1)", -3), -1);
  EXPECT_FLOAT_EQ(at("pi * e", 0), std::numbers::pi_v<float> * std::numbers::e_v<float>);
}

TEST(TextKernel, Takes_parameters_with_their_defaults) {
  EXPECT_EQ(computed<float>("x * a + b", {2}, {}, {{"a", 3}, {"b", 0.5}}), (std::vector<float>{6.5F}));
  EXPECT_EQ(computed<float>("x * a + b", {2}, {}, {{"a", 3}, {"b", 0.5}}, {{"a", 10}}), (std::vector<float>{20.5F}));
}

TEST(TextKernel, Inputs_and_parameters_come_before_constants) {
  EXPECT_EQ(computed<float>("e + 1", {2}, {}, {{"e", 3}}), (std::vector<float>{4}));
}

TEST(TextKernel, Computes_in_integers_where_possible) {
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(computed<std::int32_t>("x / 2", I{7, -7}), (I{3, -3}));
  EXPECT_EQ(computed<std::int32_t>("x + 1", I{std::numeric_limits<std::int32_t>::max()}),
            (I{std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(computed<std::int32_t>("x ** 2 % 10 + (x > 0)", I{7}), (I{10}));
  EXPECT_EQ(computed<std::int64_t>("x + 9007199254740993", {0}), (std::vector<std::int64_t>{9007199254740993}));
  EXPECT_EQ(computed<std::uint8_t>("x + y", {200}, {100}), (std::vector<std::uint8_t>{44}));
}

TEST(TextKernel, Loses_no_bits_at_the_limits_of_s64) {
  using L = std::vector<std::int64_t>;
  constexpr std::int64_t big = (std::int64_t{1} << 62) + 1, least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(computed<std::int64_t>("min(x, 9223372036854775807)", {big}), L{big});
  EXPECT_EQ(computed<std::int64_t>("max(x, -9223372036854775808)", {-big}), L{-big});
  EXPECT_EQ(computed<std::int64_t>("x + -9223372036854775808", {1}), L{least + 1});
  EXPECT_EQ(computed<std::int64_t>("x + - -9223372036854775808", {1}), L{least + 1});  // wraps around
  EXPECT_EQ(computed<std::int64_t>("x - 9223372036854775808", {0}), L{least});         // in f64
  EXPECT_EQ(computed<double>("x + -9223372036854775808 ** 1 + -9223372036854775808", {0}),
            (std::vector<double>{-0x1p64}));
}

TEST(TextKernel, Otherwise_computes_integers_in_f64_and_rounds_and_saturates) {
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(computed<std::int32_t>("x / 2.0", I{7, -7}), (I{4, -4}));
  EXPECT_EQ(computed<std::int32_t>("sqrt(x)", I{10}), (I{3}));
  EXPECT_EQ(computed<std::int32_t>("exp(x)", I{100, -100}), (I{std::numeric_limits<std::int32_t>::max(), 0}));
  EXPECT_EQ(computed<std::uint8_t>("x * 300", {1}), (std::vector<std::uint8_t>{255}));
  EXPECT_EQ(computed<std::uint8_t>("max(x, -1) - 10", {5}), (std::vector<std::uint8_t>{0}));
  EXPECT_EQ(computed<std::int32_t>("x * a", I{7}, {}, {{"a", 1}}, {{"a", 0.5}}), (I{4}));
  EXPECT_EQ(computed<std::int32_t>("x * a", I{7}, {}, {{"a", 1}}, {{"a", 2}}), (I{14}));
}

TEST(TextKernel, Computes_integers_in_f64_for_every_value_of_a_float_parameter) {
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(computed<std::uint8_t>("x * a", {200}, {}, {{"a", 1.0}}, {{"a", 1.999}}), (B{255}));
  EXPECT_EQ(computed<std::uint8_t>("x * a", {200}, {}, {{"a", 1.0}}, {{"a", 2.0}}), (B{255}));
  EXPECT_EQ(computed<std::uint8_t>("x * a", {200}, {}, {{"a", 1}}, {{"a", 2}}), (B{144}));
}

TEST(TextKernel, Has_logical_operators) {
  EXPECT_EQ(at("x > 1 && x < 3", 2), 1);
  EXPECT_EQ(at("x > 1 && x < 3", 3), 0);
  EXPECT_EQ(at("x < 1 || x > 3", 2), 0);
  EXPECT_EQ(at("x < 1 || x > 3", 4), 1);
  EXPECT_EQ(at("!x", 0), 1);
  EXPECT_EQ(at("!x", 7), 0);
  EXPECT_EQ(at("!!x", 7), 1);
  EXPECT_EQ(at("-!x", 0), -1);
  EXPECT_EQ(at("!x ** 2 + 1", 3), 1);  // binds weaker than **, tighter than +
  EXPECT_EQ(at("!x == 0", 5), 1);      // and tighter than ==, as in C
  EXPECT_EQ(at("1 || 0 && 0", 0), 1);  // && binds tighter than ||
  EXPECT_EQ(at("(1 || 0) && 0", 0), 0);
  EXPECT_EQ(at("x == 2 || x == 3 ? 10 : 20", 3), 10);
  EXPECT_EQ(at("x && 2.5", 0.5F), 1);  // a number is true unless it is 0
  EXPECT_EQ(at("x && 1", std::numeric_limits<float>::quiet_NaN()), 1);
  EXPECT_EQ(at("(x > 1 && 1) + (x > 1 || 0)", 2), 2);
  EXPECT_EQ(computed<std::uint8_t>("x > 100 && x < 200 ? x : 0", {50, 150, 250}),
            (std::vector<std::uint8_t>{0, 150, 0}));
  EXPECT_EQ(computed<std::int64_t>("x && !(x % 2)", {3, 4, 0}), (std::vector<std::int64_t>{0, 1, 0}));
}

TEST(TextKernel, Has_the_names_of_other_libraries) {
  EXPECT_EQ(at("where(x > 1, 5, 6)", 2), 5);
  EXPECT_EQ(at("where(x > 1, 5, 6)", 0), 6);
  EXPECT_EQ(at("clip(x, -1, 1)", 4), 1);
  EXPECT_EQ(at("power(x, 3)", 2), 8);
  EXPECT_NEAR(at("log10(x)", 1000), 3, 1e-6);
  EXPECT_NEAR(at("log10(x)", 0.01F), -2, 1e-6);
  EXPECT_EQ(at("log10(x)", 1), 0);
}

void expect_refused(std::string_view expression, std::string_view words,
                    const std::source_location where = std::source_location::current()) {
  expect_error(Errc::invalid_kernel, words, [&] { from_text("swish", {"x", "y"}, expression, {{"slope", 1}}); }, where);
}

TEST(TextKernel, Shows_where_the_text_is_wrong) {
  expect_refused("x / (1 + exq(-x))",
                 "[swish] at character 9: unknown name 'exq', did you mean 'exp'?\n"
                 "  x / (1 + exq(-x))\n"
                 "           ^");
  expect_refused("x \xc3\x97 2", "at character 2: unexpected character '\xc3\x97'\n");
  expect_refused("x * slop", "at character 4: unknown name 'slop', did you mean 'slope'?");
  expect_refused("x +\ny * (2", "at character 10: expected ')', got the end\n  y * (2\n        ^");
}

TEST(TextKernel, Reports_what_was_expected) {
  expect_refused("", "at character 0: expected a value, got the end");
  expect_refused("x + ", "at character 4: expected a value, got the end");
  expect_refused("x + * y", "at character 4: expected a value, got '*'");
  expect_refused("x y", "at character 2: expected an operator, got 'y'");
  expect_refused("2x", "at character 1: expected an operator, got 'x'");
  expect_refused("x ? 1", "expected ':', got the end");
  expect_refused("min(x", "expected ')' or ',', got the end");
  expect_refused("min(x)", "at character 3: min takes 2 arguments, got 1");
  expect_refused("exp()", "exp takes 1 argument, got 0");
  expect_refused("exp + 1", "expected '(' after the function exp, got '+'");
  expect_refused("x(y)", "'x' is not a function; to multiply, write *");
  expect_refused("x ^ 2", "unexpected character '^'; for a power write x ** y");
  expect_refused("x = 2", "unexpected character '='; to compare write x == y");
  expect_refused("x & y", "unexpected character '&'; for \"and\" write x && y");
  expect_refused("x | y", "unexpected character '|'; for \"or\" write x || y");
  expect_refused("x && ", "at character 5: expected a value, got the end");
  expect_refused("x ! y", "expected an operator, got '!'");
  expect_refused("gamma(x)", "unknown name 'gamma'; the functions are exp, log, log10, ");
  expect_refused("x < y < 2", "comparisons do not chain");
  expect_refused("1e999", "the number 1e999 is too large or too small");
}

TEST(TextKernel, Shows_only_what_is_around_the_mistake_in_a_long_line) {
  std::string sum = "x";
  for (int i = 0; i < 100'000; ++i) sum += " + x";
  expect_refused(sum + " + zoom + " + sum, "[swish] at character 400004: unknown name 'zoom'\n  …" + sum.substr(0, 40) +
                                               "zoom" + sum.substr(1, 36) + "…\n  " + std::string(41, ' ') + "^");
  expect_refused(std::string(1'000'000, 'z'), "unknown name '" + std::string(80, 'z') + "…' (1000000 bytes)\n  ");
  expect_refused("x + " + std::string(1'000'000, '9'), "the number " + std::string(80, '9') + "… (1000000 bytes)");
  // Characters of several bytes are not cut.
  std::string greek;
  for (int i = 0; i < 20; ++i) greek += "π";
  expect_refused("x + " + greek, "unexpected character 'π'\n  x + " + greek + "\n      ^");
  expect_refused("x + " + greek + "π", "unexpected character 'π'\n  x + " + greek + "…\n      ^");
  expect_refused("x + " + std::string(1000, '\x80'), "unexpected character '\x80\x80\x80\x80'\n");
}

TEST(TextKernel, Refuses_deep_nesting_but_not_long_expressions) {
  expect_refused(std::string(100'000, '('), "nested too deeply");
  expect_refused(std::string(100'000, '-'), "nested too deeply");
  std::string powers = "x";
  std::string sum = "x";
  for (int i = 0; i < 5'000; ++i) powers += "**x";
  for (int i = 0; i < 3'000; ++i) sum += " + x";
  expect_refused(powers, "nested too deeply");
  EXPECT_EQ(at(sum, 1), 3'001);
}

TEST(TextKernel, Refuses_invalid_and_repeated_names) {
  const auto make = [](std::string_view name, std::vector<std::string> inputs, const Params& params) {
    return [=] { from_text(name, inputs, "1", params); };
  };
  expect_error(Errc::invalid_kernel, "'my kernel' is not a valid kernel name", make("my kernel", {"x"}, {}));
  expect_error(Errc::invalid_kernel, "[k] '2x' is not a valid name", make("k", {"2x"}, {}));
  expect_error(Errc::invalid_kernel, "[k] the name 'x' is used twice", make("k", {"x", "x"}, {}));
  expect_error(Errc::invalid_kernel, "[k] the name 'x' is used twice", make("k", {"x"}, {{"x", 1}}));
  expect_error(Errc::invalid_kernel, "[k] the default of 'a' must be a number", make("k", {"x"}, {{"a", "b"}}));
}

TEST(TextKernel, Checks_the_types_of_a_call) {
  const Kernel kernel = from_text("k", {"x"}, "x", {});
  const Shape shape = {3};
  const Operand input[] = {{f32, &shape}};
  expect_error(Errc::dtype_mismatch, "must be s32", [&] { kernel.lower({kernel, input, {s32, &shape}, {}}); });
}

}  // namespace
}  // namespace tessera::kernels
