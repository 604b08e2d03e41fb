#include "core/environment.hpp"

#include "support/again.hpp"
#include "support/depth.hpp"
#include "support/folder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
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

TEST(Environment, Variables_are_read) {
  setenv("TESSERA_TEST_VALUE", "value", 1);
  EXPECT_STREQ(environment_variable("TESSERA_TEST_VALUE"), "value");
  EXPECT_EQ(environment_variable("TESSERA_TEST_NOT_THERE"), nullptr);
  EXPECT_FALSE(is_switched_on("TESSERA_TEST_VALUE"));
  setenv("TESSERA_TEST_VALUE", "1", 1);
  EXPECT_TRUE(is_switched_on("TESSERA_TEST_VALUE"));
  EXPECT_FALSE(is_switched_on("TESSERA_TEST_NOT_THERE"));
}

// Run by the test below, with the privileges of another user.
TEST(Environment, DISABLED_As_another_user) {
  ASSERT_NE(getauxval(AT_SECURE), 0U) << "the file system may ignore set-user-id";
  EXPECT_STREQ(std::getenv("TESSERA_TEST_GIVEN"), "value");
  EXPECT_EQ(environment_variable("TESSERA_TEST_GIVEN"), nullptr);
  EXPECT_FALSE(is_switched_on("TESSERA_TEST_GIVEN"));
}

using Privileges = test::InFolder;
TEST_F(Privileges, A_program_with_other_privileges_than_its_caller_reads_no_variables) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  if (test::is_sanitized) GTEST_SKIP() << "sanitizers need the privileges of the caller";
  if (test::is_emulated) GTEST_SKIP() << "the emulator has the privileges of the caller";
  constexpr uid_t nobody = 65534;
  const std::string copy = path("program").string();
  std::filesystem::copy_file("/proc/self/exe", copy);
  std::filesystem::permissions(path(""), std::filesystem::perms::all);
  ASSERT_EQ(chown(copy.c_str(), nobody, nobody), 0);
  ASSERT_EQ(chmod(copy.c_str(), S_ISUID | S_IRWXU | S_IRWXG | S_IRWXO), 0);
  const std::string command =
      "TESSERA_TEST_GIVEN=value '" + copy + "' --gtest_also_run_disabled_tests --gtest_filter=*As_another_user 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace tessera::core
