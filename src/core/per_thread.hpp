#pragma once

#include <new>

namespace tessera::core {

// Something on the heap that goes with a thread.
class OfThread {
 public:
  OfThread() = default;
  virtual ~OfThread() = default;
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;

  // Whether the objects of the calling thread are being destroyed, or have been.
  static bool is_ending() noexcept;
  // Makes the calling thread the owner, which must not be ending: it deletes the object when it ends, the newest first.
  static void keep(OfThread* object) noexcept;

 private:
  friend struct ThreadObjects;
  OfThread* next_ = nullptr;
};

// A T for each thread, made when the thread first needs it. A thread-local object would need a guard and static TLS for
// all of it, which is scarce; this needs one word, and reading it is as quick.
template <class T>
class PerThread {
 public:
  // This thread's; null while the thread is ending, or if there is no memory.
  static T* here() noexcept {
    T* own = own_;
    return own ? own : make();
  }

 private:
  struct Held final : OfThread {
    ~Held() override { own_ = nullptr; }
    T value;
  };
  [[gnu::noinline]] static T* make() noexcept {
    if (OfThread::is_ending()) return nullptr;
    auto* made = new (std::nothrow) Held;
    if (!made) return nullptr;
    OfThread::keep(made);
    return own_ = &made->value;
  }
  static inline thread_local T* own_ = nullptr;
};

}  // namespace tessera::core
