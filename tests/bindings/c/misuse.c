/* Every function with every kind of bad handle, NULL where that is wrong, and numbers that mean nothing. The ABI check
 * makes sure that none is missing here. */
#include "check.h"

/* Good arguments, to be combined with a bad one. */
struct good {
  tessera_device* device;
  tessera_buffer* buffer;
  tessera_mapping* mapping;
  tessera_command* command;
  tessera_events* events;
  tessera_stream* stream;
  tessera_pipeline* pipeline;
  tessera_kernels* kernels;
  tessera_image* image;
  tessera_text* text;
};

static const int64_t shape = 4;

static int never_called(const tessera_host_call* call, void* user) {
  (void)call;
  (void)user;
  check_failed(__FILE__, __LINE__, __func__, "the function of a refused stage is called");
  return 0;
}
static void never_done(tessera_command* command, tessera_status status, void* user) {
  (void)command;
  (void)status;
  (void)user;
  check_failed(__FILE__, __LINE__, __func__, "a refused callback is called");
}
static void never_released(void* data, void* user) {
  (void)data;
  (void)user;
  check_failed(__FILE__, __LINE__, __func__, "memory that was refused is released");
}

static struct good make_good(void) {
  const uint8_t pixel = 0;
  struct good g;
  memset(&g, 0, sizeof g);
  g.device = patient_device();
  g.buffer = zeros(g.device, shape);
  OK(tessera_buffer_map_read(g.buffer, &g.mapping));
  OK(tessera_submit(g.device, "sqrt", &g.buffer, 1, g.buffer, NULL, &g.command));
  OK(tessera_events_create(&g.events));
  OK(tessera_stream_create(g.device, NULL, &g.stream));
  OK(tessera_pipeline_create(g.device, NULL, &g.pipeline));
  OK(tessera_device_kernels(g.device, &g.kernels));
  OK(tessera_image_from_pixels(&pixel, 1, 1, 1, 1, &g.image));
  OK(tessera_image_encode(g.image, TESSERA_PNG, 90, &g.text));
  return g;
}

static void release_good(struct good* g) {
  tessera_mapping_release(g->mapping);
  tessera_command_release(g->command);
  tessera_buffer_release(g->buffer);
  tessera_events_release(g->events);
  tessera_stream_release(g->stream);
  tessera_pipeline_release(g->pipeline);
  tessera_kernels_release(g->kernels);
  tessera_image_release(g->image);
  tessera_text_release(g->text);
  tessera_device_release(g->device);
}

#define REFUSES(call) FAILS(TESSERA_INVALID_ARGUMENT, "[tessera_", call)

static void bad_device(struct good* g, tessera_device* bad) {
  float value = 0;
  tessera_device_info info;
  tessera_memory_info memory;
  tessera_power_level level;
  tessera_buffer* buffer = g->buffer;
  tessera_kernels* kernels;
  tessera_command* command;
  tessera_stream* stream;
  tessera_pipeline* pipeline;
  tessera_status status;
  info.struct_size = sizeof info;
  memory.struct_size = sizeof memory;
  REFUSES(tessera_device_get_info(bad, &info));
  REFUSES(tessera_device_memory(bad, &memory));
  REFUSES(tessera_device_set_memory_limit(bad, 1 << 20));
  REFUSES(tessera_device_trim_memory(bad, NULL));
  REFUSES(tessera_device_power_level(bad, &level));
  REFUSES(tessera_device_set_power_level(bad, TESSERA_POWER_FAIR));
  REFUSES(tessera_device_synchronize(bad));
  REFUSES(tessera_device_kernels(bad, &kernels));
  REFUSES(tessera_buffer_from_host(bad, &value, sizeof value, NULL, 0, TESSERA_F32, &buffer));
  CHECK(buffer == NULL);
  REFUSES(tessera_buffer_zeros(bad, &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_buffer_empty(bad, &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_buffer_wrap(bad, &value, sizeof value, NULL, 0, TESSERA_F32, never_released, NULL, &buffer));
  REFUSES(tessera_buffer_from_image(bad, g->image, &buffer));
  REFUSES(tessera_buffer_copy_to_device(g->buffer, bad, &buffer));
  REFUSES(tessera_run(bad, "relu", &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_submit(bad, "relu", &g->buffer, 1, g->buffer, NULL, &command));
  REFUSES(tessera_poll(bad, 1, &status));
  REFUSES(tessera_wait(bad, 1));
  REFUSES(tessera_cancel(bad, 1, NULL));
  REFUSES(tessera_stream_create(bad, NULL, &stream));
  REFUSES(tessera_pipeline_create(bad, NULL, &pipeline));
  REFUSES(tessera_pipeline_from_json(bad, "{}", &pipeline));
  REFUSES(tessera_define_command(bad, "name", g->pipeline));
  REFUSES(tessera_run_command(bad, "name", NULL, 0));
  REFUSES(tessera_submit_command(bad, "name", NULL, 0, &command));
  tessera_device_release(bad);
}

static void bad_buffer(struct good* g, tessera_buffer* bad) {
  float values[4] = {0};
  int64_t extents[TESSERA_MAX_RANK];
  size_t size;
  int32_t is_freed;
  tessera_dtype dtype;
  tessera_buffer *made, *pair[2];
  tessera_device* device;
  tessera_mapping* mapping;
  tessera_command* command;
  tessera_image* image;
  tessera_binding binding = {"slot", NULL, NULL};
  pair[0] = g->buffer;
  pair[1] = bad;
  binding.buffer = bad;
  REFUSES(tessera_buffer_reshape(bad, &shape, 1, &made));
  REFUSES(tessera_buffer_free(bad));
  REFUSES(tessera_buffers_free(pair, 2));
  REFUSES(tessera_buffer_is_freed(bad, &is_freed));
  REFUSES(tessera_buffer_shape(bad, extents, &size));
  REFUSES(tessera_buffer_dtype(bad, &dtype));
  REFUSES(tessera_buffer_size(bad, &size));
  REFUSES(tessera_buffer_device(bad, &device));
  REFUSES(tessera_buffer_read(bad, values, sizeof values));
  REFUSES(tessera_buffer_write(bad, values, sizeof values));
  REFUSES(tessera_buffer_write_at(bad, 0, values, sizeof values));
  REFUSES(tessera_buffer_map(bad, &mapping));
  REFUSES(tessera_buffer_map_read(bad, &mapping));
  REFUSES(tessera_buffer_copy(bad, g->buffer, &command));
  REFUSES(tessera_buffer_copy(g->buffer, bad, &command));
  REFUSES(tessera_buffer_copy_to_device(bad, g->device, &made));
  REFUSES(tessera_image_from_buffer(bad, &image));
  REFUSES(tessera_run(g->device, "elementwise_add", pair, 2, g->buffer, NULL));
  REFUSES(tessera_run(g->device, "sqrt", pair, 1, bad, NULL));
  REFUSES(tessera_submit(g->device, "elementwise_add", pair, 2, g->buffer, NULL, &command));
  REFUSES(tessera_submit(g->device, "sqrt", pair, 1, bad, NULL, &command));
  REFUSES(tessera_stream_run(g->stream, "sqrt", pair, 1, bad, NULL));
  REFUSES(tessera_stream_submit(g->stream, "sqrt", pair, 1, bad, NULL, &command));
  REFUSES(tessera_pipeline_add(g->pipeline, "elementwise_add", pair, 2, g->buffer, NULL));
  REFUSES(tessera_pipeline_add(g->pipeline, "sqrt", pair, 1, bad, NULL));
  REFUSES(tessera_pipeline_copy(g->pipeline, bad, g->buffer));
  REFUSES(tessera_pipeline_copy(g->pipeline, g->buffer, bad));
  REFUSES(tessera_pipeline_fill(g->pipeline, bad, "1"));
  REFUSES(tessera_pipeline_call(g->pipeline, "call", never_called, NULL, NULL, pair, 2, NULL, 0));
  REFUSES(tessera_pipeline_call(g->pipeline, "call", never_called, NULL, NULL, NULL, 0, pair, 2));
  REFUSES(tessera_pipeline_run(g->pipeline, &binding, 1, NULL));
  REFUSES(tessera_pipeline_submit(g->pipeline, &binding, 1, NULL, &command));
  REFUSES(tessera_run_command(g->device, "name", &binding, 1));
  REFUSES(tessera_submit_command(g->device, "name", &binding, 1, &command));
  tessera_buffer_release(bad);
}

static void bad_command(struct good* g, tessera_command* bad) {
  tessera_command* pair[2];
  tessera_status status;
  uint64_t id;
  size_t index;
  pair[0] = g->command;
  pair[1] = bad;
  REFUSES(tessera_command_id(bad, &id));
  REFUSES(tessera_command_poll(bad, &status));
  REFUSES(tessera_command_wait(bad));
  REFUSES(tessera_command_wait_for(bad, 1));
  REFUSES(tessera_command_cancel(bad, NULL));
  REFUSES(tessera_command_error(bad));
  REFUSES(tessera_command_on_complete(bad, never_done, NULL));
  REFUSES(tessera_wait_all(pair, 2));
  REFUSES(tessera_wait_any(pair, 2, &index));
  REFUSES(tessera_events_watch(g->events, bad, 1));
  tessera_command_release(bad);
}

static void bad_pipeline(struct good* g, tessera_pipeline* bad) {
  tessera_pipeline* clone;
  tessera_device* device;
  tessera_buffer* buffer;
  tessera_command* command;
  tessera_text* text;
  size_t count;
  REFUSES(tessera_pipeline_clone(bad, &clone));
  REFUSES(tessera_pipeline_device(bad, &device));
  REFUSES(tessera_pipeline_add(bad, "sqrt", &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_pipeline_copy(bad, g->buffer, g->buffer));
  REFUSES(tessera_pipeline_fill(bad, g->buffer, "1"));
  REFUSES(tessera_pipeline_barrier(bad));
  REFUSES(tessera_pipeline_call(bad, "call", never_called, NULL, NULL, NULL, 0, NULL, 0));
  REFUSES(tessera_pipeline_temporary(bad, &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_pipeline_slot(bad, "slot", &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_pipeline_param(bad, "param", "1"));
  REFUSES(tessera_pipeline_stage_count(bad, &count));
  REFUSES(tessera_pipeline_compile(bad));
  REFUSES(tessera_pipeline_run(bad, NULL, 0, NULL));
  REFUSES(tessera_pipeline_submit(bad, NULL, 0, NULL, &command));
  REFUSES(tessera_define_command(g->device, "name", bad));
  REFUSES(tessera_pipeline_explain(bad, &text));
  REFUSES(tessera_pipeline_to_dot(bad, &text));
  REFUSES(tessera_pipeline_warnings(bad, &text));
  REFUSES(tessera_pipeline_to_json(bad, &text));
  REFUSES(tessera_pipeline_last_run(bad, &text));
  tessera_pipeline_release(bad);
}

static void bad_stream(struct good* g, tessera_stream* bad, int is_null) {
  tessera_command* command;
  tessera_device* device;
  size_t count;
  REFUSES(tessera_stream_run(bad, "sqrt", &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_stream_submit(bad, "sqrt", &g->buffer, 1, g->buffer, NULL, &command));
  REFUSES(tessera_stream_device(bad, &device));
  REFUSES(tessera_stream_in_flight(bad, &count));
  REFUSES(tessera_stream_synchronize(bad));
  if (!is_null) { /* NULL is no stream */
    REFUSES(tessera_pipeline_run(g->pipeline, NULL, 0, bad));
    REFUSES(tessera_pipeline_submit(g->pipeline, NULL, 0, bad, &command));
  }
  tessera_stream_release(bad);
}

static void bad_other(struct good* g, void* bad) {
  tessera_event event;
  tessera_kernel_info kernel;
  tessera_buffer* buffer;
  tessera_text* text;
  int64_t width, height;
  int32_t channels;
  kernel.struct_size = sizeof kernel;
  CHECK(tessera_mapping_data((tessera_mapping*)bad) == NULL);
  CHECK(tessera_mapping_size((tessera_mapping*)bad) == 0);
  tessera_mapping_release((tessera_mapping*)bad);

  CHECK(tessera_events_descriptor((tessera_events*)bad) == -1);
  REFUSES(tessera_events_watch((tessera_events*)bad, g->command, 1));
  REFUSES(tessera_events_next((tessera_events*)bad, &event));
  tessera_events_release((tessera_events*)bad);

  CHECK(tessera_kernels_count((tessera_kernels*)bad) == 0);
  REFUSES(tessera_kernels_get((tessera_kernels*)bad, 0, &kernel));
  tessera_kernels_release((tessera_kernels*)bad);

  REFUSES(tessera_buffer_from_image(g->device, (tessera_image*)bad, &buffer));
  REFUSES(tessera_image_size((tessera_image*)bad, &width, &height, &channels));
  CHECK(tessera_image_pixels((tessera_image*)bad) == NULL);
  REFUSES(tessera_image_save((tessera_image*)bad, "/nowhere/image.png", 90));
  REFUSES(tessera_image_encode((tessera_image*)bad, TESSERA_PNG, 90, &text));
  tessera_image_release((tessera_image*)bad);

  CHECK(tessera_text_data((tessera_text*)bad) == NULL);
  CHECK(tessera_text_size((tessera_text*)bad) == 0);
  tessera_text_release((tessera_text*)bad);
}

static void bad_everywhere(struct good* g, void* bad) {
  bad_device(g, (tessera_device*)bad);
  bad_buffer(g, (tessera_buffer*)bad);
  bad_command(g, (tessera_command*)bad);
  bad_pipeline(g, (tessera_pipeline*)bad);
  bad_stream(g, (tessera_stream*)bad, bad == NULL);
  bad_other(g, bad);
}

void test_bad_handles_are_refused(void) {
  struct good g = make_good(), gone = make_good();
  const size_t live = tessera_live_handles();
  void** released = (void**)&gone;
  size_t i;
  release_good(&gone);
  CHECK(tessera_live_handles() == live - sizeof gone / sizeof(void*));
  for (i = 0; i < sizeof gone / sizeof(void*); ++i) bad_everywhere(&g, released[i]);
  bad_everywhere(&g, NULL);
  bad_everywhere(&g, &g); /* an address */
  bad_everywhere(&g, (void*)(uintptr_t)1);
  bad_everywhere(&g, (void*)UINTPTR_MAX);
  bad_everywhere(&g, (void*)((uintptr_t)g.device + 1000000));              /* no slot yet */
  bad_everywhere(&g, (void*)((uintptr_t)g.device ^ ((uintptr_t)1 << 40))); /* another generation */

  /* Handles of another kind stay as they are. */
  bad_device(&g, (tessera_device*)g.buffer);
  bad_buffer(&g, (tessera_buffer*)g.device);
  bad_command(&g, (tessera_command*)g.buffer);
  bad_pipeline(&g, (tessera_pipeline*)g.stream);
  bad_stream(&g, (tessera_stream*)g.pipeline, 0);
  bad_other(&g, g.command);
  FAILS(TESSERA_INVALID_ARGUMENT, "device is a buffer, not a device",
        tessera_device_synchronize((tessera_device*)g.buffer));
  FAILS(TESSERA_INVALID_ARGUMENT, "device is NULL", tessera_device_synchronize(NULL));

  CHECK(tessera_live_handles() == live - sizeof gone / sizeof(void*));
  tessera_mapping_release(g.mapping);
  OK(tessera_command_wait(g.command)); /* nothing of this has disturbed it */
  release_good(&g);
  CHECK(strstr(tessera_last_error(), "[tessera_mapping_release] the argument is a released handle") != NULL);
}

static void null_results(struct good* g) {
  const float value = 0;
  float memory[4] = {0};
  int64_t width, height, extents[TESSERA_MAX_RANK];
  REFUSES(tessera_dtype_from_name("f32", NULL));
  REFUSES(tessera_device_count(NULL));
  REFUSES(tessera_device_list(0, NULL));
  REFUSES(tessera_device_best(NULL));
  REFUSES(tessera_device_open("cpu", NULL));
  REFUSES(tessera_device_simulated(NULL, NULL));
  REFUSES(tessera_device_get_info(g->device, NULL));
  REFUSES(tessera_device_memory(g->device, NULL));
  REFUSES(tessera_device_power_level(g->device, NULL));
  REFUSES(tessera_device_kernels(g->device, NULL));
  REFUSES(tessera_kernels_get(g->kernels, 0, NULL));
  REFUSES(tessera_buffer_from_host(g->device, &value, sizeof value, NULL, 0, TESSERA_F32, NULL));
  REFUSES(tessera_buffer_zeros(g->device, &shape, 1, TESSERA_F32, NULL));
  REFUSES(tessera_buffer_empty(g->device, &shape, 1, TESSERA_F32, NULL));
  REFUSES(tessera_buffer_wrap(g->device, memory, sizeof memory, &shape, 1, TESSERA_F32, never_released, NULL, NULL));
  REFUSES(tessera_buffer_from_image(g->device, g->image, NULL));
  REFUSES(tessera_buffer_reshape(g->buffer, &shape, 1, NULL));
  REFUSES(tessera_buffer_is_freed(g->buffer, NULL));
  REFUSES(tessera_buffer_shape(g->buffer, extents, NULL));
  REFUSES(tessera_buffer_dtype(g->buffer, NULL));
  REFUSES(tessera_buffer_size(g->buffer, NULL));
  REFUSES(tessera_buffer_device(g->buffer, NULL));
  REFUSES(tessera_buffer_map(g->buffer, NULL));
  REFUSES(tessera_buffer_map_read(g->buffer, NULL));
  REFUSES(tessera_buffer_copy(g->buffer, g->buffer, NULL));
  REFUSES(tessera_buffer_copy_to_device(g->buffer, g->device, NULL));
  REFUSES(tessera_submit(g->device, "sqrt", &g->buffer, 1, g->buffer, NULL, NULL));
  REFUSES(tessera_command_id(g->command, NULL));
  REFUSES(tessera_command_poll(g->command, NULL));
  REFUSES(tessera_wait_any(&g->command, 1, NULL));
  REFUSES(tessera_poll(g->device, 1, NULL));
  REFUSES(tessera_events_create(NULL));
  REFUSES(tessera_events_next(g->events, NULL));
  REFUSES(tessera_stream_create(g->device, NULL, NULL));
  REFUSES(tessera_stream_submit(g->stream, "sqrt", &g->buffer, 1, g->buffer, NULL, NULL));
  REFUSES(tessera_stream_device(g->stream, NULL));
  REFUSES(tessera_stream_in_flight(g->stream, NULL));
  REFUSES(tessera_pipeline_create(g->device, NULL, NULL));
  REFUSES(tessera_pipeline_clone(g->pipeline, NULL));
  REFUSES(tessera_pipeline_device(g->pipeline, NULL));
  REFUSES(tessera_pipeline_temporary(g->pipeline, &shape, 1, TESSERA_F32, NULL));
  REFUSES(tessera_pipeline_slot(g->pipeline, "slot", &shape, 1, TESSERA_F32, NULL));
  REFUSES(tessera_pipeline_stage_count(g->pipeline, NULL));
  REFUSES(tessera_pipeline_submit(g->pipeline, NULL, 0, NULL, NULL));
  REFUSES(tessera_submit_command(g->device, "name", NULL, 0, NULL));
  REFUSES(tessera_pipeline_explain(g->pipeline, NULL));
  REFUSES(tessera_pipeline_to_dot(g->pipeline, NULL));
  REFUSES(tessera_pipeline_warnings(g->pipeline, NULL));
  REFUSES(tessera_pipeline_to_json(g->pipeline, NULL));
  REFUSES(tessera_pipeline_from_json(g->device, "{}", NULL));
  REFUSES(tessera_pipeline_last_run(g->pipeline, NULL));
  REFUSES(tessera_image_load("image.png", NULL, NULL));
  REFUSES(tessera_image_decode("", 0, NULL, NULL));
  REFUSES(tessera_image_from_pixels("", 1, 1, 1, 1, NULL));
  REFUSES(tessera_image_from_buffer(g->buffer, NULL));
  REFUSES(tessera_image_size(g->image, &width, &height, NULL));
  REFUSES(tessera_image_encode(g->image, TESSERA_PNG, 90, NULL));
}

static void null_arrays(struct good* g) {
  size_t size;
  tessera_dtype dtype;
  tessera_device* device;
  tessera_buffer* buffer;
  tessera_command* command;
  tessera_pipeline* pipeline;
  tessera_image* image;
  REFUSES(tessera_dtype_from_name(NULL, &dtype));
  REFUSES(tessera_device_open(NULL, &device));
  REFUSES(tessera_buffer_from_host(g->device, NULL, 16, &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_buffer_zeros(g->device, NULL, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_buffers_free(NULL, 1));
  REFUSES(tessera_buffer_shape(g->buffer, NULL, &size));
  REFUSES(tessera_buffer_read(g->buffer, NULL, 16));
  REFUSES(tessera_buffer_write(g->buffer, NULL, 16));
  REFUSES(tessera_buffer_write_at(g->buffer, 0, NULL, 16));
  REFUSES(tessera_define_kernel(NULL, NULL, 0, "1", NULL));
  REFUSES(tessera_define_kernel("c_name", NULL, 1, "1", NULL));
  REFUSES(tessera_define_kernel("c_name", NULL, 0, NULL, NULL));
  REFUSES(tessera_run(g->device, NULL, &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_run(g->device, "sqrt", NULL, 1, g->buffer, NULL));
  REFUSES(tessera_submit(g->device, NULL, &g->buffer, 1, g->buffer, NULL, &command));
  REFUSES(tessera_submit(g->device, "sqrt", NULL, 1, g->buffer, NULL, &command));
  REFUSES(tessera_command_on_complete(g->command, NULL, NULL));
  REFUSES(tessera_wait_all(NULL, 1));
  REFUSES(tessera_wait_any(NULL, 1, &size));
  REFUSES(tessera_stream_run(g->stream, NULL, &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_stream_submit(g->stream, NULL, &g->buffer, 1, g->buffer, NULL, &command));
  REFUSES(tessera_pipeline_add(g->pipeline, NULL, &g->buffer, 1, g->buffer, NULL));
  REFUSES(tessera_pipeline_fill(g->pipeline, g->buffer, NULL));
  REFUSES(tessera_pipeline_call(g->pipeline, NULL, never_called, NULL, NULL, NULL, 0, NULL, 0));
  REFUSES(tessera_pipeline_call(g->pipeline, "call", NULL, NULL, NULL, NULL, 0, NULL, 0));
  REFUSES(tessera_pipeline_slot(g->pipeline, NULL, &shape, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_pipeline_temporary(g->pipeline, NULL, 1, TESSERA_F32, &buffer));
  REFUSES(tessera_pipeline_param(g->pipeline, NULL, "1"));
  REFUSES(tessera_pipeline_param(g->pipeline, "param", NULL));
  REFUSES(tessera_pipeline_run(g->pipeline, NULL, 1, NULL));
  REFUSES(tessera_define_command(g->device, NULL, g->pipeline));
  REFUSES(tessera_run_command(g->device, NULL, NULL, 0));
  REFUSES(tessera_submit_command(g->device, NULL, NULL, 0, &command));
  REFUSES(tessera_pipeline_from_json(g->device, NULL, &pipeline));
  REFUSES(tessera_image_load(NULL, NULL, &image));
  REFUSES(tessera_image_decode(NULL, 1, NULL, &image));
  REFUSES(tessera_image_from_pixels(NULL, 1, 1, 1, 1, &image));
  REFUSES(tessera_image_save(g->image, NULL, 90));
  REFUSES(tessera_trace_start(NULL));
}

void test_null_results_and_arrays_are_refused(void) {
  struct good g = make_good();
  null_results(&g);
  null_arrays(&g);
  release_good(&g);
  tessera_device_release(NULL);
  tessera_buffer_release(NULL);
}

void test_numbers_out_of_range_are_refused(void) {
  const int numbers[] = {-1, 6, 77, INT32_MAX, INT32_MIN};
  const uint8_t file[4] = {0};
  const char* name = "x";
  const tessera_binding binding = {"slot", NULL, "1"};
  struct good g = make_good();
  tessera_stream* stream;
  tessera_buffer* buffer;
  tessera_device* device;
  tessera_image* image;
  tessera_text* text;
  size_t i;
  for (i = 0; i < COUNT(numbers); ++i) {
    const int n = numbers[i];
    tessera_stream_options of_stream = TESSERA_STREAM_OPTIONS;
    tessera_load_image_options of_image = TESSERA_LOAD_IMAGE_OPTIONS;
    tessera_simulation_options of_simulation = TESSERA_SIMULATION_OPTIONS;
    tessera_fault fault = {1, TESSERA_FAULT_FAIL, 0};
    CHECK(n == 6 || strcmp(tessera_code_name((tessera_code)n), "unknown") == 0);
    CHECK(tessera_dtype_name((tessera_dtype)n) == NULL && tessera_dtype_size((tessera_dtype)n) == 0);
    CHECK(tessera_status_name((tessera_status)n) == NULL);
    FAILS(TESSERA_UNSUPPORTED, "compiled for", tessera_check_version(n, 0));
    REFUSES(tessera_buffer_zeros(g.device, &shape, 1, (tessera_dtype)n, &buffer));
    REFUSES(tessera_buffer_empty(g.device, &shape, 1, (tessera_dtype)n, &buffer));
    REFUSES(tessera_pipeline_temporary(g.pipeline, &shape, 1, (tessera_dtype)n, &buffer));
    REFUSES(tessera_pipeline_slot(g.pipeline, "slot", &shape, 1, (tessera_dtype)n, &buffer));
    REFUSES(tessera_device_set_power_level(g.device, (tessera_power_level)n));
    REFUSES(tessera_image_encode(g.image, (tessera_image_format)n, 90, &text));
    of_stream.priority = (tessera_priority)n;
    REFUSES(tessera_stream_create(g.device, &of_stream, &stream));
    of_stream.priority = TESSERA_PRIORITY_LOW;
    of_stream.when_full = (tessera_when_full)n;
    REFUSES(tessera_stream_create(g.device, &of_stream, &stream));
    of_image.channels = (tessera_channels)n;
    REFUSES(tessera_image_decode(file, sizeof file, &of_image, &image));
    fault.kind = (tessera_fault_kind)n;
    of_simulation.faults = &fault;
    of_simulation.fault_count = 1;
    FAILS(TESSERA_INVALID_ARGUMENT, "faults[0].kind", tessera_device_simulated(&of_simulation, &device));
  }

  /* Counts gone wrong. */
  REFUSES(tessera_run(g.device, "sqrt", &g.buffer, SIZE_MAX, g.buffer, NULL));
  REFUSES(tessera_buffers_free(&g.buffer, SIZE_MAX));
  REFUSES(tessera_wait_all(&g.command, SIZE_MAX));
  REFUSES(tessera_wait_any(&g.command, SIZE_MAX / 2, &i));
  REFUSES(tessera_define_kernel("c_name", &name, SIZE_MAX, "1", NULL));
  REFUSES(tessera_pipeline_run(g.pipeline, &binding, SIZE_MAX, NULL));
  release_good(&g);
}
