#pragma once

#include <vector>

namespace tessera::compile::cpu {

// Forgets at its end the values computed during its lifetime: code that follows cannot use values of the block that was
// emitted in it.
class Scope {
 public:
  template <class Known>
  explicit Scope(std::vector<Known>& known)
      : pop_([](void* of) { static_cast<std::vector<Known>*>(of)->pop_back(); }), known_(&known) {
    known.emplace_back();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { pop_(known_); }

 private:
  void (*pop_)(void*);
  void* known_;
};

}  // namespace tessera::compile::cpu
