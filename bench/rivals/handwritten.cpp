#include "rivals/rivals.hpp"

#include <atomic>
#include <immintrin.h>
#include <memory>
#include <thread>

namespace bench::handwritten {

namespace {

constexpr std::size_t line = 16;  // floats

// Measured best of 0 to 8 KiB, on Zen 3 as on AVX-512 Xeons.
constexpr std::size_t ahead = 512;  // floats

// Intrinsics and not -march=native: the choice is made where the program runs.
[[gnu::target("avx512f")]] void loop_avx512(const AddReluScale& work, std::size_t begin, std::size_t end) {
  const __m512 factor = _mm512_set1_ps(work.factor);
  for (std::size_t i = begin; i < end; i += line) {
    _mm_prefetch(work.a + i + ahead, _MM_HINT_T0);
    _mm_prefetch(work.b + i + ahead, _MM_HINT_T0);
    const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(work.a + i), _mm512_loadu_ps(work.b + i));
    _mm512_stream_ps(work.output + i, _mm512_mul_ps(_mm512_max_ps(sum, _mm512_setzero_ps()), factor));
  }
  _mm_sfence();
}

[[gnu::target("avx2")]] void loop_avx2(const AddReluScale& work, std::size_t begin, std::size_t end) {
  const __m256 factor = _mm256_set1_ps(work.factor);
  for (std::size_t i = begin; i < end; i += line) {
    _mm_prefetch(work.a + i + ahead, _MM_HINT_T0);
    _mm_prefetch(work.b + i + ahead, _MM_HINT_T0);
    for (std::size_t j = i; j < i + line; j += line / 2) {
      const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(work.a + j), _mm256_loadu_ps(work.b + j));
      _mm256_stream_ps(work.output + j, _mm256_mul_ps(_mm256_max_ps(sum, _mm256_setzero_ps()), factor));
    }
  }
  _mm_sfence();
}

void half(const AddReluScale& work, int index) {
  const std::size_t middle = work.elements / 2 / line * line;
  const std::size_t begin = index == 0 ? 0 : middle;
  const std::size_t end = index == 0 ? middle : work.elements / line * line;
  if (__builtin_cpu_supports("avx512f")) {
    loop_avx512(work, begin, end);
  } else {
    loop_avx2(work, begin, end);
  }
  if (index == 0) return;
  for (std::size_t i = end; i < work.elements; ++i) {
    const float sum = work.a[i] + work.b[i];
    work.output[i] = (sum > 0 ? sum : 0) * work.factor;
  }
}

// A second thread that does the other half. Asleep between calls: arrays for which this loop is meant take
// milliseconds, a wake-up some tens of microseconds.
class Pair {
 public:
  explicit Pair(const AddReluScale& work) : work_(work), thread_([this] { serve(); }) {}
  ~Pair() {
    stopping_ = true;
    advance(asked_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void run() {
    advance(asked_);
    half(work_, 0);
    done_.wait(asked_ - 1, std::memory_order_acquire);
  }

 private:
  static void advance(std::atomic<int>& counter) {
    counter.fetch_add(1, std::memory_order_release);
    counter.notify_one();
  }
  void serve() {
    for (int served = 0;; ++served) {
      asked_.wait(served, std::memory_order_acquire);
      if (stopping_) return;
      half(work_, 1);
      advance(done_);
    }
  }

  AddReluScale work_;
  std::atomic<int> asked_ = 0;
  std::atomic<int> done_ = 0;
  std::atomic<bool> stopping_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

Call add_relu_scale(const AddReluScale& work) {
  return [pair = std::make_shared<Pair>(work)] { pair->run(); };
}

}  // namespace bench::handwritten
