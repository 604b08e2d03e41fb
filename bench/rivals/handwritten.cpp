#include "harness.hpp"
#include "rivals/rivals.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <immintrin.h>
#include <memory>
#include <stdexcept>
#include <thread>

namespace bench::handwritten {

namespace {

constexpr std::size_t line = 16;  // floats

// How far ahead to prefetch, in floats. 2 KiB is best on Xeons with AVX-512; on Zen 3 it gains nothing on an idle
// machine and costs a sixth on a busy one.
constexpr std::size_t far_ahead = 512;

// Intrinsics rather than -march=native: the choice is made at run time.
template <std::size_t ahead>
[[gnu::target("avx512f")]] void loop_avx512(const AddReluScale& work, std::size_t begin, std::size_t end) {
  constexpr __mmask16 all = 0xFFFF;  // g++ 12 warns about its own _mm512_max_ps
  const __m512 factor = _mm512_set1_ps(work.factor);
  for (std::size_t i = begin; i < end; i += line) {
    if constexpr (ahead > 0) {
      _mm_prefetch(work.a + i + ahead, _MM_HINT_T0);
      _mm_prefetch(work.b + i + ahead, _MM_HINT_T0);
    }
    const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(work.a + i), _mm512_loadu_ps(work.b + i));
    _mm512_stream_ps(work.output + i, _mm512_mul_ps(_mm512_maskz_max_ps(all, sum, _mm512_setzero_ps()), factor));
  }
  _mm_sfence();
}

template <std::size_t ahead>
[[gnu::target("avx2")]] void loop_avx2(const AddReluScale& work, std::size_t begin, std::size_t end) {
  const __m256 factor = _mm256_set1_ps(work.factor);
  for (std::size_t i = begin; i < end; i += line) {
    if constexpr (ahead > 0) {
      _mm_prefetch(work.a + i + ahead, _MM_HINT_T0);
      _mm_prefetch(work.b + i + ahead, _MM_HINT_T0);
    }
    for (std::size_t j = i; j < i + line; j += line / 2) {
      const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(work.a + j), _mm256_loadu_ps(work.b + j));
      _mm256_stream_ps(work.output + j, _mm256_mul_ps(_mm256_max_ps(sum, _mm256_setzero_ps()), factor));
    }
  }
  _mm_sfence();
}

using Loop = void (*)(const AddReluScale& work, std::size_t begin, std::size_t end);

std::array<Loop, 2> loops() {
  if (__builtin_cpu_supports("avx512f")) return {loop_avx512<0>, loop_avx512<far_ahead>};
  if (__builtin_cpu_supports("avx2")) return {loop_avx2<0>, loop_avx2<far_ahead>};
  throw std::runtime_error("the handwritten loop needs AVX2");
}

// Two threads with half the work each. The second sleeps between calls, which take milliseconds; waking it takes tens
// of microseconds.
class Pair {
 public:
  explicit Pair(const AddReluScale& work) : work_(work), thread_([this] { serve(); }) {}
  ~Pair() {
    stopping_ = true;
    advance(asked_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void run(Loop loop) {
    loop_ = loop;
    const int before = done_;
    advance(asked_);
    loop(work_, 0, middle());
    done_.wait(before, std::memory_order_acquire);
  }

 private:
  static void advance(std::atomic<int>& counter) {
    counter.fetch_add(1, std::memory_order_release);
    counter.notify_one();
  }
  std::size_t middle() const { return work_.elements / 2 / line * line; }
  void serve() {
    for (int served = 0;; ++served) {
      asked_.wait(served, std::memory_order_acquire);
      if (stopping_) return;
      loop_(work_, middle(), work_.elements);
      advance(done_);
    }
  }

  AddReluScale work_;
  Loop loop_ = nullptr;
  std::atomic<int> asked_ = 0;
  std::atomic<int> done_ = 0;
  std::atomic<bool> stopping_ = false;
  std::jthread thread_;  // last: it uses the others
};

// The faster loop on this machine, by the median of several calls.
Loop faster(Pair& pair) {
  constexpr std::size_t times = 9;
  const auto candidates = loops();
  std::array<std::array<double, times>, 2> figures{};
  for (std::size_t i = 0; i < times; ++i) {
    for (std::size_t j = 0; j < 2; ++j) figures[j][i] = nanoseconds([&] { pair.run(candidates[j]); });
  }
  for (auto& of_one : figures) std::ranges::nth_element(of_one, of_one.begin() + times / 2);
  return candidates[figures[0][times / 2] <= figures[1][times / 2] ? 0 : 1];
}

}  // namespace

Call add_relu_scale(const AddReluScale& work) {
  if (work.elements % line != 0) throw std::runtime_error("the handwritten loop needs whole cache lines");
  const auto pair = std::make_shared<Pair>(work);
  return [pair, loop = faster(*pair)] { pair->run(loop); };
}

}  // namespace bench::handwritten
