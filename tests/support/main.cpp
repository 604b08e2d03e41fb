// The main function of all test programs: as GoogleTest's own, and it says how to repeat a failure.
#include "support/depth.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string names_of_failed_tests() {
  std::string names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const testing::TestInfo& test = *suite.GetTestInfo(k);
      if (!test.result()->Failed()) continue;
      names += (names.empty() ? "" : ":") + std::string(test.test_suite_name()) + '.' + test.name();
    }
  }
  return names;
}

// Runs one of TESSERA_TEST_SHARDS parts of the cases, chosen by the seed; all at full depth. For devices whose compiler
// takes a second for each kernel.
void choose_shard() {
  const std::uint64_t shards = tessera::test::number_in_environment("TESSERA_TEST_SHARDS", 1);
  if (shards <= 1 || tessera::test::depth() == 100) return;
  setenv("GTEST_TOTAL_SHARDS", std::to_string(shards).c_str(), 0);
  setenv("GTEST_SHARD_INDEX", std::to_string(tessera::test::seed() % shards).c_str(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  choose_shard();
  testing::InitGoogleTest(&argc, argv);
  const auto seed = static_cast<unsigned long long>(tessera::test::seed());
  const int depth = tessera::test::depth();
  std::printf("seed %llu, depth %d %%\n", seed, depth);
  const int result = RUN_ALL_TESTS();
  if (result != 0) {
    const char* device = std::getenv("TESSERA_DEVICE");
    std::printf("again: TESSERA_TEST_SEED=%llu TESSERA_TEST_DEPTH=%d %s%s%s%s '--gtest_filter=%s'\n", seed, depth,
                device ? "TESSERA_DEVICE=" : "", device ? device : "", device ? " " : "", argv[0],
                names_of_failed_tests().c_str());
  }
  return result;
}
