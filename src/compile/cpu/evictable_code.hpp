#pragma once

#include "compile/cpu/object_code.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tessera::compile::cpu {

// A kernel's code in memory, and its functions.
struct LoadedCode {
  using Kernel = void(std::byte* const* buffers, const std::int64_t* dims, const std::uint64_t* scalars,
                      std::byte* scratch, std::int64_t begin, std::int64_t end);
  using ScratchBytes = std::int64_t(const std::int64_t* dims);

  // Throws if the object lacks the kernel.
  LoadedCode(ObjectCode code, std::string_view kernel_name)
      : object(std::move(code)),
        kernel(object.function<Kernel>(kernel_name)),
        scratch_bytes(reinterpret_cast<ScratchBytes*>(object.try_find("scratch"))) {}

  ObjectCode object;
  Kernel* kernel;
  ScratchBytes* scratch_bytes;         // null: it needs none
  mutable LoadedCode* next = nullptr;  // of those that wait to be unloaded
};

// What a thread has while it runs code. Never freed: a thread that ends leaves it to the next one.
class CodeThread {
 public:
  // This thread's; null when its thread-local objects are being destroyed, or if there is no memory for one.
  static CodeThread* here() noexcept {
    CodeThread* own = this_thread;
    return own ? own : take();
  }

  std::atomic<const LoadedCode*> running{nullptr};  // must not be unloaded meanwhile
  std::byte* scratch = nullptr;                     // kept for the next call
  std::size_t scratch_size = 0;

 private:
  friend class CodeEviction;
  friend struct CodeThreadOwner;
  static CodeThread* take() noexcept;

  static inline thread_local CodeThread* this_thread = nullptr;
  bool is_taken = true;        // by a live thread
  CodeThread* next = nullptr;  // in the list of all
};

// Code that is loaded while there is space for it.
//
// When all loaded code takes more than the limit, what was not used for longest is unloaded, except what a thread is
// running; whoever needs it again loads it again. The hot path pays two stores and a load for that, and no memory
// barrier: whoever unloads makes all threads execute one. Where the system cannot do that, nothing is unloaded.
class EvictableCode {
 public:
  EvictableCode();
  ~EvictableCode();  // nobody may be running it
  EvictableCode(const EvictableCode&) = delete;
  EvictableCode& operator=(const EvictableCode&) = delete;

  // Keeps the code loaded while it lives; a thread has one at a time. Never fails, and never waits but at a thread's
  // end.
  class Use {
   public:
    explicit Use(const EvictableCode& evictable) noexcept : thread(CodeThread::here()) {
      if (!thread) [[unlikely]]
        stop_unloading();
      const LoadedCode* const seen = evictable.code_.load(std::memory_order_relaxed);
      if (thread) [[likely]]
        thread->running.store(seen, std::memory_order_relaxed);
      // The compiler keeps the order of these accesses; the barrier of whoever unloads does the rest.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      code = evictable.code_.load(std::memory_order_acquire) == seen ? seen : nullptr;
      // Written once a round of evictions, so that threads that run the same code only read it.
      if (!evictable.was_used_.load(std::memory_order_relaxed)) [[unlikely]] {
        evictable.was_used_.store(true, std::memory_order_relaxed);
      }
    }
    ~Use() {
      if (thread) [[likely]] {
        thread->running.store(nullptr, std::memory_order_release);
      } else {
        resume_unloading();
      }
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    CodeThread* const thread;          // null as CodeThread::here() may be
    const LoadedCode* code = nullptr;  // null: it is not loaded
  };

  bool is_loaded() const noexcept { return code_.load(std::memory_order_relaxed) != nullptr; }

  // Does nothing if some is loaded already. May unload other code.
  void load(LoadedCode code);

  // Keeps `is_loaded` up to date from now on, as long as this object lives.
  void report_to(std::atomic<bool>& is_loaded);

 private:
  friend class CodeEviction;

  static void stop_unloading() noexcept;
  static void resume_unloading() noexcept;

  std::atomic<const LoadedCode*> code_{nullptr};
  mutable std::atomic<bool> was_used_{false};
  std::atomic<bool>* reported_ = nullptr;
  EvictableCode* before_ = nullptr;  // in the ring of all
  EvictableCode* after_ = nullptr;
};

// 128 MiB: some ten thousand kernels of three pages each. From the disk, one is loaded again in a tenth of a
// millisecond.
inline constexpr std::size_t usual_code_limit = std::size_t{128} << 20;

// For tests: the limit of loaded code in bytes, and how much is loaded.
void set_code_limit(std::size_t bytes);
std::size_t loaded_code_bytes();

}  // namespace tessera::compile::cpu
