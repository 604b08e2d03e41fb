// Launches that are cut into several dispatches and submissions.
#include "driver/gpu/long_launches.hpp"

#include <tessera/tessera.hpp>

#include "driver/gpu/forwarding_api.hpp"
#include "driver/gpu/on_device.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::driver::gpu {
namespace {

using namespace test;

// Counts submissions, and allows little work in each.
class ImpatientApi final : public ForwardingApi {
 public:
  ImpatientApi(std::unique_ptr<Api> below, std::int64_t most) : ForwardingApi(std::move(below)), most_(most) {}

  std::int64_t most_work() const override { return most_; }
  std::uint64_t submit(std::span<const Dispatch> calls) override {
    note(calls);
    return ForwardingApi::submit(calls);
  }
  std::unique_ptr<Recording> record(std::span<const Dispatch> calls) override {
    note(calls);
    return ForwardingApi::record(calls);
  }
  using ForwardingApi::submit;

  std::atomic<int> submissions{0};

 private:
  void note(std::span<const Dispatch> calls) {
    ++submissions;
    std::int64_t work = 0;
    for (const Dispatch& call : calls) work += call.work;
    EXPECT_TRUE(work <= most_ || calls.size() == 1) << work;
  }

  const std::int64_t most_;
};

class LongLaunches : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (backend() == "cpu") GTEST_SKIP() << "the processor cuts launches into pieces";
  }
};
INSTANTIATE_TEST_SUITE_P(Work, LongLaunches, testing::Values(1, 1000, 3000));

TEST_P(LongLaunches, Are_cut_into_submissions_with_the_same_result) {
  auto made = std::make_unique<ImpatientApi>(open_api(), GetParam());
  ImpatientApi& api = *made;
  const Device device = device_with(std::move(made));
  expect_computes(device);
  EXPECT_GT(api.submissions, 10);
}

TEST_P(LongLaunches, Usual_launches_are_one_submission) {
  auto made = std::make_unique<ImpatientApi>(open_api(), std::int64_t{1} << 28);
  ImpatientApi& api = *made;
  const Device device = device_with(std::move(made));
  const Buffer x = device.zeros({512, 512}), z = device.zeros({512, 512});
  api.submissions = 0;
  device.run("softmax", {x}, z);
  EXPECT_EQ(api.submissions, 1);
}

// ---- cutting

std::vector<Dispatch> cut(std::uint32_t groups, const compile::gpu::Kernel& kernel, const LaunchSize& size,
                          std::int64_t most_work) {
  Dispatch whole;
  whole.arguments = {1000, 0, 0};
  whole.groups = groups;
  std::vector<Dispatch> calls;
  add_cut(calls, whole, kernel, size, most_work);
  return calls;
}

TEST(CutLaunches, Tiles_are_shared_out) {
  compile::gpu::Kernel kernel;
  kernel.group = 10;
  const auto parts = cut(7, kernel, {25, 3, 1}, 300);
  ASSERT_EQ(parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[i].arguments[2], i * 10);
    EXPECT_EQ(parts[i].arguments[0], std::min<std::size_t>(25, (i + 1) * 10));
    EXPECT_EQ(parts[i].groups, i == 2 ? 5U : 7U);
    EXPECT_EQ(parts[i].work, i == 2 ? 150 : 300);
  }
}

TEST(CutLaunches, Points_are_shared_out) {
  compile::gpu::Kernel kernel;
  kernel.group = 10;
  kernel.points = 4;
  const auto parts = cut(25, kernel, {25, 1, 1}, 100);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].arguments[0], 400U);
  EXPECT_EQ(parts[1].arguments[0], 800U);
  EXPECT_EQ(parts[2].arguments[0], 1000U);
  EXPECT_EQ(parts[2].arguments[2], 20U);
  EXPECT_EQ(parts[2].groups, 5U);
}

TEST(CutLaunches, A_single_piece_is_not_cut) {
  compile::gpu::Kernel kernel;
  kernel.group = 128;
  EXPECT_EQ(cut(1, kernel, {1, compile::gpu::Kernel::uncounted, 1}, 1).size(), 1U);
  EXPECT_EQ(cut(1, kernel, {0, 1, 1}, 1).size(), 1U);
}

TEST(CutLaunches, Many_operations_count_as_many_steps) {
  compile::gpu::Kernel kernel;
  kernel.group = 10;
  EXPECT_EQ(cut(25, kernel, {25, 3, 32}, 300).size(), 3U);
  EXPECT_EQ(cut(25, kernel, {25, 3, 320}, 300).size(), 25U);
}

TEST(CutLaunches, Submissions_hold_what_fits_and_wait_for_each_other) {
  std::vector<Dispatch> calls(6);
  const std::int64_t works[] = {10, 10, 90, 200, 0, 5};
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].work = works[i];
  const auto submissions = split_into_submissions(calls, 100);
  ASSERT_EQ(submissions.size(), 4U);
  EXPECT_EQ(submissions[0].size(), 2U);
  EXPECT_EQ(submissions[1].size(), 1U);
  EXPECT_EQ(submissions[2].size(), 1U);
  EXPECT_EQ(submissions[3].size(), 2U);
  for (const auto& submission : submissions) {
    EXPECT_EQ(submission[0].waits_for_submissions, submission.data() != calls.data());
  }
  EXPECT_EQ(split_into_submissions({}, 100).size(), 1U);
}

}  // namespace
}  // namespace tessera::driver::gpu
