#include "callbacks.hpp"
#include "objects.hpp"

#include <chrono>
#include <span>
#include <vector>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

namespace {

// Runs or submits: `on` is a device or a stream.
template <class On>
tessera_code run(On* on, const char* kernel, tessera_buffer* const* inputs, std::size_t count, tessera_buffer* output,
                 const char* params, Call call, const char* what) {
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
                    const char* what) {
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

// A wait that was refused has not waited for the command, and must not wait for its callbacks.
void wait_for_callbacks_of(const Command& of, const tessera_command* command) noexcept {
  try {
    if (!is_terminal(of.poll())) return;
  } catch (const Error&) {
    return;
  }
  wait_for_callbacks(command);
}

// Calls the function, and returns or throws once the callbacks of these commands have returned.
template <class Function>
void with_callbacks(std::span<const Command> of, tessera_command* const* commands, Function&& function) {
  const auto wait = [&] {
    for (std::size_t i = 0; i < of.size(); ++i) wait_for_callbacks_of(of[i], commands[i]);
  };
  try {
    function();
  } catch (...) {
    wait();
    throw;
  }
  wait();
}

std::vector<Command> expect_commands(tessera_command* const* commands, std::size_t count, Call call) {
  expect_list(commands, count, call, "commands");
  std::vector<Command> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) list.push_back(*get(commands[i], call, {"commands", i}));
  return list;
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_run(tessera_device* device, const char* kernel, tessera_buffer* const* inputs, size_t input_count,
                         tessera_buffer* output, const char* params) {
  return run(device, kernel, inputs, input_count, output, params, __func__, "device");
}

tessera_code tessera_submit(tessera_device* device, const char* kernel, tessera_buffer* const* inputs,
                            size_t input_count, tessera_buffer* output, const char* params, tessera_command** command) {
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
    with_callbacks({&of, 1}, &command, [&] { of.wait(); });
  });
}

tessera_code tessera_command_wait_for(tessera_command* command, uint64_t nanoseconds) {
  bool has_finished = false;
  const tessera_code code = guarded(__func__, [&](Call call) {
    const Command of = *get(command, call, "command");
    const std::chrono::duration<double, std::nano> time(static_cast<double>(nanoseconds));
    with_callbacks({&of, 1}, &command, [&] { has_finished = of.wait_for(time); });
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
    add_callback(command);
    try {
      of.on_complete([=](const Command& finished) {
        const InCallback running(command);
        callback(command, to_c(finished.poll()), user);
      });
    } catch (...) {
      remove_callback(command);
      throw;
    }
  });
}

tessera_code tessera_wait_all(tessera_command* const* commands, size_t count) {
  return guarded(__func__, [&](Call call) {
    const std::vector<Command> all = expect_commands(commands, count, call);
    with_callbacks(all, commands, [&] { wait_all(all); });
  });
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
