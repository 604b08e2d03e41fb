#pragma once

namespace tessera::core {

// The value of an environment variable; null if it is not set, or if this process has privileges that its caller lacks
// (set-user-id, file capabilities): variables choose files to load and to write, so such a process must not trust them.
const char* environment_variable(const char* name) noexcept;
// Whether it is set to "1".
bool is_switched_on(const char* name) noexcept;

// Sets an environment variable for this process unless it is set already. Unlike setenv(), which may free the array
// that a getenv() in another thread is reading, it is safe against concurrent readers: it publishes a copy of the array
// with one store, and never changes or frees the old one. Like setenv() it must not run while other code *writes* the
// environment, which no thread of this library does.
void set_default_environment(const char* name, const char* value);

}  // namespace tessera::core
