#include <tessera/error.hpp>

#include "core/failure.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {
namespace {

using core::FailurePtr;
using core::make_failure;

const std::map<Errc, std::pair<std::string_view, Fault>> codes = {
    {Errc::invalid_argument, {"invalid_argument", Fault::caller}},
    {Errc::overflow, {"overflow", Fault::caller}},
    {Errc::unknown_device, {"unknown_device", Fault::caller}},
    {Errc::unknown_kernel, {"unknown_kernel", Fault::caller}},
    {Errc::unknown_parameter, {"unknown_parameter", Fault::caller}},
    {Errc::invalid_parameter, {"invalid_parameter", Fault::caller}},
    {Errc::invalid_kernel, {"invalid_kernel", Fault::caller}},
    {Errc::count_mismatch, {"count_mismatch", Fault::caller}},
    {Errc::shape_mismatch, {"shape_mismatch", Fault::caller}},
    {Errc::dtype_mismatch, {"dtype_mismatch", Fault::caller}},
    {Errc::wrong_device, {"wrong_device", Fault::caller}},
    {Errc::buffer_freed, {"buffer_freed", Fault::caller}},
    {Errc::unknown_command, {"unknown_command", Fault::caller}},
    {Errc::call_failed, {"call_failed", Fault::caller}},
    {Errc::unsupported, {"unsupported", Fault::caller}},
    {Errc::cancelled, {"cancelled", Fault::outcome}},
    {Errc::deadline_exceeded, {"deadline_exceeded", Fault::outcome}},
    {Errc::stream_full, {"stream_full", Fault::outcome}},
    {Errc::out_of_memory, {"out_of_memory", Fault::device}},
    {Errc::device_failure, {"device_failure", Fault::device}},
    {Errc::io_error, {"io_error", Fault::environment}},
    {Errc::internal, {"internal", Fault::library}},
};

TEST(Errc, Every_code_has_a_name_and_a_fault) {
  EXPECT_EQ(codes.size(), static_cast<std::size_t>(Errc::internal) + 1);
  for (const auto& [code, expected] : codes) {
    EXPECT_EQ(to_string(code), expected.first);
    EXPECT_EQ(fault(code), expected.second) << expected.first;
  }
}

TEST(Fault, Every_fault_has_a_name) {
  EXPECT_EQ(to_string(Fault::caller), "caller");
  EXPECT_EQ(to_string(Fault::outcome), "outcome");
  EXPECT_EQ(to_string(Fault::device), "device");
  EXPECT_EQ(to_string(Fault::environment), "environment");
  EXPECT_EQ(to_string(Fault::library), "library");
}

TEST(Error, Without_a_cause_is_its_own_root) {
  const Error error(Errc::overflow, "too much");
  EXPECT_EQ(error.code(), Errc::overflow);
  EXPECT_STREQ(error.what(), "too much");
  EXPECT_EQ(error.message(), "too much");
  EXPECT_FALSE(error.cause());
  EXPECT_EQ(error.root().message(), "too much");
}

TEST(Error, Describes_the_whole_chain_and_each_link) {
  const FailurePtr root = make_failure(Errc::device_failure, "the device broke");
  const Error error(make_failure("[relu] failed", make_failure("[scale] failed", root)));
  EXPECT_STREQ(error.what(), "[relu] failed; caused by: [scale] failed; caused by: the device broke");
  EXPECT_EQ(error.message(), "[relu] failed");
  ASSERT_TRUE(error.cause());
  EXPECT_STREQ(error.cause()->what(), "[scale] failed; caused by: the device broke");
  ASSERT_TRUE(error.cause()->cause());
  EXPECT_STREQ(error.cause()->cause()->what(), "the device broke");
  EXPECT_FALSE(error.cause()->cause()->cause());
  EXPECT_STREQ(error.root().what(), "the device broke");
}

TEST(Error, Has_the_code_of_its_root_along_the_whole_chain) {
  const Error error(make_failure("b", make_failure("a", make_failure(Errc::out_of_memory, "root"))));
  EXPECT_EQ(error.code(), Errc::out_of_memory);
  EXPECT_EQ(error.cause()->code(), Errc::out_of_memory);
  EXPECT_EQ(error.root().code(), Errc::out_of_memory);
}

TEST(Error, Copies_share_the_failure_and_cannot_throw) {
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
  static_assert(std::is_base_of_v<std::exception, Error>);
  const Error error(Errc::io_error, "no such file");
  const Error copy = error;  // NOLINT(performance-unnecessary-copy-initialization): it is what is tested
  EXPECT_EQ(copy.failure(), error.failure());
  EXPECT_STREQ(copy.what(), error.what());
}

TEST(Error, Outlives_the_one_it_came_from) {
  const Error cause = [] { return *Error(make_failure("b", make_failure(Errc::internal, "a"))).cause(); }();
  EXPECT_STREQ(cause.what(), "a");
}

FailurePtr chain_of(std::size_t links) {
  FailurePtr newest = make_failure(Errc::device_failure, "root");
  for (std::size_t i = 1; i <= links; ++i) newest = make_failure("link " + std::to_string(i), newest);
  return newest;
}

std::size_t causes_behind(const FailurePtr& failure) {
  std::size_t count = 0;
  for (const detail::Failure* cause = failure->cause.get(); cause; cause = cause->cause.get()) ++count;
  return count;
}

TEST(Failure, A_chain_of_up_to_64_causes_is_kept_whole) {
  for (const std::size_t links : {0U, 1U, 63U, 64U}) {
    const FailurePtr newest = chain_of(links);
    EXPECT_EQ(causes_behind(newest), links);
    EXPECT_EQ(newest->depth, links);
  }
  EXPECT_EQ(std::string(Error(chain_of(64)).what()).find("omitted"), std::string::npos);
}

TEST(Failure, A_longer_chain_keeps_its_newest_link_and_its_root_and_counts_the_omitted_ones) {
  const Error error(chain_of(66));
  EXPECT_TRUE(error.message().starts_with("link 66"));
  EXPECT_NE(std::string(error.what()).find("omitted"), std::string::npos);
  EXPECT_EQ(error.root().message(), "root");
  EXPECT_EQ(error.code(), Errc::device_failure);
}

TEST(Failure, A_longer_chain_keeps_its_newest_links) {
  const std::string story = Error(chain_of(1000)).what();
  for (int link = 1000; link > 1000 - 32; --link) {
    EXPECT_NE(story.find("link " + std::to_string(link) + ";"), std::string::npos) << link;
  }
}

TEST(Failure, The_number_of_omitted_causes_is_right) {
  for (const std::size_t links : {66U, 67U, 98U, 99U, 1000U}) {
    const FailurePtr newest = chain_of(links);
    const std::string story = Error(newest).what();
    const auto words = story.find(" causes omitted");
    ASSERT_NE(words, std::string::npos) << story;
    const auto number = story.rfind('(', words) + 1;
    EXPECT_EQ(std::stoul(story.substr(number, words - number)), links - causes_behind(newest)) << links;
  }
}

TEST(Failure, A_million_links_stay_bounded) {
  FailurePtr newest = make_failure(Errc::cancelled, "root");
  for (int i = 0; i < 1'000'000; ++i) {
    newest = make_failure("link", std::move(newest));
    ASSERT_LE(newest->depth, 65U);
  }
  EXPECT_LE(causes_behind(newest), 65U);
  EXPECT_EQ(causes_behind(newest), newest->depth);
  const Error error(newest);
  EXPECT_LT(std::string_view(error.what()).size(), 10'000U);
  EXPECT_EQ(error.code(), Errc::cancelled);
  EXPECT_EQ(error.root().message(), "root");
}

}  // namespace
}  // namespace tessera
