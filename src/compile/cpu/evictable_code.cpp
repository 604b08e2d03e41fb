#include "compile/cpu/evictable_code.hpp"

#include "core/per_thread.hpp"
#include "core/platform.hpp"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace tessera::compile::cpu {

// The ring of all evictable code, and the threads that run some. Its members are called under the mutex.
class CodeEviction {
 public:
  static CodeEviction& instance() {
    static auto& eviction = *new CodeEviction;  // never destroyed: workers may still run code while the process exits
    return eviction;
  }

  void add(EvictableCode& code) noexcept {
    if (!hand_) {
      code.before_ = code.after_ = hand_ = &code;
      return;
    }
    // Behind the hand, which comes round to it last.
    code.after_ = hand_;
    code.before_ = hand_->before_;
    code.before_->after_ = code.after_->before_ = &code;
  }

  void remove(EvictableCode& code) noexcept {
    if (hand_ == &code) hand_ = code.after_ == &code ? nullptr : code.after_;
    code.before_->after_ = code.after_;
    code.after_->before_ = code.before_;
    if (const LoadedCode* loaded = code.code_.exchange(nullptr)) unload(loaded);
  }

  void load(EvictableCode& code, std::unique_ptr<const LoadedCode> loaded) {
    if (code.is_loaded()) return;
    bytes_ += loaded->object.size();
    code.was_used_.store(true, std::memory_order_relaxed);
    code.code_.store(loaded.release(), std::memory_order_release);
    if (code.reported_) code.reported_->store(true, std::memory_order_release);
    evict(&code);
  }

  void report(EvictableCode& code, std::atomic<bool>& is_loaded) noexcept {
    code.reported_ = &is_loaded;
    is_loaded.store(code.is_loaded(), std::memory_order_release);
  }

  void set_limit(std::size_t bytes) {
    limit_ = bytes;
    evict(nullptr);
  }
  std::size_t bytes() const noexcept { return bytes_; }

  // A free one or a new one; null if there is no memory.
  CodeThread* take_thread() noexcept {
    for (CodeThread* thread = threads_; thread; thread = thread->next) {
      if (!std::exchange(thread->is_taken, true)) return thread;
    }
    auto* made = new (std::nothrow) CodeThread;
    if (!made) return nullptr;
    made->next = threads_;
    return threads_ = made;
  }

  std::mutex mutex;

 private:
  // If more is loaded than the limit, unloads until three quarters of it are left, but not `kept`. Goes round the ring:
  // what was used since the hand came by last gets another round.
  void evict(const EvictableCode* kept) {
    static const bool can_unload = core::barrier_on_all_threads();
    if (bytes_ <= limit_ || !can_unload || !hand_) return;
    const std::size_t enough = limit_ / 4 * 3;
    std::size_t left = bytes_;
    const EvictableCode* const start = hand_;
    for (int rounds = 0; left > enough && rounds < 2;) {
      EvictableCode& code = *std::exchange(hand_, hand_->after_);
      if (hand_ == start) ++rounds;
      const LoadedCode* const loaded = code.code_.load(std::memory_order_relaxed);
      if (!loaded || &code == kept || code.was_used_.exchange(false, std::memory_order_relaxed)) continue;
      code.code_.store(nullptr, std::memory_order_relaxed);
      if (code.reported_) code.reported_->store(false, std::memory_order_release);
      left -= loaded->object.size();
      loaded->next = retired_;
      retired_ = const_cast<LoadedCode*>(loaded);
    }
    unload_retired();
  }

  // A thread that runs some of it marked it before the barrier, or did so after it and then found that it is gone.
  void unload_retired() {
    if (!core::barrier_on_all_threads()) return;
    LoadedCode* rest = nullptr;
    while (LoadedCode* code = retired_) {
      retired_ = code->next;
      if (is_running(*code)) {
        code->next = rest;
        rest = code;
      } else {
        unload(code);
      }
    }
    retired_ = rest;
  }

  bool is_running(const LoadedCode& code) const noexcept {
    for (const CodeThread* thread = threads_; thread; thread = thread->next) {
      if (thread->running.load(std::memory_order_acquire) == &code) return true;
    }
    return false;
  }

  void unload(const LoadedCode* code) noexcept {
    bytes_ -= code->object.size();
    delete code;
  }

  EvictableCode* hand_ = nullptr;
  LoadedCode* retired_ = nullptr;  // what was running when it was to be unloaded
  CodeThread* threads_ = nullptr;
  std::size_t bytes_ = 0;  // loaded, with what is retired
  std::size_t limit_ = usual_code_limit;
};

// Gives a thread's CodeThread back when the thread ends.
struct CodeThreadOwner final : core::OfThread {
  ~CodeThreadOwner() override {
    CodeThread* const own = std::exchange(CodeThread::this_thread, nullptr);
    if (!own) return;
    std::free(std::exchange(own->scratch, nullptr));
    own->scratch_size = 0;
    const std::scoped_lock lock(CodeEviction::instance().mutex);
    own->is_taken = false;
  }
};

CodeThread* CodeThread::take() noexcept {
  if (core::OfThread::is_ending()) return nullptr;
  auto* const owner = new (std::nothrow) CodeThreadOwner;
  if (!owner) return nullptr;
  core::OfThread::keep(owner);
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  return this_thread = CodeEviction::instance().take_thread();
}

EvictableCode::EvictableCode() {
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  CodeEviction::instance().add(*this);
}

EvictableCode::~EvictableCode() {
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  CodeEviction::instance().remove(*this);
}

void EvictableCode::load(LoadedCode code) {
  auto loaded = std::make_unique<const LoadedCode>(std::move(code));
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  CodeEviction::instance().load(*this, std::move(loaded));
}

void EvictableCode::report_to(std::atomic<bool>& is_loaded) {
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  CodeEviction::instance().report(*this, is_loaded);
}

void EvictableCode::stop_unloading() noexcept { CodeEviction::instance().mutex.lock(); }
void EvictableCode::resume_unloading() noexcept { CodeEviction::instance().mutex.unlock(); }

void set_code_limit(std::size_t bytes) {
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  CodeEviction::instance().set_limit(bytes);
}

std::size_t loaded_code_bytes() {
  const std::scoped_lock lock(CodeEviction::instance().mutex);
  return CodeEviction::instance().bytes();
}

}  // namespace tessera::compile::cpu
