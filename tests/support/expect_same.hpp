#pragma once

#include <tessera/device.hpp>

#include <gtest/gtest.h>

namespace tessera::test {

inline void expect_same(const MemoryInfo& a, const MemoryInfo& b) {
  EXPECT_EQ(a.in_use, b.in_use);
  EXPECT_EQ(a.reserved, b.reserved);
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.buffers, b.buffers);
  EXPECT_EQ(a.allocations, b.allocations);
}

}  // namespace tessera::test
