#pragma once

namespace tessera::core {

// Sets an environment variable for this process unless it is set already. Unlike setenv(), which may free the array
// that a getenv() in another thread is reading, it is safe against concurrent readers: it publishes a copy of the array
// with one store, and never changes or frees the old one. Like setenv() it must not run while other code *writes* the
// environment, which no thread of this library does.
void set_default_environment(const char* name, const char* value);

}  // namespace tessera::core
