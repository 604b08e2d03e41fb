#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>

namespace tessera::detail {

// Notified once when a command finishes, on the thread that finished it. Owned by the waiter.
class TESSERA_API Observer {
 public:
  virtual void command_finished(engine::Work& work) noexcept = 0;

 protected:
  Observer() = default;
  ~Observer() = default;

 private:
  friend struct engine::Work;
  Observer* next_ = nullptr;
};

}  // namespace tessera::detail
