#include "compile/disk_cache.hpp"

#include "core/hash.hpp"
#include "core/sha256.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera::compile {
namespace {

namespace fs = std::filesystem;
using core::Hash128;
using core::hash128;
using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST(Hash128, Is_MurmurHash3) {
  EXPECT_EQ(hash128({}), (Hash128{0, 0}));
  EXPECT_EQ(hash128(bytes("hello")), (Hash128{0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19}));
  EXPECT_EQ(hash128(bytes("The quick brown fox jumps over the lazy dog")),
            (Hash128{0xe34bbc7bbc071b6c, 0x7a433ca9c49a9347}));
}

TEST(Hash128, Tells_lengths_bits_and_seeds_apart) {
  std::set<Hash128> seen;
  Bytes zeros(40);
  for (std::size_t size = 1; size <= zeros.size(); ++size) seen.insert(hash128({zeros.data(), size}));
  for (std::uint64_t seed = 1; seed <= 10; ++seed) seen.insert(hash128(zeros, seed));
  for (std::size_t bit = 0; bit < zeros.size() * 8; ++bit) {
    zeros[bit / 8] = std::byte{static_cast<unsigned char>(1U << bit % 8)};
    seen.insert(hash128(zeros));
    zeros[bit / 8] = std::byte{0};
  }
  EXPECT_EQ(seen.size(), 40 + 10 + 320U);
}

// A folder of its own for every test.
class Disk_cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    parent_ = name;
    folder_ = parent_ / "cache";
  }
  void TearDown() override { fs::remove_all(parent_); }

  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // Whether storing this key also removes old files, as one store in 64 does.
  static bool trims(const std::string& key) { return core::sha256(std::as_bytes(std::span(key)))[0] % 64 == 0; }

  fs::path parent_;
  fs::path folder_;
  const std::string key_ = "everything that the code depends on";
  const Bytes content_ = bytes("some machine code");
};

TEST_F(Disk_cache, Finds_content_also_if_another_process_stored_it) {
  DiskCache cache(folder_);
  EXPECT_FALSE(cache.find(key_));
  cache.store(key_, content_);
  EXPECT_EQ(cache.find(key_), content_);
  EXPECT_EQ(DiskCache(folder_).find(key_), content_);
  EXPECT_FALSE(cache.find("everything else"));
  EXPECT_FALSE(cache.find(key_ + " "));
  EXPECT_FALSE(cache.find(""));
  EXPECT_EQ(files(), 1U);
}

TEST_F(Disk_cache, Stores_twice_and_stores_empty_content) {
  DiskCache cache(folder_);
  cache.store(key_, content_);
  cache.store(key_, {});
  EXPECT_EQ(cache.find(key_), Bytes());
}

TEST_F(Disk_cache, Is_for_this_user_alone) {
  DiskCache(folder_).store(key_, content_);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(only_file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Disk_cache, A_damaged_file_is_absent_and_replaced) {
  DiskCache cache(folder_);
  cache.store(key_, content_);
  const fs::path file = only_file();
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  for (std::streamoff at = 0; at < size; ++at) {
    {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(at);
      const int old = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(old ^ 16));
    }
    EXPECT_FALSE(cache.find(key_)) << "byte " << at;
    cache.store(key_, content_);
    ASSERT_EQ(cache.find(key_), content_);
  }
}

TEST_F(Disk_cache, A_truncated_or_extended_file_is_absent) {
  DiskCache cache(folder_);
  cache.store(key_, content_);
  const fs::path file = only_file();
  const std::uintmax_t size = fs::file_size(file);
  for (std::uintmax_t length = 0; length < size; ++length) {
    fs::resize_file(file, length);
    EXPECT_FALSE(cache.find(key_));
    cache.store(key_, content_);
  }
  fs::resize_file(file, size + 1);
  EXPECT_FALSE(cache.find(key_));
}

// As if both keys had the same hash.
TEST_F(Disk_cache, A_file_of_another_key_is_absent) {
  DiskCache cache(folder_);
  std::string other = key_;
  other.back() = 'S';
  cache.store(key_, content_);
  const fs::path one = only_file();
  cache.store(other, content_);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (entry.path() != one) fs::copy_file(one, entry.path(), fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.find(key_), content_);
  EXPECT_FALSE(cache.find(other));
}

TEST_F(Disk_cache, A_file_that_others_could_have_written_is_absent) {
  DiskCache cache(folder_);
  cache.store(key_, content_);
  const fs::path file = only_file();
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find(key_));
  cache.store(key_, content_);
  EXPECT_EQ(cache.find(key_), content_);
  fs::rename(file, parent_ / "elsewhere");
  fs::create_symlink(parent_ / "elsewhere", file);
  EXPECT_FALSE(cache.find(key_));
}

TEST_F(Disk_cache, Without_a_usable_folder_nothing_is_stored_and_nothing_fails) {
  for (const fs::path& place : {fs::path(), fs::path("/proc/nowhere/cache"), parent_ / "file" / "cache"}) {
    std::ofstream(parent_ / "file") << "in the way";
    DiskCache cache(place);
    cache.store(key_, content_);
    EXPECT_FALSE(cache.find(key_));
    cache.trim();
  }
}

TEST_F(Disk_cache, The_least_recently_used_files_are_removed_first) {
  constexpr std::uint64_t limit = 100'000;
  DiskCache cache(folder_, limit);
  const Bytes large(10'000);
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 12; ++i) {
    if (!trims(std::to_string(i))) keys.push_back(std::to_string(i));
  }
  for (const std::string& key : keys) {
    cache.store(key, large);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // file systems count time in steps
  }
  std::ofstream(folder_ / "a letter") << "not ours";
  EXPECT_EQ(files(), 13U);
  int last = 0;
  while (!trims(std::to_string(last))) ++last;
  cache.store(std::to_string(last), large);
  EXPECT_EQ(files(), 8U);
  EXPECT_FALSE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[5]));
  EXPECT_TRUE(cache.find(keys[6]));
  EXPECT_TRUE(cache.find(std::to_string(last)));
  EXPECT_TRUE(fs::exists(folder_ / "a letter"));
}

TEST_F(Disk_cache, Files_of_the_format_before_are_removed_with_the_others) {
  DiskCache(folder_).store(key_, content_);
  std::ofstream(folder_ / "00112233445566778899aabbccddeeff.tessera") << std::string(1000, 'x');
  DiskCache(folder_, 100).trim();
  EXPECT_EQ(files(), 0U);
}

TEST_F(Disk_cache, Using_a_file_makes_it_recent) {
  DiskCache cache(folder_);
  cache.store(key_, content_);
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  fs::last_write_time(only_file(), yesterday);
  EXPECT_TRUE(cache.find(key_));
  EXPECT_GT(fs::last_write_time(only_file()), yesterday + std::chrono::hours(23));
}

TEST_F(Disk_cache, Threads_may_store_and_find_the_same_at_once) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      DiskCache cache(folder_);
      for (int repeat = 0; repeat < 100; ++repeat) {
        cache.store(key_, content_);
        EXPECT_EQ(cache.find(key_), content_);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files(), 1U);
}

// Sets or removes (null) a variable during a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    had_ = old != nullptr;
    if (old) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Disk_cache_folder, Follows_the_environment) {
  const Variable home("HOME", "/home/somebody");
  const Variable xdg("XDG_CACHE_HOME", nullptr);
  const Variable own("TESSERA_CACHE_DIR", nullptr);
  EXPECT_EQ(DiskCache::default_folder(), "/home/somebody/.cache/tessera");
  const Variable set_xdg("XDG_CACHE_HOME", "/var/cache/somebody");
  EXPECT_EQ(DiskCache::default_folder(), "/var/cache/somebody/tessera");
  const Variable set_own("TESSERA_CACHE_DIR", "/somewhere");
  EXPECT_EQ(DiskCache::default_folder(), "/somewhere");
  const Variable relative("TESSERA_CACHE_DIR", "here");
  EXPECT_EQ(DiskCache::default_folder(), fs::current_path() / "here");
  const Variable off("TESSERA_CACHE_DIR", "off");
  EXPECT_EQ(DiskCache::default_folder(), "");
  const Variable empty("TESSERA_CACHE_DIR", "");
  EXPECT_EQ(DiskCache::default_folder(), "");
}

TEST(Disk_cache_folder, Is_empty_without_a_home) {
  const Variable home("HOME", nullptr);
  const Variable xdg("XDG_CACHE_HOME", "");
  const Variable own("TESSERA_CACHE_DIR", nullptr);
  EXPECT_EQ(DiskCache::default_folder(), "");
}

}  // namespace
}  // namespace tessera::compile
