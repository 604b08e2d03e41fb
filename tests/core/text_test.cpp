#include "core/text.hpp"

#include <tessera/params.hpp>

#include <gtest/gtest.h>

#include <array>
#include <locale>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::core {
namespace {

constexpr std::array<std::string_view, 5> kernels = {"copy", "elementwise_add", "elementwise_mul", "relu", "scale"};

TEST(Text, Joins_anything_printable) {
  EXPECT_EQ(text("a", 1, ' ', 2.5, std::string("b"), std::string_view("c")), "a1 2.5bc");
}

// Grouped digits and a decimal comma, as in many countries.
class Punctuation final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class Abroad : public testing::Test {
 protected:
  void SetUp() override { home_ = std::locale::global(std::locale(std::locale::classic(), new Punctuation)); }
  void TearDown() override { std::locale::global(home_); }

 private:
  std::locale home_;
};

TEST_F(Abroad, Numbers_in_texts_do_not_depend_on_the_global_locale) {
  EXPECT_EQ(text(65536, " ", 1.5), "65536 1.5");
  EXPECT_EQ(to_string(Value(1.5)), "1.5");
  EXPECT_EQ(to_string(Value(1234567)), "1234567");
}

TEST(Nearest, An_exact_name_is_its_own_nearest) {
  for (std::string_view name : kernels) EXPECT_EQ(nearest(name, kernels), name);
}

TEST(Nearest, Finds_names_with_one_letter_wrong_missing_or_too_many) {
  EXPECT_EQ(nearest("rela", kernels), "relu");
  EXPECT_EQ(nearest("elu", kernels), "relu");
  EXPECT_EQ(nearest("reluu", kernels), "relu");
  EXPECT_EQ(nearest("elementwise_ad", kernels), "elementwise_add");
  EXPECT_EQ(nearest("elementwise-mul", kernels), "elementwise_mul");
}

TEST(Nearest, Finds_a_name_from_a_part_of_it) {
  EXPECT_EQ(nearest("add", kernels), "elementwise_add");
  EXPECT_EQ(nearest("mul", kernels), "elementwise_mul");
}

TEST(Nearest, Prefers_a_name_that_contains_the_words) {
  constexpr std::array<std::string_view, 7> names = {"avg_pool2d",     "max",     "max_pool2d", "reduce_sum", "sub",
                                                     "sum_of_squares", "subtract"};
  EXPECT_EQ(nearest("sum", names), "reduce_sum");
  EXPECT_EQ(nearest("max_pool", names), "max_pool2d");
  EXPECT_EQ(nearest("max", names), "max");
  EXPECT_EQ(nearest("suv", names), "sub");  // in none of them
  EXPECT_EQ(nearest("pool", names), "avg_pool2d");
}

TEST(Nearest, Finds_a_name_with_a_suffix) {
  EXPECT_EQ(nearest("scale_factor", kernels), "scale");
  EXPECT_EQ(nearest("copying", std::array<std::string_view, 1>{"co"}), "");
}

TEST(Nearest, Longer_names_may_have_more_wrong_letters) {
  EXPECT_EQ(nearest("elemntwiseadd", kernels), "elementwise_add");
  EXPECT_EQ(nearest("element_wise_mull", kernels), "elementwise_mul");
}

TEST(Nearest, The_first_of_equally_near_names_wins) {
  constexpr std::array<std::string_view, 2> both = {"abcd", "abce"};
  EXPECT_EQ(nearest("abcx", both), "abcd");
}

TEST(Nearest, Dissimilar_names_have_no_nearest) {
  EXPECT_EQ(nearest("convolution", kernels), "");
  EXPECT_EQ(nearest("", kernels), "");
  EXPECT_EQ(nearest("relu", {}), "");
}

TEST(Nearest, A_very_long_name_is_not_compared) {
  const std::string name(1'000'000, 'x');
  const std::vector<std::string_view> candidates = {name};
  EXPECT_EQ(nearest(name, candidates), "");
}

TEST(Suggestion, Is_the_end_of_a_sentence_or_nothing) {
  EXPECT_EQ(suggestion("relo", kernels), ", did you mean 'relu'?");
  EXPECT_EQ(suggestion("convolution", kernels), "");
}

TEST(Quoted, Input_is_shortened_between_characters) {
  const std::string x80(80, 'x'), x79(79, 'x');
  EXPECT_EQ(core::in_quotes("relu"), "'relu'");
  EXPECT_EQ(shortened("relu"), "relu");
  EXPECT_EQ(shortened(x80), x80);
  EXPECT_EQ(shortened(std::string(81, 'x')), text(x80, "… (81 bytes)"));
  EXPECT_EQ(core::in_quotes(std::string(1'000'000, 'x')), text("'", x80, "…' (1000000 bytes)"));
  EXPECT_EQ(shortened(text(x79, "ππ")), text(x79, "… (83 bytes)"));
  EXPECT_EQ(shortened(std::string(200, '\x80')), "… (200 bytes)");  // no UTF-8
  EXPECT_EQ(shortened("abcdef", 3), "abc… (6 bytes)");
}

}  // namespace
}  // namespace tessera::core
