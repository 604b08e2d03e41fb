#include "core/per_thread.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::core {
namespace {

struct Counted {
  static inline int alive = 0;  // used by one thread at a time
  int number = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};
using OfThisThread = PerThread<Counted>;

TEST(Per_thread, Each_thread_has_its_own_which_goes_with_it) {
  std::thread([] {
    EXPECT_EQ(Counted::alive, 0);
    OfThisThread::here()->number = 7;
    EXPECT_EQ(OfThisThread::here()->number, 7);
    EXPECT_EQ(Counted::alive, 1);
  }).join();
  EXPECT_EQ(Counted::alive, 0);
  std::thread([] { EXPECT_EQ(OfThisThread::here()->number, 0); }).join();
  EXPECT_EQ(Counted::alive, 0);
}

struct UsesItAtEnd {
  bool is_used = false;
  ~UsesItAtEnd() {
    if (!is_used) return;
    EXPECT_TRUE(OfThread::is_ending());
    EXPECT_EQ(OfThisThread::here(), nullptr);
  }
};

TEST(Per_thread, There_is_none_while_a_thread_ends) {
  std::thread([] {
    thread_local UsesItAtEnd before;  // destroyed after what is made next
    before.is_used = true;
    EXPECT_NE(OfThisThread::here(), nullptr);
    EXPECT_FALSE(OfThread::is_ending());
  }).join();
  EXPECT_EQ(Counted::alive, 0);
}

// The other one is still there for whoever is destroyed first.
struct UsesOlderAtEnd {
  ~UsesOlderAtEnd() { EXPECT_NE(OfThisThread::here(), nullptr); }
};

TEST(Per_thread, The_newest_goes_first) {
  std::thread([] {
    EXPECT_NE(OfThisThread::here(), nullptr);
    EXPECT_NE(PerThread<UsesOlderAtEnd>::here(), nullptr);
  }).join();
}

}  // namespace
}  // namespace tessera::core
