#include "callbacks.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace tessera::c {

namespace {

struct Callbacks {
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<const tessera_command*, std::size_t> left;
  std::atomic<std::size_t> count{0};
};

// Never destroyed: threads may still run callbacks when the process ends.
Callbacks& callbacks() {
  static Callbacks& only = *new Callbacks;
  return only;
}

thread_local int running = 0;  // callbacks on this thread, inside each other

}  // namespace

void add_callback(const tessera_command* command) {
  Callbacks& all = callbacks();
  const std::scoped_lock lock(all.mutex);
  ++all.left[command];
  all.count.fetch_add(1, std::memory_order_relaxed);
}

void remove_callback(const tessera_command* command) noexcept {
  Callbacks& all = callbacks();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.left.find(command);
  if (--found->second == 0) all.left.erase(found);
  all.count.fetch_sub(1, std::memory_order_relaxed);
  all.changed.notify_all();
}

InCallback::InCallback(const tessera_command* command) noexcept : command_(command) { ++running; }
InCallback::~InCallback() {
  --running;
  remove_callback(command_);
}

void wait_for_callbacks(const tessera_command* command) noexcept {
  Callbacks& all = callbacks();
  if (running > 0 || all.count.load(std::memory_order_relaxed) == 0) return;
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return !all.left.contains(command); });
}

}  // namespace tessera::c
