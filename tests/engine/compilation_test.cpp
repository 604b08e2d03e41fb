// What is known about compilations.
#include "engine/compilation.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tessera::detail::engine {
namespace {

using namespace std::chrono_literals;

TEST(Compilations, The_longest_one_is_to_blame_for_a_time_that_it_fills) {
  Compilations compilations;
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(compilations.during(begin - 1s, begin), "");
  compilations.end(compilations.begin("quick"));
  const std::uint64_t slow = compilations.begin("slow");
  EXPECT_EQ(compilations.during(begin, begin + 1h), "slow");  // still running
  std::this_thread::sleep_for(2ms);
  compilations.end(slow);
  const Clock::time_point end = Clock::now();
  EXPECT_EQ(compilations.during(begin, end), "slow");
  EXPECT_EQ(compilations.during(begin, end + 1h), "");  // hardly
  EXPECT_EQ(compilations.during(end + 1s, end + 2s), "");
}

TEST(Compilations, Old_ones_are_forgotten) {
  Compilations compilations;
  const Clock::time_point begin = Clock::now();
  compilations.begin("forgotten");
  for (int i = 0; i < 1000; ++i) compilations.end(compilations.begin("quick"));
  EXPECT_EQ(compilations.during(begin, Clock::now() + 1h), "");
}

}  // namespace
}  // namespace tessera::detail::engine
