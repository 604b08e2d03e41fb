/* Kernels, commands, callbacks, event queues and streams. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

static const tessera_param_info* param_of(const tessera_kernel_info* kernel, const char* name) {
  size_t i;
  for (i = 0; i < kernel->param_count; ++i) {
    if (strcmp(kernel->params[i].name, name) == 0) return &kernel->params[i];
  }
  return NULL;
}

static int find_kernel(const tessera_kernels* kernels, const char* name, tessera_kernel_info* info) {
  size_t i;
  for (i = 0; i < tessera_kernels_count(kernels); ++i) {
    info->struct_size = sizeof *info;
    OK(tessera_kernels_get(kernels, i, info));
    if (strcmp(info->name, name) == 0) return 1;
  }
  return 0;
}

void test_kernels_are_listed(void) {
  tessera_device* device = best_device();
  tessera_kernels* kernels = NULL;
  tessera_kernel_info info;
  OK(tessera_device_kernels(device, &kernels));
  CHECK(tessera_kernels_count(kernels) > 40);
  CHECK(find_kernel(kernels, "elementwise_add", &info));
  CHECK(info.input_count == 2 && info.documentation[0] != '\0' && (info.dtypes & (1U << TESSERA_F32)) != 0);
  CHECK(find_kernel(kernels, "relu", &info));
  CHECK(info.input_count == 1 && param_of(&info, "slope") != NULL);
  CHECK(strcmp(param_of(&info, "slope")->type, "number") == 0);
  CHECK(strcmp(param_of(&info, "slope")->default_value, "0") == 0);
  CHECK(find_kernel(kernels, "scale", &info));
  CHECK(param_of(&info, "factor") != NULL);
  info.struct_size = sizeof info;
  FAILS(TESSERA_INVALID_ARGUMENT, "kernels", tessera_kernels_get(kernels, SIZE_MAX, &info));
  tessera_kernels_release(kernels);
  tessera_device_release(device);
}

void test_kernels_are_defined(void) {
  const char* names[] = {"x", "y"};
  const char* unnamed[] = {NULL};
  const float a[] = {2, 4}, b[] = {10, 20};
  tessera_device* device = best_device();
  tessera_buffer* inputs[] = {floats(device, a, 2), floats(device, b, 2)};
  tessera_buffer* out = zeros(device, 2);
  tessera_kernels* kernels = NULL;
  tessera_kernel_info info;
  OK(tessera_define_kernel("c_mix", names, 2, "x * amount + y", "{\"amount\": 3}"));
  OK(tessera_run(device, "c_mix", inputs, 2, out, NULL));
  CHECK(first_of(out, 2) == 16);
  OK(tessera_run(device, "c_mix", inputs, 2, out, "{\"amount\": 0.5}"));
  CHECK(first_of(out, 2) == 11);
  OK(tessera_device_kernels(device, &kernels));
  CHECK(find_kernel(kernels, "c_mix", &info));
  tessera_kernels_release(kernels);
  FAILS(TESSERA_INVALID_KERNEL, "exq", tessera_define_kernel("c_bad", names, 1, "exq(x)", NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "relu", tessera_define_kernel("relu", names, 1, "x", NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "inputs[0] is NULL", tessera_define_kernel("c_bad", unnamed, 1, "1", NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "params", tessera_define_kernel("c_bad", names, 1, "x", "{"));
  tessera_buffer_release(inputs[0]);
  tessera_buffer_release(inputs[1]);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_wrong_calls_fail(void) {
  tessera_device* device = best_device();
  tessera_buffer *a = zeros(device, 3), *longer = zeros(device, 4);
  tessera_command* command = NULL;
  tessera_status status = TESSERA_PENDING;
  FAILS(TESSERA_UNKNOWN_KERNEL, "'relu'", tessera_run(device, "rel", &a, 1, a, NULL));
  FAILS(TESSERA_COUNT_MISMATCH, "[relu]", tessera_run(device, "relu", NULL, 0, a, NULL));
  FAILS(TESSERA_SHAPE_MISMATCH, "[relu]", tessera_run(device, "relu", &a, 1, longer, NULL));
  FAILS(TESSERA_UNKNOWN_PARAMETER, "slop", tessera_run(device, "relu", &a, 1, a, "{\"slop\": 1}"));
  FAILS(TESSERA_INVALID_PARAMETER, "slope", tessera_run(device, "relu", &a, 1, a, "{\"slope\": \"x\"}"));
  FAILS(TESSERA_INVALID_ARGUMENT, "params", tessera_run(device, "relu", &a, 1, a, "[1]"));
  FAILS(TESSERA_INVALID_ARGUMENT, "params", tessera_run(device, "relu", &a, 1, a, ""));
  FAILS(TESSERA_INVALID_ARGUMENT, "inputs", tessera_run(device, "relu", &a, SIZE_MAX, a, NULL));

  /* A wrong submission is a command that has failed; what cannot be one is refused. */
  OK(tessera_submit(device, "rel", &a, 1, longer, NULL, &command));
  OK(tessera_command_poll(command, &status));
  CHECK(status == TESSERA_FAILED);
  FAILS(TESSERA_UNKNOWN_KERNEL, "rel", tessera_command_error(command));
  tessera_command_release(command);
  FAILS(TESSERA_INVALID_ARGUMENT, "params", tessera_submit(device, "relu", &a, 1, a, "{]", &command));
  CHECK(command == NULL);
  tessera_buffer_release(a);
  tessera_buffer_release(longer);
  tessera_device_release(device);
}

void test_commands_are_polled_and_waited_for(void) {
  const float values[] = {-1, 2};
  tessera_device* device = patient_device();
  tessera_buffer *a = floats(device, values, 2), *b = zeros(device, 2);
  tessera_command* commands[2] = {NULL, NULL};
  tessera_status status = TESSERA_FAILED;
  size_t index = 99;
  OK(tessera_submit(device, "relu", &a, 1, b, "{\"slope\": 0.5}", &commands[0]));
  OK(tessera_submit(device, "scale", &b, 1, b, "{\"factor\": 4}", &commands[1]));
  OK(tessera_command_error(commands[1])); /* it has not finished */
  OK(tessera_command_wait_for(commands[1], UINT64_MAX));
  OK(tessera_command_poll(commands[0], &status));
  CHECK(status == TESSERA_COMPLETED);
  OK(tessera_command_wait_for(commands[0], 0));
  OK(tessera_command_wait(commands[0]));
  OK(tessera_wait_all(commands, 2));
  OK(tessera_wait_all(NULL, 0));
  OK(tessera_wait_any(commands, 2, &index));
  CHECK(index == 0);
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_wait_any(NULL, 0, &index));
  CHECK(first_of(b, 2) == -2);
  tessera_command_release(commands[0]);
  FAILS(TESSERA_INVALID_ARGUMENT, "commands[0]", tessera_wait_all(commands, 2));
  tessera_command_release(commands[1]);
  tessera_buffer_release(a);
  tessera_buffer_release(b);
  tessera_device_release(device);
}

void test_commands_are_cancelled(void) {
  tessera_device* device = patient_device();
  tessera_buffer *a = zeros(device, 2), *b = zeros(device, 2);
  tessera_mapping* mapping = NULL;
  tessera_command* command = NULL;
  tessera_status status = TESSERA_PENDING;
  int32_t was_pending = -1;
  OK(tessera_buffer_map(b, &mapping));
  OK(tessera_submit(device, "relu", &a, 1, b, NULL, &command));
  OK(tessera_command_cancel(command, &was_pending));
  CHECK(was_pending == 1);
  OK(tessera_command_cancel(command, &was_pending));
  CHECK(was_pending == 0);
  OK(tessera_command_cancel(command, NULL));
  OK(tessera_command_poll(command, &status));
  CHECK(status == TESSERA_CANCELLED);
  FAILS(TESSERA_CANCELLED_ERROR, "[relu]", tessera_command_wait(command));
  tessera_mapping_release(mapping);
  tessera_command_release(command);
  tessera_buffer_release(a);
  tessera_buffer_release(b);
  tessera_device_release(device);
}

void test_commands_by_number(void) {
  tessera_device* device = patient_device();
  tessera_buffer* a = zeros(device, 2);
  tessera_mapping* mapping = NULL;
  tessera_command* command = NULL;
  tessera_status status = TESSERA_FAILED;
  uint64_t id = 0;
  int32_t was_pending = -1;
  OK(tessera_submit(device, "relu", &a, 1, a, NULL, &command));
  OK(tessera_command_id(command, &id));
  CHECK(id == 1);
  tessera_command_release(command);
  OK(tessera_wait(device, id));
  OK(tessera_poll(device, id, &status));
  CHECK(status == TESSERA_COMPLETED);

  OK(tessera_buffer_map(a, &mapping));
  OK(tessera_submit(device, "relu", &a, 1, a, NULL, &command));
  OK(tessera_command_id(command, &id));
  OK(tessera_cancel(device, id, &was_pending));
  CHECK(was_pending == 1);
  OK(tessera_cancel(device, id, NULL));
  FAILS(TESSERA_CANCELLED_ERROR, "", tessera_wait(device, id));
  FAILS(TESSERA_UNKNOWN_COMMAND, "", tessera_wait(device, 12345));
  FAILS(TESSERA_UNKNOWN_COMMAND, "", tessera_poll(device, 0, &status));
  FAILS(TESSERA_UNKNOWN_COMMAND, "", tessera_cancel(device, UINT64_MAX, &was_pending));
  tessera_mapping_release(mapping);
  tessera_command_release(command);
  tessera_buffer_release(a);
  tessera_device_release(device);
}

struct chain {
  tessera_device* device;
  tessera_buffer* buffer;
  int left;
  int completed;
};

/* Releases its own command and submits the next one. */
static void submit_next(tessera_command* command, tessera_status status, void* user) {
  struct chain* chain = (struct chain*)user;
  tessera_command* next = NULL;
  tessera_status polled = TESSERA_PENDING;
  OK(tessera_command_poll(command, &polled));
  CHECK(polled == status);
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  FAILS(TESSERA_INVALID_ARGUMENT, "released", tessera_command_poll(command, &polled));
  if (chain->left-- > 0) {
    OK(tessera_submit(chain->device, "scale", &chain->buffer, 1, chain->buffer, "{\"factor\": 1}", &next));
    OK(tessera_command_on_complete(next, submit_next, chain));
  }
  if (status == TESSERA_COMPLETED) __atomic_fetch_add(&chain->completed, 1, __ATOMIC_RELEASE);
}

void test_callbacks_call_back_in(void) {
  struct chain chain = {best_device(), NULL, 200, 0};
  tessera_command* first = NULL;
  chain.buffer = zeros(chain.device, 2048);
  OK(tessera_submit(chain.device, "relu", &chain.buffer, 1, chain.buffer, NULL, &first));
  OK(tessera_command_on_complete(first, submit_next, &chain));
  while (__atomic_load_n(&chain.completed, __ATOMIC_ACQUIRE) < 201) OK(tessera_device_synchronize(chain.device));
  OK(tessera_device_synchronize(chain.device));
  tessera_buffer_release(chain.buffer);
  tessera_device_release(chain.device);
}

struct seen {
  tessera_command* command;
  tessera_status status;
  int calls;
};

static void remember(tessera_command* command, tessera_status status, void* user) {
  struct seen* seen = (struct seen*)user;
  tessera_status polled = TESSERA_PENDING;
  seen->command = command;
  seen->status = status;
  ++seen->calls;
  FAILS(TESSERA_INVALID_ARGUMENT, "released", tessera_command_poll(command, &polled));
}

void test_callbacks_of_released_commands(void) {
  tessera_device* device = patient_device();
  tessera_buffer* a = zeros(device, 2);
  tessera_mapping* mapping = NULL;
  tessera_command* command = NULL;
  struct seen seen = {NULL, TESSERA_PENDING, 0};
  OK(tessera_buffer_map(a, &mapping));
  OK(tessera_submit(device, "relu", &a, 1, a, NULL, &command));
  OK(tessera_command_on_complete(command, remember, &seen));
  OK(tessera_command_on_complete(command, remember, &seen)); /* as often as it was registered */
  FAILS(TESSERA_INVALID_ARGUMENT, "callback is NULL", tessera_command_on_complete(command, NULL, &seen));
  tessera_command_release(command);
  CHECK(seen.calls == 0);
  tessera_mapping_release(mapping);
  OK(tessera_device_synchronize(device));
  CHECK(seen.calls == 2 && seen.status == TESSERA_COMPLETED && seen.command == command);
  tessera_buffer_release(a);
  tessera_device_release(device);
}

static void write_late(tessera_command* command, tessera_status status, void* user) {
  const struct timespec moment = {0, 5000000};
  (void)command;
  nanosleep(&moment, NULL);
  *(tessera_status*)user = status;
}

void test_waits_outlast_callbacks(void) {
  tessera_device* device = best_device();
  tessera_buffer* a = zeros(device, 1 << 20);
  for (int i = 0; i < 6; ++i) {
    tessera_command* command = NULL;
    tessera_status status = TESSERA_PENDING;
    OK(tessera_submit(device, "relu", &a, 1, a, NULL, &command));
    OK(tessera_command_on_complete(command, write_late, &status));
    if (i % 3 == 0) OK(tessera_command_wait(command));
    if (i % 3 == 1) OK(tessera_command_wait_for(command, UINT64_MAX));
    if (i % 3 == 2) OK(tessera_wait_all(&command, 1));
    CHECK(status == TESSERA_COMPLETED);
    tessera_command_release(command);
  }
  tessera_buffer_release(a);
  tessera_device_release(device);
}

static int is_readable(int descriptor, int milliseconds) {
  struct pollfd waiting;
  waiting.fd = descriptor;
  waiting.events = POLLIN;
  waiting.revents = 0;
  return poll(&waiting, 1, milliseconds) == 1 && (waiting.revents & POLLIN) != 0;
}

void test_event_queues_wake_a_loop(void) {
  enum { count = 100 };
  tessera_device* device = best_device();
  tessera_buffer* buffers[count];
  tessera_events* events = NULL;
  tessera_mapping* mapping = NULL;
  tessera_command *command = NULL, *held = NULL;
  tessera_event event;
  int seen[count] = {0}, left = count, i, descriptor;
  OK(tessera_events_create(&events));
  descriptor = tessera_events_descriptor(events);
  CHECK(descriptor >= 0);
  CHECK(!is_readable(descriptor, 0));
  OK(tessera_events_next(events, &event));
  CHECK(event.has_event == 0);

  for (i = 0; i < count; ++i) {
    buffers[i] = zeros(device, 4096);
    OK(tessera_submit(device, "relu", &buffers[i], 1, buffers[i], NULL, &command));
    OK(tessera_events_watch(events, command, (uint64_t)i));
    tessera_command_release(command);
  }
  while (left > 0) {
    CHECK(is_readable(descriptor, -1));
    OK(tessera_events_next(events, &event));
    if (!event.has_event) continue;
    CHECK(event.status == TESSERA_COMPLETED && event.id > 0 && event.token < count);
    CHECK(++seen[event.token % count] == 1);
    --left;
  }
  CHECK(!is_readable(descriptor, 0));
  OK(tessera_events_next(events, &event));
  CHECK(event.has_event == 0);

  /* One that fails, one that has finished already, one twice. */
  OK(tessera_buffer_map(buffers[0], &mapping));
  OK(tessera_submit(device, "relu", buffers, 1, buffers[0], NULL, &held));
  OK(tessera_events_watch(events, held, 7));
  OK(tessera_events_watch(events, held, UINT64_MAX));
  CHECK(!is_readable(descriptor, 0));
  OK(tessera_command_cancel(held, NULL));
  CHECK(is_readable(descriptor, -1));
  OK(tessera_events_next(events, &event));
  CHECK(event.has_event && event.status == TESSERA_CANCELLED);
  OK(tessera_events_next(events, &event));
  CHECK(event.has_event && !is_readable(descriptor, 0));
  OK(tessera_events_watch(events, held, 8));
  CHECK(is_readable(descriptor, 0));
  tessera_mapping_release(mapping);
  tessera_command_release(held);
  tessera_events_release(events); /* with an event in it */
  for (i = 0; i < count; ++i) tessera_buffer_release(buffers[i]);
  tessera_device_release(device);
}

void test_event_queues_are_released_early(void) {
  tessera_device* device = patient_device();
  tessera_buffer* a = zeros(device, 2);
  tessera_mapping* mapping = NULL;
  tessera_command* command = NULL;
  tessera_events* events = NULL;
  int descriptor;
  OK(tessera_buffer_map(a, &mapping));
  OK(tessera_events_create(&events));
  OK(tessera_submit(device, "relu", &a, 1, a, NULL, &command));
  OK(tessera_events_watch(events, command, 1));
  descriptor = tessera_events_descriptor(events);
  CHECK(fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
  tessera_events_release(events);
  CHECK(fcntl(descriptor, F_GETFD) == -1);
  CHECK(tessera_events_descriptor(events) == -1);
  FAILS(TESSERA_INVALID_ARGUMENT, "released", tessera_events_watch(events, command, 1));
  tessera_mapping_release(mapping);
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  tessera_buffer_release(a);
  tessera_device_release(device);
}

void test_streams_have_limits(void) {
  tessera_device *device = patient_device(), *same = NULL;
  tessera_buffer* a = zeros(device, 2);
  tessera_mapping* mapping = NULL;
  tessera_stream_options options = TESSERA_STREAM_OPTIONS;
  tessera_stream* stream = NULL;
  tessera_command* commands[3] = {NULL, NULL, NULL};
  size_t in_flight = 99;
  int i;
  options.priority = TESSERA_PRIORITY_HIGH;
  options.max_in_flight = 2;
  options.when_full = TESSERA_WHEN_FULL_DROP_OLDEST;
  options.in_order = 0;
  OK(tessera_stream_create(device, &options, &stream));
  OK(tessera_stream_device(stream, &same));
  tessera_device_release(same);
  OK(tessera_buffer_map(a, &mapping));
  for (i = 0; i < 3; ++i) OK(tessera_stream_submit(stream, "relu", &a, 1, a, NULL, &commands[i]));
  OK(tessera_stream_in_flight(stream, &in_flight));
  CHECK(in_flight == 2);
  FAILS(TESSERA_CANCELLED_ERROR, "", tessera_command_wait(commands[0]));
  tessera_mapping_release(mapping);
  OK(tessera_stream_synchronize(stream));
  OK(tessera_stream_in_flight(stream, &in_flight));
  CHECK(in_flight == 0);
  OK(tessera_run(device, "fill", NULL, 0, a, "{\"value\": -2}"));
  OK(tessera_stream_run(stream, "abs", &a, 1, a, NULL));
  CHECK(first_of(a, 2) == 2);
  FAILS(TESSERA_UNKNOWN_KERNEL, "abz", tessera_stream_run(stream, "abz", &a, 1, a, NULL));
  for (i = 0; i < 3; ++i) tessera_command_release(commands[i]);
  tessera_stream_release(stream);

  /* A deadline that has passed before the mapping ends. */
  options.deadline_ns = 1;
  OK(tessera_stream_create(device, &options, &stream));
  OK(tessera_buffer_map(a, &mapping));
  OK(tessera_stream_submit(stream, "relu", &a, 1, a, NULL, &commands[0]));
  FAILS(TESSERA_DEADLINE_EXCEEDED, "", tessera_command_wait(commands[0]));
  tessera_mapping_release(mapping);
  tessera_command_release(commands[0]);
  tessera_stream_release(stream);
  tessera_buffer_release(a);
  tessera_device_release(device);
}
