#include "core/platform.hpp"

#include "core/cgroups.hpp"
#include "support/folder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace tessera::core {
namespace {

// A folder with the files in which Linux describes control groups.
class Groups : public test::InFolder {
 protected:
  void file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name)) << text << '\n';
  }
  GroupLimits limits() const { return read_group_limits(path("")); }

  void version_2(const std::string& group) const {
    file("proc/self/cgroup", "0::" + group);
    file("proc/self/mountinfo",
         "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
         "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate");
  }
  // Of a container without a namespace for control groups: its own group is what is mounted.
  void version_1(const std::string& group, const std::string& mounted) const {
    file("proc/self/cgroup", "9:name=systemd:/x\n4:memory:" + group + "\n3:cpu,cpuacct:" + group);
    file("proc/self/mountinfo", "40 31 0:33 " + mounted +
                                    " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:34 " + mounted +
                                    " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  }
};

TEST_F(Groups, Version_2_limits_memory_and_cores) {
  version_2("/app.slice/job");
  file("sys/fs/cgroup/app.slice/job/memory.max", "268435456");
  file("sys/fs/cgroup/app.slice/job/memory.high", "max");
  file("sys/fs/cgroup/app.slice/job/cpu.max", "150000 100000");
  EXPECT_EQ(limits().memory, 268435456U);
  EXPECT_EQ(limits().cores, 1.5);
}

TEST_F(Groups, The_tightest_of_all_groups_around_counts) {
  version_2("/a/b/c");
  file("sys/fs/cgroup/a/b/c/memory.max", "max");
  file("sys/fs/cgroup/a/b/memory.max", "5000");
  file("sys/fs/cgroup/a/b/memory.high", "4000");
  file("sys/fs/cgroup/a/memory.max", "9000");
  file("sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  file("sys/fs/cgroup/a/cpu.max", "400000 100000");
  EXPECT_EQ(limits().memory, 4000U);
  EXPECT_EQ(limits().cores, 4.0);
}

TEST_F(Groups, In_a_container_the_mounted_folder_is_the_group) {
  version_2("/");
  file("sys/fs/cgroup/memory.max", "1000000");
  file("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(limits().memory, 1000000U);
  EXPECT_EQ(limits().cores, 0.5);
}

TEST_F(Groups, Version_1_limits_memory_and_cores) {
  version_1("/docker/1234", "/docker/1234");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000");
  file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limits().memory, 536870912U);
  EXPECT_EQ(limits().cores, 3.0);
}

TEST_F(Groups, Version_1_without_a_container) {
  version_1("/user/job", "/");
  file("sys/fs/cgroup/memory/user/job/memory.limit_in_bytes", "9223372036854771712");
  file("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "700000");
  file("sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us", "-1");
  file("sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limits().memory, 700000U);
  EXPECT_EQ(limits().cores, std::nullopt);
}

TEST_F(Groups, A_group_outside_of_the_mounted_one_is_that_of_the_container) {
  version_1("/elsewhere", "/docker/1234");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096");
  EXPECT_EQ(limits().memory, 4096U);
}

TEST_F(Groups, Both_versions_together) {
  version_1("/", "/");
  file("proc/self/cgroup", "4:memory:/\n0::/system");
  file("proc/self/mountinfo",
       "40 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
       "42 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192");
  file("sys/fs/cgroup/unified/system/cpu.max", "200000 100000");
  EXPECT_EQ(limits().memory, 8192U);
  EXPECT_EQ(limits().cores, 2.0);
}

TEST_F(Groups, What_cannot_be_read_is_no_limit) {
  EXPECT_EQ(limits().memory, std::nullopt);
  version_2("/a");
  EXPECT_EQ(limits().cores, std::nullopt);
  file("sys/fs/cgroup/a/memory.max", "not a number");
  file("sys/fs/cgroup/a/cpu.max", "100000");
  file("proc/self/mountinfo", "a line\n - cgroup2\n31 23 0:26 / /sys/fs/cgroup rw - cgroup2 c rw");
  EXPECT_EQ(limits().memory, std::nullopt);
  EXPECT_EQ(limits().cores, std::nullopt);
}

TEST_F(Groups, The_process_may_use_what_its_group_allows) {
  version_2("/job");
  const std::size_t machine = usable_memory(path(""));
  EXPECT_GT(machine, std::size_t{64} << 20);
  file("sys/fs/cgroup/job/memory.max", "67108864");
  file("sys/fs/cgroup/job/cpu.max", "10000 100000");
  EXPECT_EQ(usable_memory(path("")), std::size_t{64} << 20);
  EXPECT_EQ(usable_cores(path("")), 1U);
  file("sys/fs/cgroup/job/memory.max", std::to_string(2 * machine));
  file("sys/fs/cgroup/job/cpu.max", "100000000 100000");
  EXPECT_EQ(usable_memory(path("")), machine);
  EXPECT_LE(usable_cores(path("")), static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)));
}

TEST(Platform, Cores_follow_the_affinity_mask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    CPU_SET(core, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores("/nowhere"), 1U);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores("/nowhere"), static_cast<unsigned>(CPU_COUNT(&before)));
}

TEST(Platform, Only_the_first_thread_is_the_main_thread) {
  EXPECT_TRUE(is_main_thread());
  std::thread([] { EXPECT_FALSE(is_main_thread()); }).join();
}

TEST(Platform, Discarded_pages_are_zeros) {
  const std::size_t bytes = 2 * page_size();
  std::byte* const pages = map_pages(bytes, PageAccess::read_write);
  ASSERT_NE(pages, nullptr);
  pages[0] = pages[bytes - 1] = std::byte{1};
  ASSERT_TRUE(set_page_access(pages, bytes, PageAccess::read));
  discard_pages(pages, bytes);
  EXPECT_EQ(pages[0], std::byte{0});
  EXPECT_EQ(pages[bytes - 1], std::byte{0});
  unmap_pages(pages, bytes);
}

TEST(Platform, A_library_that_is_not_there_may_be_there_later) {
  const OpenedLibrary missing = open_library("libtessera_nowhere.so");
  EXPECT_EQ(missing.handle, nullptr);
  EXPECT_TRUE(missing.may_open_later);
  EXPECT_NE(missing.why_not.find("libtessera_nowhere.so"), std::string::npos) << missing.why_not;
}

TEST_F(Groups, A_library_that_is_none_will_not_be_one_later) {
  file("libnone.so", "not a library");
  const OpenedLibrary none = open_library(path("libnone.so").string());
  EXPECT_EQ(none.handle, nullptr);
  EXPECT_FALSE(none.may_open_later) << none.why_not;
}

TEST(Platform, A_library_can_be_opened_once_there_are_descriptors_again) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const OpenedLibrary refused = open_library("libutil.so.1");  // small, and not loaded yet
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(refused.handle, nullptr);
  EXPECT_TRUE(refused.may_open_later) << refused.why_not;
  EXPECT_NE(open_library("libutil.so.1").handle, nullptr);
}

}  // namespace
}  // namespace tessera::core
