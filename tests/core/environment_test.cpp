#include "core/environment.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace tessera::core {
namespace {

TEST(Environment, Sets_a_variable) {
  set_default_environment("TESSERA_TEST_NEW", "first");
  EXPECT_STREQ(std::getenv("TESSERA_TEST_NEW"), "first");
}

TEST(Environment, Leaves_a_variable_that_is_set_alone) {
  setenv("TESSERA_TEST_SET", "by the user", 1);
  set_default_environment("TESSERA_TEST_SET", "by the library");
  EXPECT_STREQ(std::getenv("TESSERA_TEST_SET"), "by the user");
}

TEST(Environment, Libc_can_change_it_afterwards) {
  set_default_environment("TESSERA_TEST_CHANGED", "before");
  setenv("TESSERA_TEST_CHANGED", "after", 1);
  setenv("TESSERA_TEST_ADDED", "later", 1);
  EXPECT_STREQ(std::getenv("TESSERA_TEST_CHANGED"), "after");
  EXPECT_STREQ(std::getenv("TESSERA_TEST_ADDED"), "later");
  unsetenv("TESSERA_TEST_CHANGED");
  EXPECT_EQ(std::getenv("TESSERA_TEST_CHANGED"), nullptr);
}

// With setenv() instead, readers crash now and then: it reallocates the array that they search.
TEST(Environment, Other_threads_can_read_it_at_the_same_time) {
  setenv("TESSERA_TEST_READ", "constant", 1);
  std::atomic<bool> is_done = false;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!is_done) {
        const char* value = std::getenv("TESSERA_TEST_READ");
        if (!value || std::string(value) != "constant") ++wrong;
        std::getenv("TESSERA_TEST_NOT_THERE");  // reads the whole array
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    set_default_environment(("TESSERA_TEST_" + std::to_string(i)).c_str(), std::to_string(i).c_str());
  }
  is_done = true;
  readers.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_STREQ(std::getenv("TESSERA_TEST_499"), "499");
}

}  // namespace
}  // namespace tessera::core
