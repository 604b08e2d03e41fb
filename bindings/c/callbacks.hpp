#pragma once

#include <tessera/tessera.h>

// The callbacks of commands that have been registered and have not returned. What a callback uses is often a local
// variable of the function that waits for the command, so a wait lasts until they have returned.
namespace tessera::c {

// Before a callback is registered. Throws std::bad_alloc.
void add_callback(const tessera_command* command);
void remove_callback(const tessera_command* command) noexcept;

// While it lives, this thread runs a callback of the command, which is removed afterwards.
class InCallback {
 public:
  explicit InCallback(const tessera_command* command) noexcept;
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;

 private:
  const tessera_command* command_;
};

// Blocks until no callback of the command is left. Returns at once inside a callback, which may be one of them.
void wait_for_callbacks(const tessera_command* command) noexcept;

}  // namespace tessera::c
