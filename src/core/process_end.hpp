#pragma once

// Work that must finish before the process is torn down.
//
// A compiler running while the process exits may have registered its atexit handlers after ours, so they run first and
// tear it down while it works. But before any handler, exit() destroys the thread_local objects of the calling thread,
// and the main thread's are destroyed at no other time.
namespace tessera::core {

// Makes the functions below run when the main thread ends the process. Does nothing on other threads; every call that
// opens a device calls it.
void watch_main_thread();

// Registers a function, once however often it is passed. Thread-safe.
void before_handlers_of_exit(void (*function)() noexcept);

}  // namespace tessera::core
