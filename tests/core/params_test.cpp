#include <tessera/params.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

TEST(Value, Is_the_integer_0_by_default) {
  EXPECT_TRUE(Value().is_integer());
  EXPECT_EQ(Value().integer(), 0);
}

TEST(Value, Holds_a_bool) {
  EXPECT_TRUE(Value(true).is_bool());
  EXPECT_TRUE(Value(true).boolean());
  EXPECT_FALSE(Value(false).boolean());
  EXPECT_FALSE(Value(true).is_integer());
  EXPECT_FALSE(Value(true).is_number());
}

TEST(Value, Holds_an_integer_of_any_width) {
  EXPECT_EQ(Value(std::int8_t{-3}).integer(), -3);
  EXPECT_EQ(Value(std::uint8_t{200}).integer(), 200);
  EXPECT_EQ(Value(std::uint16_t{65535}).integer(), 65535);
  EXPECT_EQ(Value(4000000000U).integer(), 4000000000);
  EXPECT_EQ(Value(least).integer(), least);
  EXPECT_EQ(Value(static_cast<std::uint64_t>(most)).integer(), most);
}

TEST(Value, Refuses_an_integer_beyond_64_signed_bits) {
  expect_error(Errc::overflow, "64 signed bits", [] { return Value(static_cast<std::uint64_t>(most) + 1); });
  expect_error(Errc::overflow, "64 signed bits",
               [] { return Value::list(1, std::numeric_limits<std::uint64_t>::max()); });
}

TEST(Value, Holds_a_number) {
  EXPECT_TRUE(Value(1.5).is_number());
  EXPECT_FALSE(Value(1.0).is_integer());
  EXPECT_EQ(Value(1.5F).number(), 1.5);
  EXPECT_EQ(Value(0.1).number(), 0.1);
}

TEST(Value, An_integer_is_a_number_too) {
  EXPECT_TRUE(Value(3).is_number());
  EXPECT_EQ(Value(3).number(), 3.0);
}

TEST(Value, Holds_a_string_however_it_is_given) {
  EXPECT_EQ(Value("linear").string(), "linear");
  EXPECT_EQ(Value(std::string("linear")).string(), "linear");
  EXPECT_EQ(Value(std::string_view("linear")).string(), "linear");
  EXPECT_TRUE(Value("").is_string());
  EXPECT_FALSE(Value("1").is_number());
}

TEST(Value, Holds_a_list_of_anything) {
  const Value list(1, 2.5, "three", true, Value::list(4));
  ASSERT_TRUE(list.is_list());
  ASSERT_EQ(list.items().size(), 5U);
  EXPECT_EQ(list.items()[0].integer(), 1);
  EXPECT_EQ(list.items()[1].number(), 2.5);
  EXPECT_EQ(list.items()[2].string(), "three");
  EXPECT_TRUE(list.items()[3].boolean());
  EXPECT_EQ(list.items()[4].items().at(0).integer(), 4);
}

TEST(Value, A_list_may_have_one_item_or_none) {
  EXPECT_TRUE(Value(Value::List{}).items().empty());
  EXPECT_EQ(Value::list(7).items().size(), 1U);
  EXPECT_EQ(Value(std::vector<float>{}).items().size(), 0U);
}

// In a template, so that it can be tested without breaking the build.
template <class V>
constexpr bool has_list_of_none = requires { V::list(); };

TEST(Value, An_empty_list_can_be_created) { EXPECT_TRUE(has_list_of_none<Value>); }

TEST(Value, A_vector_of_numbers_is_a_list) {
  EXPECT_EQ(Value(std::vector<int>{224, 225}), Value(224, 225));
  EXPECT_EQ(Value(std::vector<double>{0.5}), Value::list(0.5));
}

TEST(Value, Values_are_equal_if_type_and_contents_are) {
  EXPECT_EQ(Value(3), Value(3));
  EXPECT_NE(Value(3), Value(4));
  EXPECT_NE(Value(3), Value(3.0));
  EXPECT_NE(Value(1), Value(true));
  EXPECT_EQ(Value(1, "a"), Value(1, "a"));
  EXPECT_NE(Value(1, "a"), Value(1, "b"));
}

TEST(Value, Prints_as_in_source_code) {
  EXPECT_EQ(to_string(Value(3)), "3");
  EXPECT_EQ(to_string(Value(least)), "-9223372036854775808");
  EXPECT_EQ(to_string(Value(1.5)), "1.5");
  EXPECT_EQ(to_string(Value(true)), "true");
  EXPECT_EQ(to_string(Value(false)), "false");
  EXPECT_EQ(to_string(Value("linear")), "\"linear\"");
  EXPECT_EQ(to_string(Value(224, 224)), "[224, 224]");
  EXPECT_EQ(to_string(Value(Value::List{})), "[]");
  EXPECT_EQ(to_string(Value::list(Value::list("a"), 0.5)), "[[\"a\"], 0.5]");
}

TEST(Value, Has_a_type_name) {
  EXPECT_EQ(type_name(Value(true)), "a bool");
  EXPECT_EQ(type_name(Value(3)), "an integer");
  EXPECT_EQ(type_name(Value(1.5)), "a number");
  EXPECT_EQ(type_name(Value("x")), "a string");
  EXPECT_EQ(type_name(Value::list(1)), "a list");
}

TEST(Value, Another_type_is_refused_with_both_types_named) {
  const auto refused = [](std::string_view words, auto&& read) { expect_error(Errc::invalid_parameter, words, read); };
  refused("expected a bool, got an integer, 1", [] { Value(1).boolean(); });
  refused("expected a bool, got a string, \"true\"", [] { Value("true").boolean(); });
  refused("expected an integer, got a number, 1.5", [] { Value(1.5).integer(); });
  refused("expected an integer, got a bool, true", [] { Value(true).integer(); });
  refused("expected a number, got a bool, false", [] { Value(false).number(); });
  refused("expected a number, got a list, [1, 2]", [] { Value(1, 2).number(); });
  refused("expected a string, got an integer, 3", [] { Value(3).string(); });
  refused("expected a list, got a string, \"ab\"", [] { Value("ab").items(); });
}

TEST(Params, Are_empty_by_default) {
  const Params none{};
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.find("radius"), nullptr);
  EXPECT_EQ(none, Params{});
}

// `const Params none;` in a template, so that it can be tested without breaking the build.
template <class P>
constexpr bool can_be_constant = requires { new const P; };

TEST(Params, May_be_a_constant_without_an_initialiser) { EXPECT_TRUE(can_be_constant<Params>); }

TEST(Params, One_to_eight_fit_in_braces) {
  const Params lists[] = {
      {{"a", 1}},
      {{"a", 1}, {"b", 2}},
      {{"a", 1}, {"b", 2}, {"c", 3}},
      {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}},
      {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}},
      {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}, {"f", 6}},
      {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}, {"f", 6}, {"g", 7}},
      {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}, {"f", 6}, {"g", 7}, {"h", 8}},
  };
  std::size_t size = 0;
  for (const Params& params : lists) {
    ASSERT_EQ(params.size(), ++size);
    std::int64_t number = 0;
    for (const Param& param : params) {
      EXPECT_EQ(param.name, std::string(1, static_cast<char>('a' + number)));
      EXPECT_EQ(param.value, Value(++number));
    }
  }
}

TEST(Params, Take_values_of_every_type_in_braces) {
  const Params params{{"on", true}, {"mode", "linear"}, {"size", {224, 225}}, {"sigma", 1.5}};
  EXPECT_TRUE(params.find("on")->boolean());
  EXPECT_EQ(params.find("mode")->string(), "linear");
  EXPECT_EQ(*params.find("size"), Value(224, 225));
  EXPECT_EQ(params.find("sigma")->number(), 1.5);
}

TEST(Params, A_name_given_twice_is_refused) {
  expect_error(Errc::invalid_parameter, "'radius' is given twice", [] { return Params{{"radius", 3}, {"radius", 3}}; });
  expect_error(Errc::invalid_parameter, "'a' is given twice",
               [] { return Params{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}, {"f", 6}, {"g", 7}, {"a", 8}}; });
}

TEST(Params, Set_adds_at_the_end_and_can_be_chained) {
  Params params{{"a", 1}};
  params.set("b", 2).set("c", "three");
  EXPECT_EQ(params, (Params{{"a", 1}, {"b", 2}, {"c", "three"}}));
}

TEST(Params, Set_replaces_a_value_in_place) {
  Params params{{"a", 1}, {"b", 2}};
  params.set("a", "one");
  EXPECT_EQ(params, (Params{{"a", "one"}, {"b", 2}}));
}

TEST(Params, More_than_eight_can_be_set) {
  Params params;
  for (int i = 0; i < 20; ++i) params.set(std::to_string(i), i);
  EXPECT_EQ(params.size(), 20U);
  EXPECT_EQ(params.find("19")->integer(), 19);
}

// Names too long to be stored in place, so that every copy owns something.
std::string long_name(std::size_t number) { return std::string(40, 'p').append(std::to_string(number)); }

Params params_of(std::size_t count) {
  Params params;
  for (std::size_t i = 0; i < count; ++i) params.set(long_name(i), Value(i, long_name(i)));
  return params;
}

TEST(Params, Copies_are_equal_and_independent) {
  for (std::size_t count = 0; count <= 20; ++count) {
    const Params original = params_of(count);
    Params copy = original;
    EXPECT_EQ(copy, original);
    copy.set("more", 1).set(long_name(0), "changed");
    EXPECT_EQ(original, params_of(count));
    copy = original;
    EXPECT_EQ(copy, original);
  }
}

TEST(Params, Moved_from_params_are_empty_and_usable) {
  for (std::size_t from = 0; from <= 9; ++from) {
    for (std::size_t to = 0; to <= 9; ++to) {
      Params source = params_of(from);
      Params target = params_of(to);
      target = std::move(source);
      EXPECT_EQ(target, params_of(from));
      const Params taken = std::move(target);
      EXPECT_EQ(taken, params_of(from));
      target.set("a", 1);  // NOLINT(bugprone-use-after-move): it is what is tested
      EXPECT_EQ(target.find("a")->integer(), 1);
    }
  }
}

TEST(Params, Can_be_assigned_to_themselves) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 9U}) {
    Params params = params_of(count);
    const Params& same = params;
    params = same;
    EXPECT_EQ(params, params_of(count));
  }
}

TEST(Params, Set_accepts_its_own_names_and_values) {
  Params params{{"a", long_name(1)}};
  for (std::size_t i = 0; i < 10; ++i)
    params.set(params.begin()->value.string() + std::to_string(i), *params.find("a"));
  for (const Param& param : params) EXPECT_EQ(param.value.string(), long_name(1));
  params.set(params.begin()->name, "b");
  EXPECT_EQ(params.find("a")->string(), "b");
}

TEST(Params, Find_matches_exact_names_only) {
  const Params params{{"radius", 3}};
  EXPECT_EQ(params.find("radius")->integer(), 3);
  EXPECT_EQ(params.find("Radius"), nullptr);
  EXPECT_EQ(params.find("radiu"), nullptr);
  EXPECT_EQ(params.find(""), nullptr);
}

TEST(Params, Are_equal_if_names_values_and_order_are_equal) {
  const Params params{{"a", 1}, {"b", 2}};
  EXPECT_EQ(params, (Params{{"a", 1}, {"b", 2}}));
  EXPECT_NE(params, (Params{{"b", 2}, {"a", 1}}));
  EXPECT_NE(params, (Params{{"a", 1}, {"b", 3}}));
  EXPECT_NE(params, (Params{{"a", 1}}));
}

}  // namespace
}  // namespace tessera
