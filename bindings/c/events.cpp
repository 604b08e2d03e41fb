// Queues of finished commands, for those who wait in a loop of their own.
#include "objects.hpp"

#include <cerrno>
#include <fcntl.h>
#include <list>
#include <mutex>
#include <system_error>
#include <unistd.h>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

// Finished commands that nobody has fetched yet. While there are any, a byte is in the pipe.
struct EventQueue {
  EventQueue() {
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) return;
    throw Error(Errc::io_error, "[tessera_events_create] pipe2: " + std::generic_category().message(errno));
  }
  ~EventQueue() {
    for (const int end : ends) close(end);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // The node was allocated when the command was watched: an event cannot be lost for want of memory.
  void post(std::list<tessera_event>& node) noexcept {
    const std::scoped_lock lock(mutex);
    if (events.empty()) put_byte();
    events.splice(events.end(), node);
  }
  tessera_event next() noexcept {
    const std::scoped_lock lock(mutex);
    if (events.empty()) return {};
    const tessera_event first = events.front();
    events.pop_front();
    if (events.empty()) take_byte();
    return first;
  }

  // These cannot fail: there is one byte at most.
  void put_byte() const noexcept {
    const char byte = 1;
    [[maybe_unused]] const auto written = write(ends[1], &byte, 1);
  }
  void take_byte() const noexcept {
    char byte = 0;
    [[maybe_unused]] const auto taken = read(ends[0], &byte, 1);
  }

  int ends[2] = {-1, -1};
  std::mutex mutex;
  std::list<tessera_event> events;
};

}  // namespace tessera::c

tessera_code tessera_events_create(tessera_events** events) {
  return guarded(__func__, [&](Call call) {
    tessera_events*& to = result(events, call, "events");
    to = handle_to<tessera_events>([] { return std::make_shared<EventQueue>(); });
  });
}

void tessera_events_release(tessera_events* events) { release_handle(events, Kind::events, __func__); }

int tessera_events_descriptor(tessera_events* events) {
  int descriptor = -1;
  guarded(__func__, [&](Call call) { descriptor = (*get(events, call, "events"))->ends[0]; });
  return descriptor;
}

tessera_code tessera_events_watch(tessera_events* events, tessera_command* command, uint64_t token) {
  return guarded(__func__, [&](Call call) {
    struct Watch {
      std::weak_ptr<EventQueue> queue;
      std::list<tessera_event> node;
    };
    const Command of = *get(command, call, "command");
    auto watch = std::make_shared<Watch>();
    watch->queue = *get(events, call, "events");
    watch->node.push_back({1, TESSERA_PENDING, token, of.id()});
    of.on_complete([watch = std::move(watch)](const Command& finished) {
      watch->node.front().status = to_c(finished.poll());
      if (const std::shared_ptr<EventQueue> queue = watch->queue.lock()) queue->post(watch->node);
    });
  });
}

tessera_code tessera_events_next(tessera_events* events, tessera_event* event) {
  return guarded(__func__, [&](Call call) {
    tessera_event& to = result(event, call, "event");
    to = (*get(events, call, "events"))->next();
  });
}
