#pragma once

#include <utility>

namespace tessera::driver::gpu::test {

// Replaces an entry of a driver's table of functions during its lifetime. Tables are const to everybody else; the
// drivers look functions up in them at each call, or when a device is opened.
template <class Function>
class Replaced {
 public:
  Replaced(const Function& entry, Function by)
      : entry_(const_cast<Function&>(entry)), before_(std::exchange(entry_, by)) {}
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;
  ~Replaced() { entry_ = before_; }

  Function before() const noexcept { return before_; }

 private:
  Function& entry_;
  const Function before_;
};

}  // namespace tessera::driver::gpu::test
