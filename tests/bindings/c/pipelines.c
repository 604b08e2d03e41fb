/* Pipelines, named commands, images and traces. */
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

static const int64_t four = 4;

static tessera_pipeline* pipeline_on(tessera_device* device) {
  tessera_pipeline* pipeline = NULL;
  OK(tessera_pipeline_create(device, NULL, &pipeline));
  return pipeline;
}

/* frame (a slot) -> relu -> temporary -> scale by the parameter "factor" -> out */
static tessera_pipeline* scaling(tessera_device* device, tessera_buffer* out) {
  tessera_pipeline* pipeline = pipeline_on(device);
  tessera_buffer *frame = NULL, *middle = NULL;
  OK(tessera_pipeline_slot(pipeline, "frame", &four, 1, TESSERA_F32, &frame));
  OK(tessera_pipeline_temporary(pipeline, &four, 1, TESSERA_F32, &middle));
  OK(tessera_pipeline_param(pipeline, "factor", "10"));
  OK(tessera_pipeline_add(pipeline, "relu", &frame, 1, middle, "{\"slope\": 0.5}"));
  OK(tessera_pipeline_add(pipeline, "scale", &middle, 1, out, "{\"factor\": {\"param\": \"factor\"}}"));
  tessera_buffer_release(frame);
  tessera_buffer_release(middle);
  return pipeline;
}

/* Whether one of the texts about a pipeline has this part. */
static int has(tessera_code (*text_of)(tessera_pipeline*, tessera_text**), tessera_pipeline* pipeline,
               const char* part) {
  tessera_text* text = NULL;
  int found;
  OK(text_of(pipeline, &text));
  if (!text) return 0;
  found = strstr(tessera_text_data(text), part) && strlen(tessera_text_data(text)) == tessera_text_size(text);
  if (!found) fprintf(stderr, "%s\n", tessera_text_data(text));
  tessera_text_release(text);
  return found;
}

void test_pipelines_run(void) {
  const float values[] = {-2, 1, 2, 3};
  tessera_device *device = best_device(), *same = NULL;
  tessera_buffer *in = floats(device, values, 4), *out = zeros(device, 4);
  tessera_pipeline *pipeline = scaling(device, out), *clone = NULL;
  tessera_stream* stream = NULL;
  tessera_command* command = NULL;
  tessera_binding bindings[] = {{"frame", in, NULL}, {"factor", NULL, "100"}};
  tessera_pipeline_options options = TESSERA_PIPELINE_OPTIONS;
  size_t stages = 0;
  OK(tessera_pipeline_stage_count(pipeline, &stages));
  CHECK(stages == 2);
  OK(tessera_pipeline_device(pipeline, &same));
  tessera_device_release(same);
  OK(tessera_pipeline_compile(pipeline));
  OK(tessera_pipeline_run(pipeline, bindings, 1, NULL));
  CHECK(first_of(out, 4) == -10);
  OK(tessera_pipeline_submit(pipeline, bindings, 2, NULL, &command));
  tessera_pipeline_release(pipeline); /* runs in flight finish */
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  CHECK(first_of(out, 4) == -100);

  pipeline = scaling(device, out);
  OK(tessera_stream_create(device, NULL, &stream));
  OK(tessera_pipeline_clone(pipeline, &clone));
  OK(tessera_pipeline_run(clone, bindings, 1, stream));
  OK(tessera_pipeline_submit(clone, bindings, 2, stream, &command));
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  CHECK(first_of(out, 4) == -100);
  CHECK(has(tessera_pipeline_last_run, clone, "\"label\":\"relu\""));
  CHECK(has(tessera_pipeline_explain, clone, "relu"));
  CHECK(has(tessera_pipeline_to_dot, clone, "digraph"));
  CHECK(has(tessera_pipeline_warnings, clone, ""));
  tessera_pipeline_release(clone);
  tessera_pipeline_release(pipeline);

  /* The other kinds of stages, and a warning: fill's result is overwritten. */
  options.fuse = 0;
  OK(tessera_pipeline_create(device, &options, &pipeline));
  OK(tessera_pipeline_fill(pipeline, out, "3"));
  OK(tessera_pipeline_barrier(pipeline));
  OK(tessera_pipeline_copy(pipeline, in, out));
  OK(tessera_pipeline_run(pipeline, NULL, 0, NULL));
  CHECK(first_of(out, 4) == -2);
  CHECK(has(tessera_pipeline_warnings, pipeline, "\n"));
  tessera_pipeline_release(pipeline);
  tessera_stream_release(stream);
  tessera_buffer_release(in);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

struct counter {
  tessera_pipeline* pipeline; /* its own, to call back in */
  int calls, destroyed, result;
};

static int negate(const tessera_host_call* call, void* user) {
  struct counter* counter = (struct counter*)user;
  const float* in = (const float*)call->inputs[0];
  float* out = (float*)call->outputs[0];
  size_t i, stages = 0;
  CHECK(call->input_count == 1 && call->output_count == 1);
  CHECK(call->input_bytes[0] == 16 && call->output_bytes[0] == 16);
  for (i = 0; i < 4; ++i) out[i] = -in[i];
  OK(tessera_pipeline_stage_count(counter->pipeline, &stages));
  CHECK(stages == 1);
  ++counter->calls;
  return counter->result;
}

static void destroyed(void* user) {
  ++((struct counter*)user)->destroyed;
  CHECK(tessera_last_error() != NULL);
}

void test_pipelines_call_functions(void) {
  const float values[] = {-2, 1, 2, 3};
  tessera_device* device = best_device();
  tessera_buffer *in = floats(device, values, 4), *out = zeros(device, 4);
  tessera_pipeline* pipeline = pipeline_on(device);
  struct counter counter = {NULL, 0, 0, 0}, refused = {NULL, 0, 0, 0};
  counter.pipeline = pipeline;
  OK(tessera_pipeline_call(pipeline, "negate", negate, &counter, destroyed, &in, 1, &out, 1));
  OK(tessera_pipeline_run(pipeline, NULL, 0, NULL));
  CHECK(counter.calls == 1 && first_of(out, 4) == 2);
  counter.result = 42;
  FAILS(TESSERA_CALL_FAILED, "42", tessera_pipeline_run(pipeline, NULL, 0, NULL));
  CHECK(strstr(tessera_last_error(), "negate") != NULL);
  CHECK(counter.destroyed == 0);

  FAILS(TESSERA_INVALID_ARGUMENT, "function is NULL",
        tessera_pipeline_call(pipeline, "none", NULL, &refused, destroyed, &in, 1, &out, 1));
  CHECK(refused.destroyed == 1);
  FAILS(TESSERA_INVALID_ARGUMENT, "pipeline is NULL",
        tessera_pipeline_call(NULL, "none", negate, &refused, destroyed, &in, 1, &out, 1));
  CHECK(refused.destroyed == 2);
  FAILS(TESSERA_INVALID_ARGUMENT, "writes[0]",
        tessera_pipeline_call(pipeline, "none", negate, &refused, NULL, &in, 1, (tessera_buffer**)&pipeline, 1));
  CHECK(refused.calls == 0);
  tessera_pipeline_release(pipeline);
  OK(tessera_device_synchronize(device));
  CHECK(counter.destroyed == 1);
  tessera_buffer_release(in);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_pipelines_are_saved(void) {
  const float values[] = {-2, 1, 2, 3};
  tessera_device* device = best_device();
  tessera_buffer *in = floats(device, values, 4), *out = zeros(device, 4);
  tessera_pipeline *pipeline = scaling(device, out), *loaded = NULL;
  tessera_text* json = NULL;
  tessera_binding bindings[] = {{"frame", in, NULL}, {"buffer 0", out, NULL}};
  OK(tessera_pipeline_to_json(pipeline, &json));
  OK(tessera_pipeline_from_json(device, tessera_text_data(json), &loaded));
  OK(tessera_pipeline_run(loaded, bindings, 2, NULL));
  CHECK(first_of(out, 4) == -10);
  tessera_pipeline_release(loaded);
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_pipeline_from_json(device, "{\"tessera\": 3}", &loaded));
  CHECK(loaded == NULL);
  tessera_text_release(json);
  tessera_pipeline_release(pipeline);
  tessera_buffer_release(in);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_pipelines_have_names(void) {
  const float values[] = {-2, 1, 2, 3};
  tessera_device* device = patient_device();
  tessera_buffer *in = floats(device, values, 4), *out = zeros(device, 4);
  tessera_pipeline* pipeline = scaling(device, out);
  tessera_command* command = NULL;
  tessera_binding bindings[] = {{"frame", in, NULL}, {"factor", NULL, "1"}};
  OK(tessera_define_command(device, "preview", pipeline));
  tessera_pipeline_release(pipeline);
  OK(tessera_run_command(device, "preview", bindings, 1));
  CHECK(first_of(out, 4) == -10);
  OK(tessera_submit_command(device, "preview", bindings, 2, &command));
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  CHECK(first_of(out, 4) == -1);
  FAILS(TESSERA_UNKNOWN_COMMAND, "previou", tessera_run_command(device, "previou", NULL, 0));
  OK(tessera_submit_command(device, "previou", NULL, 0, &command));
  FAILS(TESSERA_UNKNOWN_COMMAND, "previou", tessera_command_wait(command));
  tessera_command_release(command);
  tessera_buffer_release(in);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_pipelines_name_what_is_wrong(void) {
  tessera_device* device = best_device();
  tessera_buffer *out = zeros(device, 4), *slot = NULL;
  tessera_pipeline* pipeline = scaling(device, out);
  tessera_command* command = NULL;
  tessera_binding unnamed = {NULL, out, NULL}, empty = {"frame", NULL, NULL}, both = {"frame", out, "1"},
                  not_json = {"factor", NULL, "{"}, unknown = {"picture", out, NULL},
                  wrong_kind = {"frame", (tessera_buffer*)device, NULL};
  FAILS(TESSERA_INVALID_ARGUMENT, "bindings[0].name is NULL", tessera_pipeline_run(pipeline, &unnamed, 1, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "neither", tessera_pipeline_run(pipeline, &empty, 1, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "both", tessera_pipeline_run(pipeline, &both, 1, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "bindings[0].value", tessera_pipeline_run(pipeline, &not_json, 1, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "bindings[0].buffer is a device",
        tessera_pipeline_run(pipeline, &wrong_kind, 1, NULL));
  FAILS(TESSERA_UNKNOWN_PARAMETER, "picture", tessera_pipeline_run(pipeline, &unknown, 1, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "frame", tessera_pipeline_run(pipeline, NULL, 0, NULL));
  FAILS(TESSERA_INVALID_ARGUMENT, "bindings is NULL", tessera_pipeline_submit(pipeline, NULL, 1, NULL, &command));
  OK(tessera_pipeline_submit(pipeline, NULL, 0, NULL, &command));
  FAILS(TESSERA_INVALID_ARGUMENT, "frame", tessera_command_wait(command));
  tessera_command_release(command);
  FAILS(TESSERA_INVALID_ARGUMENT, "frame", tessera_pipeline_slot(pipeline, "frame", &four, 1, TESSERA_F32, &slot));
  CHECK(slot == NULL);
  FAILS(TESSERA_INVALID_ARGUMENT, "value", tessera_pipeline_fill(pipeline, out, "three"));
  FAILS(TESSERA_INVALID_ARGUMENT, "default_value", tessera_pipeline_param(pipeline, "p", "{\"p\": 1}"));
  OK(tessera_pipeline_add(pipeline, "relux", &out, 1, out, NULL));
  FAILS(TESSERA_UNKNOWN_KERNEL, "stage 2", tessera_pipeline_compile(pipeline));
  tessera_pipeline_release(pipeline);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_images_are_saved_and_loaded(void) {
  const uint8_t pixels[2 * 3 * 4] = {255, 0, 0, 255, 0, 255, 0, 128, 0, 0, 255, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2};
  char folder[] = "/tmp/tessera_c_XXXXXX", path[64];
  int64_t width = 0, height = 0;
  int32_t channels = 0;
  tessera_device* device = best_device();
  tessera_image *image = NULL, *again = NULL;
  tessera_buffer* buffer = NULL;
  tessera_text* file = NULL;
  tessera_load_image_options options = TESSERA_LOAD_IMAGE_OPTIONS;
  OK(tessera_image_from_pixels(pixels, sizeof pixels, 3, 2, 4, &image));
  OK(tessera_image_size(image, &width, &height, &channels));
  CHECK(width == 3 && height == 2 && channels == 4);
  CHECK(memcmp(tessera_image_pixels(image), pixels, sizeof pixels) == 0);
  OK(tessera_buffer_from_image(device, image, &buffer));
  OK(tessera_image_from_buffer(buffer, &again));
  CHECK(memcmp(tessera_image_pixels(again), pixels, sizeof pixels) == 0);
  tessera_image_release(again);
  tessera_buffer_release(buffer);

  OK(tessera_image_encode(image, TESSERA_PNG, 90, &file));
  OK(tessera_image_decode(tessera_text_data(file), tessera_text_size(file), NULL, &again));
  CHECK(memcmp(tessera_image_pixels(again), pixels, sizeof pixels) == 0);
  tessera_image_release(again);
  options.channels = TESSERA_CHANNELS_GRAY;
  OK(tessera_image_decode(tessera_text_data(file), tessera_text_size(file), &options, &again));
  OK(tessera_image_size(again, &width, &height, &channels));
  CHECK(channels == 1);
  tessera_image_release(again);
  options.max_pixels = 5;
  FAILS(TESSERA_IO_ERROR, "", tessera_image_decode(tessera_text_data(file), tessera_text_size(file), &options, &again));
  FAILS(TESSERA_IO_ERROR, "", tessera_image_decode(tessera_text_data(file), tessera_text_size(file) / 2, NULL, &again));
  FAILS(TESSERA_IO_ERROR, "", tessera_image_decode(NULL, 0, NULL, &again));
  CHECK(again == NULL);
  tessera_text_release(file);
  OK(tessera_image_encode(image, TESSERA_JPEG, 75, &file));
  CHECK(memcmp(tessera_text_data(file), "\xFF\xD8", 2) == 0);
  tessera_text_release(file);
  FAILS(TESSERA_INVALID_ARGUMENT, "quality", tessera_image_encode(image, TESSERA_JPEG, 101, &file));

  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/image.png", folder);
  OK(tessera_image_save(image, path, 90));
  OK(tessera_image_load(path, NULL, &again));
  CHECK(memcmp(tessera_image_pixels(again), pixels, sizeof pixels) == 0);
  tessera_image_release(again);
  remove(path);
  FAILS(TESSERA_IO_ERROR, path, tessera_image_load(path, NULL, &again));
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_image_save(image, "picture.bmp", 90));
  rmdir(folder);

  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_image_from_pixels(pixels, 23, 3, 2, 4, &again));
  FAILS(TESSERA_SHAPE_MISMATCH, "", tessera_image_from_pixels(pixels, 12, 3, 2, 2, &again));
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_image_from_pixels(pixels, 24, -3, -2, 4, &again));
  buffer = zeros(device, 4);
  FAILS(TESSERA_DTYPE_MISMATCH, "", tessera_image_from_buffer(buffer, &again));
  CHECK(again == NULL);
  tessera_buffer_release(buffer);
  tessera_image_release(image);
  tessera_device_release(device);
}

void test_traces_are_written(void) {
  char path[] = "/tmp/tessera_c_XXXXXX", text[8192] = "";
  const int file = mkstemp(path);
  tessera_device* device = best_device();
  tessera_buffer* a = zeros(device, 4);
  CHECK(file >= 0 && tessera_trace_is_on() == 0);
  OK(tessera_trace_start(path));
  CHECK(tessera_trace_is_on() == 1);
  OK(tessera_run(device, "relu", &a, 1, a, NULL));
  OK(tessera_trace_stop());
  CHECK(tessera_trace_is_on() == 0);
  OK(tessera_trace_stop());
  CHECK(read(file, text, sizeof text - 1) > 0 && strstr(text, "relu") != NULL);
  close(file);
  remove(path);
  FAILS(TESSERA_IO_ERROR, "/nowhere", tessera_trace_start("/nowhere/trace.json"));
  tessera_buffer_release(a);
  tessera_device_release(device);
}
