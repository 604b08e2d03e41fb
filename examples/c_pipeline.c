// A pipeline from C: a slot and a parameter that each run binds, and a function of the program's own.
// Expect: ^2 stages.1 2 3 4 -> 30.1 2 3 4 -> 300.unknown_kernel: .*did you mean 'scale'
#include <tessera/tessera.h>

#include <stdio.h>
#include <stdlib.h>

static void check(tessera_code code) {
  if (code == TESSERA_OK) return;
  fprintf(stderr, "%s: %s\n", tessera_code_name(code), tessera_last_error());
  exit(1);
}

// A stage: the sum of its input. A result other than 0 would fail it.
static int add_up(const tessera_host_call* call, void* user) {
  const float* values = call->inputs[0];
  float* sum = call->outputs[0];
  (void)user;
  *sum = 0;
  for (size_t i = 0; i < call->input_bytes[0] / sizeof *values; ++i) *sum += values[i];
  return 0;
}

int main(void) {
  const float values[] = {1, 2, 3, 4};
  const int64_t four = 4;
  tessera_device* device = NULL;
  tessera_pipeline* pipeline = NULL;
  tessera_buffer *in = NULL, *frame = NULL, *scaled = NULL, *sum = NULL;
  check(tessera_device_best(&device));
  check(tessera_buffer_from_host(device, values, sizeof values, &four, 1, TESSERA_F32, &in));
  check(tessera_buffer_zeros(device, NULL, 0, TESSERA_F32, &sum));

  check(tessera_pipeline_create(device, NULL, &pipeline));
  check(tessera_pipeline_slot(pipeline, "frame", &four, 1, TESSERA_F32, &frame));
  check(tessera_pipeline_temporary(pipeline, &four, 1, TESSERA_F32, &scaled));
  check(tessera_pipeline_param(pipeline, "factor", "3"));
  check(tessera_pipeline_add(pipeline, "scale", &frame, 1, scaled, "{\"factor\": {\"param\": \"factor\"}}"));
  check(tessera_pipeline_call(pipeline, "add_up", add_up, NULL, NULL, &scaled, 1, &sum, 1));
  size_t stages = 0;
  check(tessera_pipeline_stage_count(pipeline, &stages));
  printf("%zu stages\n", stages);

  const tessera_binding bindings[] = {{.name = "frame", .buffer = in}, {.name = "factor", .value = "30"}};
  for (size_t count = 1; count <= 2; ++count) {  // without the parameter, then with it
    float result = 0;
    tessera_command* command = NULL;
    check(tessera_pipeline_submit(pipeline, bindings, count, NULL, &command));
    check(tessera_command_wait(command));
    tessera_command_release(command);
    check(tessera_buffer_read(sum, &result, sizeof result));
    printf("1 2 3 4 -> %g\n", result);
  }

  // All that is wrong is said before anything runs.
  check(tessera_pipeline_add(pipeline, "scal", &in, 1, in, NULL));
  const tessera_code code = tessera_pipeline_compile(pipeline);
  printf("%s: %s\n", tessera_code_name(code), tessera_last_error());

  tessera_pipeline_release(pipeline);
  tessera_buffer_release(in);
  tessera_buffer_release(frame);
  tessera_buffer_release(scaled);
  tessera_buffer_release(sum);
  tessera_device_release(device);
  return 0;
}
