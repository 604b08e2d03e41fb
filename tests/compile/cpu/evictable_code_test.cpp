#include "compile/cpu/evictable_code.hpp"

#include "support/depth.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <latch>
#include <span>
#include <thread>
#include <vector>

namespace tessera::compile::cpu {
namespace {

// A function of object_code_sample.cpp in the place of a kernel.
LoadedCode sample() {
  std::ifstream file(TESSERA_SAMPLE_OBJECT, std::ios::binary);
  const std::vector<char> read{std::istreambuf_iterator<char>(file), {}};
  return {ObjectCode(std::as_bytes(std::span(read))), "thrice"};
}

int thrice(const LoadedCode& code, int x) { return code.object.function<int(int)>("thrice")(x); }

class Evictable_code : public testing::Test {
 protected:
  void TearDown() override { set_code_limit(usual_code_limit); }

  const std::size_t before_ = loaded_code_bytes();
  const std::size_t each_ = sample().object.size();
};

TEST_F(Evictable_code, Is_loaded_until_there_is_too_much) {
  std::array<EvictableCode, 4> codes;
  std::atomic<bool> first_is_loaded = true;
  codes[0].report_to(first_is_loaded);
  EXPECT_FALSE(first_is_loaded);
  EXPECT_EQ(EvictableCode::Use(codes[0]).code, nullptr);
  set_code_limit(before_ + 3 * each_);
  for (EvictableCode& code : codes) {
    code.load(sample());
    EXPECT_EQ(thrice(*EvictableCode::Use(code).code, 2), 6);
  }
  EXPECT_FALSE(first_is_loaded);
  EXPECT_TRUE(codes[3].is_loaded());
  EXPECT_LE(loaded_code_bytes(), before_ + 3 * each_);
  codes[0].load(sample());
  EXPECT_TRUE(first_is_loaded);
  EXPECT_EQ(thrice(*EvictableCode::Use(codes[0]).code, 5), 15);
}

TEST_F(Evictable_code, Loading_what_is_loaded_changes_nothing) {
  EvictableCode code;
  code.load(sample());
  const LoadedCode* first = EvictableCode::Use(code).code;
  code.load(sample());
  EXPECT_EQ(EvictableCode::Use(code).code, first);
  EXPECT_EQ(loaded_code_bytes(), before_ + each_);
}

TEST_F(Evictable_code, Stays_in_memory_while_it_runs) {
  EvictableCode code;
  code.load(sample());
  std::latch is_running(1), is_unloaded(1);
  std::thread thread([&] {
    const EvictableCode::Use use(code);
    is_running.count_down();
    is_unloaded.wait();
    EXPECT_EQ(thrice(*use.code, 14), 42);
  });
  is_running.wait();
  set_code_limit(0);
  EXPECT_FALSE(code.is_loaded());
  EXPECT_EQ(loaded_code_bytes(), before_ + each_);
  is_unloaded.count_down();
  thread.join();
  EvictableCode other;
  other.load(sample());  // whoever loads next unloads what was left
  set_code_limit(0);
  set_code_limit(0);
  EXPECT_EQ(loaded_code_bytes(), before_);
}

TEST_F(Evictable_code, Goes_with_its_owner) {
  {
    EvictableCode code;
    code.load(sample());
    EXPECT_EQ(loaded_code_bytes(), before_ + each_);
  }
  EXPECT_EQ(loaded_code_bytes(), before_);
}

TEST_F(Evictable_code, Can_be_used_at_the_end_of_a_thread) {
  EvictableCode code;
  code.load(sample());
  struct AtEnd {
    const EvictableCode* code = nullptr;
    ~AtEnd() {
      const EvictableCode::Use use(*code);
      EXPECT_EQ(use.thread, nullptr);
      EXPECT_EQ(thrice(*use.code, 3), 9);
    }
  };
  std::thread([&] {
    thread_local AtEnd at_end;  // made first, so it is destroyed after what the next line makes
    at_end.code = &code;
    EXPECT_NE(EvictableCode::Use(code).thread, nullptr);
  }).join();
}

// Threads come and go, use code, load it again, and unload each other's all the time.
TEST_F(Evictable_code, Threads_use_it_while_others_unload_it) {
  std::array<EvictableCode, 3> codes;
  set_code_limit(before_ + each_);
  for (int round = 0; round < test::rounds(10); ++round) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t step = 0; step < 100; ++step) {
          EvictableCode& code = codes[(i + step) % codes.size()];
          bool has_run = false;
          while (!has_run) {
            {
              const EvictableCode::Use use(code);
              if (use.code) {
                EXPECT_EQ(thrice(*use.code, 7), 21);
              }
              has_run = use.code != nullptr;
            }
            if (!has_run) code.load(sample());
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace tessera::compile::cpu
