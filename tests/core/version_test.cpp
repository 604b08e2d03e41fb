#include <tessera/version.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace {

TEST(Version, HasThreeParts) {
  const auto version = tessera::version();
  EXPECT_EQ(std::count(version.begin(), version.end(), '.'), 2);
}

}  // namespace
