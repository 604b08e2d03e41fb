// Commands, and event queues for those who wait in a loop of their own.
#include "objects.hpp"

#include <chrono>
#include <fcntl.h>
#include <list>
#include <mutex>
#include <unistd.h>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

// Finished commands that nobody has fetched yet. While there are any, a byte is in the pipe.
struct EventQueue {
  EventQueue() {
    if (pipe(ends) != 0) throw Error(Errc::io_error, "[tessera_events_create] there are no descriptors left");
    for (const int end : ends) {
      fcntl(end, F_SETFD, FD_CLOEXEC);
      fcntl(end, F_SETFL, O_NONBLOCK);
    }
  }
  ~EventQueue() {
    for (const int end : ends) close(end);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // The node was allocated when the command was watched: an event cannot be lost for want of memory.
  void post(std::list<tessera_event>& node) noexcept {
    const std::scoped_lock lock(mutex);
    const char byte = 1;
    if (events.empty()) [[maybe_unused]]
      const auto written = write(ends[1], &byte, 1);
    events.splice(events.end(), node);
  }
  tessera_event next() noexcept {
    const std::scoped_lock lock(mutex);
    if (events.empty()) return {};
    const tessera_event first = events.front();
    events.pop_front();
    char byte = 0;
    if (events.empty()) [[maybe_unused]]
      const auto taken = read(ends[0], &byte, 1);
    return first;
  }

  int ends[2] = {-1, -1};
  std::mutex mutex;
  std::list<tessera_event> events;
};

namespace {

// Runs or submits: `on` is a device or a stream.
template <class On>
tessera_code run(On* on, const char* kernel, tessera_buffer* const* inputs, std::size_t count, tessera_buffer* output,
                 const char* params, Call call, std::string_view what) {
  return guarded([&] {
    const auto on_copy = *get(on, call, what);  // not pinned while it runs
    const std::vector<Buffer> list = expect_buffers(inputs, count, call, "inputs");
    const Buffer to = *get(output, call, "output");
    on_copy.run(expect_text(kernel, call, "kernel"), list, to, expect_params(params, call));
  });
}

template <class On>
tessera_code submit(On* on, const char* kernel, tessera_buffer* const* inputs, std::size_t count,
                    tessera_buffer* output, const char* params, tessera_command** command, Call call,
                    std::string_view what) {
  return guarded([&] {
    tessera_command*& made = result(command, call, "command");
    const auto on_copy = *get(on, call, what);
    const std::vector<Buffer> list = expect_buffers(inputs, count, call, "inputs");
    const Buffer to = *get(output, call, "output");
    const std::string_view name = expect_text(kernel, call, "kernel");
    const Params values = expect_params(params, call);
    made = handle_to<tessera_command>([&] { return on_copy.submit(name, list, to, values); });
  });
}

std::vector<Command> expect_commands(tessera_command* const* commands, std::size_t count, Call call) {
  if (count > 0) expect(commands, call, "commands");
  std::vector<Command> list;
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(*get(commands[i], call, "commands[" + std::to_string(i) + "]"));
  }
  return list;
}

tessera_status to_c(Status status) { return static_cast<tessera_status>(status); }

}  // namespace
}  // namespace tessera::c

tessera_code tessera_run(tessera_device* device, const char* kernel, tessera_buffer* const* inputs, size_t input_count,
                         tessera_buffer* output, const char* params) {
  return run(device, kernel, inputs, input_count, output, params, __func__, "device");
}

tessera_code tessera_submit(tessera_device* device, const char* kernel, tessera_buffer* const* inputs,
                            size_t input_count, tessera_buffer* output, const char* params,
                            tessera_command** command) {
  return submit(device, kernel, inputs, input_count, output, params, command, __func__, "device");
}

tessera_code tessera_stream_run(tessera_stream* stream, const char* kernel, tessera_buffer* const* inputs,
                                size_t input_count, tessera_buffer* output, const char* params) {
  return run(stream, kernel, inputs, input_count, output, params, __func__, "stream");
}

tessera_code tessera_stream_submit(tessera_stream* stream, const char* kernel, tessera_buffer* const* inputs,
                                   size_t input_count, tessera_buffer* output, const char* params,
                                   tessera_command** command) {
  return submit(stream, kernel, inputs, input_count, output, params, command, __func__, "stream");
}

void tessera_command_release(tessera_command* command) { release_handle(command, Kind::command, __func__); }

tessera_code tessera_command_id(tessera_command* command, uint64_t* id) {
  return guarded(__func__, [&](Call call) {
    std::uint64_t& to = result(id, call, "id");
    to = get(command, call, "command")->id();
  });
}

tessera_code tessera_command_poll(tessera_command* command, tessera_status* status) {
  return guarded(__func__, [&](Call call) {
    tessera_status& to = result(status, call, "status");
    to = to_c(get(command, call, "command")->poll());
  });
}

tessera_code tessera_command_wait(tessera_command* command) {
  return guarded(__func__, [&](Call call) {
    const Command of = *get(command, call, "command");  // not pinned while it waits
    of.wait();
  });
}

tessera_code tessera_command_wait_for(tessera_command* command, uint64_t nanoseconds) {
  bool has_finished = false;
  const tessera_code code = guarded(__func__, [&](Call call) {
    const Command of = *get(command, call, "command");
    has_finished = of.wait_for(std::chrono::duration<double, std::nano>(static_cast<double>(nanoseconds)));
  });
  if (code != TESSERA_OK || has_finished) return code;
  return set_error(TESSERA_TIMED_OUT, "[tessera_command_wait_for] the command has not finished in time");
}

tessera_code tessera_command_cancel(tessera_command* command, int32_t* was_pending) {
  return guarded(__func__, [&](Call call) {
    if (was_pending) *was_pending = 0;
    const bool cancelled = get(command, call, "command")->cancel();
    if (was_pending) *was_pending = cancelled ? 1 : 0;
  });
}

tessera_code tessera_command_error(tessera_command* command) {
  return guarded(__func__, [&](Call call) {
    if (const std::optional<Error> error = get(command, call, "command")->error()) throw Error(*error);
  });
}

tessera_code tessera_command_on_complete(tessera_command* command, tessera_callback callback, void* user) {
  return guarded(__func__, [&](Call call) {
    expect(callback, call, "callback");
    const Command of = *get(command, call, "command");
    of.on_complete([=](const Command& finished) { callback(command, to_c(finished.poll()), user); });
  });
}

tessera_code tessera_wait_all(tessera_command* const* commands, size_t count) {
  return guarded(__func__, [&](Call call) { wait_all(expect_commands(commands, count, call)); });
}

tessera_code tessera_wait_any(tessera_command* const* commands, size_t count, size_t* index) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(index, call, "index");
    to = wait_any(expect_commands(commands, count, call));
  });
}

tessera_code tessera_poll(tessera_device* device, uint64_t id, tessera_status* status) {
  return guarded(__func__, [&](Call call) {
    tessera_status& to = result(status, call, "status");
    to = to_c(get(device, call, "device")->poll(id));
  });
}

tessera_code tessera_wait(tessera_device* device, uint64_t id) {
  return guarded(__func__, [&](Call call) {
    const Device on = *get(device, call, "device");
    on.wait(id);
  });
}

tessera_code tessera_cancel(tessera_device* device, uint64_t id, int32_t* was_pending) {
  return guarded(__func__, [&](Call call) {
    if (was_pending) *was_pending = 0;
    const bool cancelled = get(device, call, "device")->cancel(id);
    if (was_pending) *was_pending = cancelled ? 1 : 0;
  });
}

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
      std::shared_ptr<EventQueue> queue;
      std::list<tessera_event> node;
    };
    const Command of = *get(command, call, "command");
    auto watch = std::make_shared<Watch>();
    watch->queue = *get(events, call, "events");
    watch->node.push_back({1, TESSERA_PENDING, token, of.id()});
    of.on_complete([watch = std::move(watch)](const Command& finished) {
      watch->node.front().status = to_c(finished.poll());
      watch->queue->post(watch->node);
    });
  });
}

tessera_code tessera_events_next(tessera_events* events, tessera_event* event) {
  return guarded(__func__, [&](Call call) {
    tessera_event& to = result(event, call, "event");
    to = (*get(events, call, "events"))->next();
  });
}
