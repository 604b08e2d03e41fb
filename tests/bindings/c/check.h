/* What the tests of the C interface share: C11 that is C++ as well. */
#ifndef TESSERA_TESTS_BINDINGS_C_CHECK_H
#define TESSERA_TESTS_BINDINGS_C_CHECK_H

#include <tessera/tessera.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Every test, in the order in which they run. */
#define TESTS(test)                                                                                                    \
  test(codes_have_names) test(last_error_belongs_to_its_thread) test(last_error_has_the_chain_of_causes)               \
      test(version_is_checked) test(options_of_other_versions) test(infos_of_other_versions)                           \
          test(devices_are_listed_and_opened) test(memory_and_power_of_a_device) test(simulated_devices_inject_faults) \
              test(buffers_are_made_and_read) test(buffers_are_mapped) test(callers_memory_is_released_once)           \
                  test(buffers_are_freed) test(buffers_are_copied) test(kernels_are_listed) test(kernels_are_defined)  \
                      test(wrong_calls_fail) test(commands_are_polled_and_waited_for) test(commands_are_cancelled)     \
                          test(commands_by_number) test(callbacks_call_back_in) test(callbacks_of_released_commands)   \
                              test(waits_outlast_callbacks) test(event_queues_wake_a_loop)                             \
                                  test(event_queues_are_released_early) test(streams_have_limits) test(pipelines_run)  \
                                      test(pipelines_call_functions) test(pipelines_are_saved)                         \
                                          test(pipelines_have_names) test(pipelines_name_what_is_wrong)                \
                                              test(images_are_saved_and_loaded) test(traces_are_written)               \
                                                  test(bad_handles_are_refused)                                        \
                                                      test(null_results_and_arrays_are_refused)                        \
                                                          test(numbers_out_of_range_are_refused)                       \
                                                              test(handles_are_released_while_in_use)                  \
                                                                  test(one_of_many_threads_releases)                   \
                                                                      test(many_threads_make_and_use_handles)

#define DECLARE(name) void test_##name(void);
#ifdef __cplusplus
extern "C" {
#endif
TESTS(DECLARE)

/* A failed check is printed and counted; the test goes on. */
void check_failed(const char* file, int line, const char* what, const char* why);
void check_code(const char* file, int line, const char* call, tessera_code code, tessera_code expected,
                const char* text);
#ifdef __cplusplus
}
#endif

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, "is false"))
#define OK(call) check_code(__FILE__, __LINE__, #call, call, TESSERA_OK, "")
/* It returns this code, and the message has this text. */
#define FAILS(code, text, call) check_code(__FILE__, __LINE__, #call, call, code, text)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline tessera_device* best_device(void) {
  tessera_device* device = NULL;
  OK(tessera_device_best(&device));
  return device;
}

/* Its commands run only inside of calls that wait. */
static inline tessera_device* patient_device(void) {
  tessera_simulation_options options = TESSERA_SIMULATION_OPTIONS;
  tessera_device* device = NULL;
  options.workers = 0;
  OK(tessera_device_simulated(&options, &device));
  return device;
}

static inline tessera_buffer* floats(tessera_device* device, const float* values, int64_t count) {
  tessera_buffer* buffer = NULL;
  OK(tessera_buffer_from_host(device, values, (size_t)count * sizeof(float), &count, 1, TESSERA_F32, &buffer));
  return buffer;
}

static inline tessera_buffer* zeros(tessera_device* device, int64_t count) {
  tessera_buffer* buffer = NULL;
  OK(tessera_buffer_zeros(device, &count, 1, TESSERA_F32, &buffer));
  return buffer;
}

/* The first element of a buffer of `count` floats; -1 if it cannot be read. */
static inline float first_of(tessera_buffer* buffer, size_t count) {
  float values[64] = {-1};
  CHECK(count <= COUNT(values));
  OK(tessera_buffer_read(buffer, values, count * sizeof(float)));
  return values[0];
}

#endif
