#pragma once

#include "driver/gpu/api.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

// Checks that must pass for every GPU API. Each has its own hand-written kernels.
namespace tessera::driver::gpu::test {

using namespace std::chrono_literals;

inline constexpr auto forever = Clock::time_point::max();

// The kernels in an API's language; all on s32, with arguments n and k.
struct Kernels {
  std::string next;  // buffers to, from: to[i] = from[(i + 1) % n] * 3 + k
  std::string slow;  // buffer data: changes data[i] in k steps that cannot be optimised away
};

inline compile::gpu::Kernel kernel(const Api& api, std::string source, int buffers, int words) {
  compile::gpu::Kernel made;
  made.source = std::move(source);
  made.group = api.target().group;
  for (int i = 0; i < buffers; ++i) {
    made.buffers.push_back(i);
    made.is_written.push_back(i == 0);
  }
  made.argument_words = words;
  return made;
}

template <class T>
std::unique_ptr<Memory> memory_with(Api& api, const std::vector<T>& values) {
  auto memory = api.allocate(values.size() * sizeof(T));
  EXPECT_TRUE(memory);
  api.upload(*memory, 0, std::as_bytes(std::span(values)));
  return memory;
}

template <class T>
std::vector<T> values_of(Api& api, Memory& memory, std::size_t count) {
  std::vector<T> values(count);
  api.download(std::as_writable_bytes(std::span(values)), memory, 0);
  return values;
}

inline std::uint32_t groups_for(const Api& api, int n) {
  return static_cast<std::uint32_t>((n + api.target().group - 1) / api.target().group);
}

inline std::vector<std::uint32_t> words(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

// Submits, waits, and expects success.
inline void run(Api& api, std::span<const Dispatch> calls) {
  const std::uint64_t number = api.submit(calls);
  const Progress progress = api.wait(number, forever);
  EXPECT_FALSE(progress.failure);
  EXPECT_GE(progress.ended, number);
}

inline std::vector<std::int32_t> counted(int n, int first = 0) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = first + i;
  return values;
}

inline std::vector<std::int32_t> next_of(const std::vector<std::int32_t>& from, int k) {
  std::vector<std::int32_t> to(from.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(from[(i + 1) % from.size()]) * 3U +
                                      static_cast<std::uint32_t>(k));
  }
  return to;
}

inline void check_copies(Api& api) {
  for (const std::size_t size : {1U, 3U, 4U, 5U, 127U, 1000003U}) {
    auto memory = api.allocate(size);
    ASSERT_TRUE(memory);
    std::vector<std::byte> expected(size);
    for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<std::byte>(i * 7 + 1);
    api.upload(*memory, 0, expected);
    std::vector<std::byte> got(size);
    api.download(got, *memory, 0);
    EXPECT_EQ(got, expected) << size;
    if (const std::byte* address = memory->host_address()) {
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), address));
    }
    for (const std::size_t offset : {1U, 2U, 3U, 6U, 61U}) {
      for (const std::size_t count : {0U, 1U, 2U, 3U, 5U, 63U}) {
        if (offset + count > size) continue;
        const std::vector<std::byte> piece(count, static_cast<std::byte>(offset + count));
        api.upload(*memory, offset, piece);
        std::copy(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
        api.fill_zero(*memory, offset, count / 2);
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offset), count / 2, std::byte{0});
        std::vector<std::byte> back(count);
        api.download(back, *memory, offset);
        EXPECT_TRUE(std::equal(back.begin(), back.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset)));
      }
    }
    api.download(got, *memory, 0);
    EXPECT_EQ(got, expected) << size;
    api.fill_zero(*memory, 0, size);
    api.download(got, *memory, 0);
    EXPECT_EQ(got, std::vector<std::byte>(size)) << size;
  }
}

inline void check_out_of_memory(Api& api) {
  EXPECT_FALSE(api.allocate(std::numeric_limits<std::size_t>::max() / 4));
  EXPECT_FALSE(api.allocate(api.most_buffer_bytes() + 4096));
  EXPECT_TRUE(api.allocate(1 << 20));
  EXPECT_TRUE(api.allocate(0));
}

// Ten calls, each of which reads everything the previous one wrote.
inline std::vector<Dispatch> chain(const Api& api, const Module& module, Memory& a, Memory& b, int n) {
  std::vector<Dispatch> calls;
  for (int k = 0; k < 10; ++k) {
    const bool is_even = k % 2 == 0;
    calls.push_back({&module, {is_even ? &b : &a, is_even ? &a : &b}, words({n, k}), groups_for(api, n), true});
  }
  return calls;
}

inline void check_chain(Api& api, const Kernels& kernels) {
  const int n = 100000;
  const auto module = api.compile(kernel(api, kernels.next, 2, 2), "next");
  std::vector<std::int32_t> expected = counted(n);
  auto a = memory_with(api, expected);
  auto b = memory_with(api, std::vector<std::int32_t>(expected.size()));
  for (int k = 0; k < 10; ++k) expected = next_of(expected, k);
  run(api, chain(api, *module, *a, *b, n));
  EXPECT_EQ(values_of<std::int32_t>(api, *a, expected.size()), expected);
}

// Calls that do not wait, and one at the end that does.
inline void check_calls_that_do_not_wait(Api& api, const Kernels& kernels) {
  const int n = 10000;
  const auto module = api.compile(kernel(api, kernels.next, 2, 2), "next");
  auto from = memory_with(api, counted(n));
  std::vector<std::unique_ptr<Memory>> to;
  std::vector<Dispatch> calls;
  for (int k = 0; k < 5; ++k) {
    to.push_back(memory_with(api, std::vector<std::int32_t>(n)));
    calls.push_back({module.get(), {to.back().get(), from.get()}, words({n, k}), groups_for(api, n), k == 2});
  }
  auto last = memory_with(api, std::vector<std::int32_t>(n));
  calls.push_back({module.get(), {last.get(), to[4].get()}, words({n, 5}), groups_for(api, n), true});
  run(api, calls);
  for (int k = 0; k < 5; ++k) EXPECT_EQ(values_of<std::int32_t>(api, *to[k], n), next_of(counted(n), k));
  EXPECT_EQ(values_of<std::int32_t>(api, *last, n), next_of(next_of(counted(n), 4), 5));
  calls.pop_back();
  run(api, calls);
  run(api, {});
}

inline void check_recording(Api& api, const Kernels& kernels) {
  const int n = 1000;
  const auto module = api.compile(kernel(api, kernels.next, 2, 2), "next");
  std::vector<std::int32_t> expected = counted(n);
  auto a = memory_with(api, expected);
  auto b = memory_with(api, std::vector<std::int32_t>(expected.size()));
  const auto recording = api.record(chain(api, *module, *a, *b, n));
  for (int turn = 0; turn < 100; ++turn) {
    const std::uint64_t number = api.submit(*recording);
    ASSERT_GE(api.wait(number, forever).ended, number);
    for (int k = 0; k < 10; ++k) expected = next_of(expected, k);
  }
  EXPECT_EQ(values_of<std::int32_t>(api, *a, expected.size()), expected);
}

inline void check_many_threads(Api& api, const Kernels& kernels) {
  const auto module = api.compile(kernel(api, kernels.next, 2, 2), "next");
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const int n = 500 + thread;
      struct Work {
        std::unique_ptr<Memory> from, to;
        std::uint64_t number;
      };
      std::vector<Work> works;
      for (int i = 0; i < 100; ++i) {
        Work work{memory_with(api, counted(n, i)), api.allocate(static_cast<std::size_t>(n) * 4), 0};
        const Dispatch call{module.get(), {work.to.get(), work.from.get()}, words({n, i}), groups_for(api, n), true};
        work.number = api.submit({&call, 1});
        works.push_back(std::move(work));
      }
      for (int i = 0; i < 100; ++i) {
        Work& work = works[static_cast<std::size_t>(i)];
        ASSERT_GE(api.wait(work.number, i % 2 == 0 ? forever : Clock::now() + 1min).ended, work.number);
        EXPECT_EQ(values_of<std::int32_t>(api, *work.to, static_cast<std::size_t>(n)), next_of(counted(n, i), i));
      }
    });
  }
}

// A call that takes at least a tenth of a second, because of its many invocations: llvmpipe leaves loops after 65,535
// iterations.
class Slow {
 public:
  Slow(Api& api, const Kernels& kernels) : module_(api.compile(kernel(api, kernels.slow, 1, 2), "slow")) {
    for (int n = 1024;; n *= 2) {
      data_ = memory_with(api, counted(n));
      call_ = {module_.get(), {data_.get()}, words({n, 60000}), groups_for(api, n), true};
      run(api, {&call_, 1});  // the first run may compile
      const auto start = Clock::now();
      run(api, {&call_, 1});
      if (Clock::now() - start > 100ms) return;
    }
  }
  std::uint64_t submit(Api& api) const { return api.submit({&call_, 1}); }
  Memory& data() const { return *data_; }
  int size() const { return static_cast<int>(call_.arguments[0]); }

 private:
  std::unique_ptr<Module> module_;
  std::unique_ptr<Memory> data_;
  Dispatch call_;
};

inline void check_wait_ends_in_time(Api& api, const Kernels& kernels) {
  const Slow slow(api, kernels);
  const std::uint64_t number = slow.submit(api);
  EXPECT_LT(api.wait(number, Clock::time_point::min()).ended, number);
  EXPECT_LT(api.wait(number, Clock::now()).ended, number);
  EXPECT_LT(api.wait(number, Clock::now() + 1ms).ended, number);
  EXPECT_EQ(api.wait(number, forever).ended, number);
}

// A submission that waits reads what the one before it has written, however long that takes.
inline void check_submissions_that_wait(Api& api, const Kernels& kernels) {
  const Slow slow(api, kernels);
  const int n = slow.size();
  const auto module = api.compile(kernel(api, kernels.next, 2, 2), "next");
  auto to = memory_with(api, std::vector<std::int32_t>(static_cast<std::size_t>(n)));
  Dispatch call{module.get(), {to.get(), &slow.data()}, words({n, 1}), groups_for(api, n), true};
  call.waits_for_submissions = true;
  const auto recording = api.record({&call, 1});
  const auto expect_seen = [&](std::uint64_t number) {
    ASSERT_FALSE(api.wait(number, forever).failure);
    const auto written = values_of<std::int32_t>(api, slow.data(), static_cast<std::size_t>(n));
    EXPECT_EQ(values_of<std::int32_t>(api, *to, written.size()), next_of(written, 1));
  };
  slow.submit(api);
  expect_seen(api.submit({&call, 1}));
  slow.submit(api);
  expect_seen(api.submit(*recording));
}

// While a call runs.
inline void check_lose(Api& api, const Kernels& kernels) {
  const Slow slow(api, kernels);
  auto memory = memory_with(api, counted(4));
  const std::uint64_t number = slow.submit(api);
  std::jthread waiter([&] {
    const Progress progress = api.wait(number, forever);
    EXPECT_LT(progress.ended, number);
    ASSERT_TRUE(progress.failure);
    EXPECT_EQ(progress.failure->code, Errc::device_failure);
  });
  std::this_thread::sleep_for(10ms);
  api.lose("the test says so");
  waiter.join();
  const Progress later = api.wait(number + 100, forever);
  ASSERT_TRUE(later.failure);
  EXPECT_NE(later.failure->message.find("the test says so"), std::string::npos);
  EXPECT_NE(later.failure->message.find(api.info().name), std::string::npos);
  const auto expect_lost = [](auto&& call) {
    tessera::test::expect_error(Errc::device_failure, "the test says so", call);
  };
  expect_lost([&] { slow.submit(api); });
  expect_lost([&] { memory_with(api, counted(4)); });
  expect_lost([&] { values_of<std::int32_t>(api, *memory, 4); });
  expect_lost([&] { api.fill_zero(*memory, 0, 16); });
}

}  // namespace tessera::driver::gpu::test
