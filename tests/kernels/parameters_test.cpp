#include <tessera/tessera.hpp>

#include "kernels/kernel.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::kernels {
namespace {

using Kind = ParamSpec::Kind;
using test::expect_error;

const Kernel& probe() {
  static const Kernel& kernel = []() -> const Kernel& {
    Kernel made;
    made.name = "probe";
    made.inputs = {"x", "gamma"};
    made.optional_inputs = 1;
    made.params = {
        {.name = "amount", .default_value = 0.5, .documentation = "a number"},
        {.name = "radius", .kind = Kind::integer, .default_value = 1, .documentation = "a range", .min = 0, .max = 64},
        {.name = "flag", .kind = Kind::boolean, .default_value = true, .documentation = "a bool"},
        {.name = "method",
         .kind = Kind::string,
         .default_value = "nearest",
         .documentation = "a choice",
         .choices = {"nearest", "bilinear", "bicubic"}},
        {.name = "mean", .kind = Kind::numbers, .default_value = Value::list(), .documentation = "numbers"},
        {.name = "size", .kind = Kind::integers, .default_value = Value(2, 2), .documentation = "integers", .min = 1},
        {.name = "seed", .kind = Kind::integer, .default_value = 0, .documentation = "required", .is_required = true}};
    made.dtypes = {f32, f64};
    made.documentation = "nothing";
    return adopt(std::move(made));
  }();
  return kernel;
}

// The arguments, which refer to the parameters; the last call's are kept alive.
Arguments bound(const Params& params) {
  static Params all;
  all = params;
  all.set("seed", 1);
  Arguments arguments;
  probe().bind(all, arguments);
  return arguments;
}

void expect_refused(const Params& params, std::string_view message) {
  expect_error(Errc::invalid_parameter, message, [&] { bound(params); });
}

TEST(Parameters, Have_their_defaults_and_say_whether_they_were_given) {
  const Arguments arguments = bound({});
  ASSERT_EQ(arguments.size(), 7U);
  EXPECT_EQ(arguments[0].number, 0.5);
  EXPECT_FALSE(arguments[0].is_integer);
  EXPECT_EQ(arguments[1].integer, 1);
  EXPECT_TRUE(arguments[2].boolean());
  EXPECT_EQ(arguments[3].string(), "nearest");
  EXPECT_TRUE(arguments[4].numbers().empty());
  EXPECT_EQ(arguments[5].integers(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_FALSE(arguments[0].is_given);
  EXPECT_TRUE(arguments[6].is_given);
}

TEST(Parameters, A_number_accepts_integers_and_an_integer_accepts_whole_numbers) {
  EXPECT_EQ(bound({{"amount", 3}})[0].integer, 3);
  EXPECT_TRUE(bound({{"amount", 3.0}})[0].is_integer);
  EXPECT_EQ(bound({{"radius", 3.0}})[1].integer, 3);
  expect_refused({{"radius", 2.5}}, "[probe] parameter 'radius' must be an integer, got a number, 2.5");
  expect_refused({{"amount", true}}, "parameter 'amount' must be a number, got a bool, true");
  expect_refused({{"flag", 1}}, "parameter 'flag' must be a bool, got an integer, 1");
}

TEST(Parameters, Have_ranges) {
  EXPECT_EQ(bound({{"radius", 64}})[1].integer, 64);
  expect_refused({{"radius", 65}}, "[probe] parameter 'radius' must be between 0 and 64, got 65");
  expect_refused({{"size", Value(3, 0)}}, "parameter 'size' must be at least 1, got [3, 0]");
}

TEST(Parameters, A_string_is_one_of_its_choices) {
  EXPECT_EQ(bound({{"method", "bicubic"}})[3].string(), "bicubic");
  expect_refused({{"method", "bilinaer"}},
                 "parameter 'method' must be one of nearest, bilinear, bicubic, got \"bilinaer\", did you mean "
                 "'bilinear'?");
  expect_refused({{"method", 3}}, "parameter 'method' must be a string, got an integer, 3");
}

TEST(Parameters, A_single_number_counts_as_a_list_of_one) {
  EXPECT_EQ(bound({{"mean", 0.5}})[4].numbers(), (std::vector<double>{0.5}));
  EXPECT_EQ(bound({{"size", 7.0}})[5].integers(), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(bound({{"mean", Value(1, 2.5)}})[4].numbers(), (std::vector<double>{1, 2.5}));
  expect_refused({{"mean", Value(1, "a")}}, "parameter 'mean' must be a list of numbers, got a list, [1, \"a\"]");
  expect_refused({{"size", Value(1, 2.5)}}, "parameter 'size' must be a list of integers, got a list, [1, 2.5]");
}

TEST(Parameters, A_required_one_must_be_given) {
  Arguments arguments;
  expect_error(Errc::invalid_parameter, "[probe] needs the parameter 'seed', an integer",
               [&] { probe().bind(Params(), arguments); });
}

TEST(Parameters, An_unknown_one_is_refused_with_the_nearest_name) {
  expect_error(Errc::unknown_parameter, "[probe] has no parameter 'radios', did you mean 'radius'?",
               [] { bound({{"radios", 1}}); });
}

TEST(Parameters, An_unknown_one_like_no_other_is_refused_with_all_names) {
  expect_error(Errc::unknown_parameter,
               "[probe] has no parameter 'x'; it has amount, radius, flag, method, mean, size, seed",
               [] { bound({{"x", 1}}); });
  expect_error(Errc::unknown_parameter, "[probe] has no parameter 'radius_in_pixels', did you mean 'radius'?",
               [] { bound({{"radius_in_pixels", 1}}); });
}

TEST(Parameters, Have_other_names_of_which_a_call_gives_one) {
  Kernel kernel = probe();
  kernel.params[0].aliases = {"strength", "weight"};
  const auto bind = [&](const Params& params) {
    Arguments arguments;
    kernel.bind(params, arguments);
    return arguments[0].number;
  };
  for (const char* name : {"amount", "strength", "weight"}) EXPECT_EQ(bind({{"seed", 1}, {name, 0.75}}), 0.75) << name;
  expect_error(Errc::invalid_parameter, "[probe] 'weight' and 'amount' are the same parameter: give one",
               [&] { bind({{"weight", 1}, {"seed", 1}, {"amount", 1}}); });
  expect_error(Errc::invalid_parameter, "[probe] parameter 'amount' must be a number, got a string, \"x\"",
               [&] { bind({{"seed", 1}, {"strength", "x"}}); });
  expect_error(Errc::unknown_parameter, "has no parameter 'strengt', did you mean 'strength'?",
               [&] { bind({{"seed", 1}, {"strengt", 1}}); });
  EXPECT_EQ(kernel.info().params[0].aliases, (std::vector<std::string>{"strength", "weight"}));
  EXPECT_TRUE(to_string(kernel.info()).starts_with("probe(x, [gamma]; amount or strength or weight: number = 0.5, "));
}

TEST(Parameters, The_number_of_inputs_may_vary_where_some_are_optional) {
  probe().check_count(1);
  probe().check_count(2);
  expect_error(Errc::count_mismatch, "[probe] takes 1 to 2 inputs, got 3", [] { probe().check_count(3); });
  expect_error(Errc::count_mismatch, "[probe] takes 1 to 2 inputs, got 0", [] { probe().check_count(0); });
}

TEST(Parameters, Print_with_types_ranges_and_defaults) {
  EXPECT_EQ(
      to_string(probe().info()),
      "probe(x, [gamma]; amount: number = 0.5, radius: integer 0..64 = 1, flag: boolean = true, method: string one "
      "of nearest, bilinear, bicubic = \"nearest\", mean: list of numbers = [], size: list of integers at least 1 "
      "= [2, 2], seed: integer) for f32, f64  nothing");
}

}  // namespace
}  // namespace tessera::kernels
