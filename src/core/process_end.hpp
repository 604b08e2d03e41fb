#pragma once

// What has to be over before the process is taken apart.
//
// A compiler that is at work while the process ends may have registered handlers of exit() later than anybody who waits
// for it: they are called first, and take it down under its own feet. But before any handler exit() destroys the
// thread_local objects of the thread that calls it, and those of the main thread go at no other time.
namespace tessera::core {

// From now on functions are called when the main thread ends the process. Does nothing on other threads: whoever opens
// a device says it.
void watch_main_thread();

// Calls it then, once however often this is said. Any thread.
void before_handlers_of_exit(void (*function)() noexcept);

}  // namespace tessera::core
