/* Codes, messages, versions, and structures of other versions. */
#include "check.h"

#include <pthread.h>

void test_codes_have_names(void) {
  tessera_dtype dtype = TESSERA_F32;
  CHECK(strcmp(tessera_code_name(TESSERA_OK), "ok") == 0);
  CHECK(strcmp(tessera_code_name(TESSERA_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(tessera_code_name(TESSERA_CANCELLED_ERROR), "cancelled") == 0);
  CHECK(strcmp(tessera_code_name(TESSERA_STREAM_FULL), "stream_full") == 0);
  CHECK(strcmp(tessera_code_name(TESSERA_INTERNAL), "internal") == 0);
  CHECK(strcmp(tessera_code_name(TESSERA_TIMED_OUT), "timed_out") == 0);
  CHECK(strcmp(tessera_code_name((tessera_code)999), "unknown") == 0);
  CHECK(strcmp(tessera_code_name((tessera_code)-1), "unknown") == 0);

  CHECK(strcmp(tessera_dtype_name(TESSERA_U8), "u8") == 0);
  CHECK(tessera_dtype_name((tessera_dtype)6) == NULL);
  CHECK(tessera_dtype_size(TESSERA_S64) == 8);
  CHECK(tessera_dtype_size((tessera_dtype)-1) == 0);
  OK(tessera_dtype_from_name("float64", &dtype));
  CHECK(dtype == TESSERA_F64);
  FAILS(TESSERA_INVALID_ARGUMENT, "f65", tessera_dtype_from_name("f65", &dtype));

  CHECK(strcmp(tessera_status_name(TESSERA_PENDING), "pending") == 0);
  CHECK(strcmp(tessera_status_name(TESSERA_CANCELLED), "cancelled") == 0);
  CHECK(tessera_status_name((tessera_status)5) == NULL);
}

static void* fail_elsewhere(void* unused) {
  tessera_dtype dtype = TESSERA_F32;
  (void)unused;
  CHECK(strcmp(tessera_last_error(), "") == 0);
  FAILS(TESSERA_INVALID_ARGUMENT, "elsewhere", tessera_dtype_from_name("elsewhere", &dtype));
  return NULL;
}

void test_last_error_belongs_to_its_thread(void) {
  tessera_dtype dtype = TESSERA_F32;
  pthread_t thread;
  FAILS(TESSERA_INVALID_ARGUMENT, "here", tessera_dtype_from_name("here", &dtype));
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strstr(tessera_last_error(), "here") != NULL);
  OK(tessera_dtype_from_name("u8", &dtype));
  CHECK(strstr(tessera_last_error(), "here") != NULL); /* success leaves it */
}

void test_last_error_has_the_chain_of_causes(void) {
  const tessera_fault fault = {1, TESSERA_FAULT_FAIL, 0};
  tessera_simulation_options options = TESSERA_SIMULATION_OPTIONS;
  tessera_device* device = NULL;
  tessera_buffer *a, *b, *c;
  tessera_command *first = NULL, *second = NULL;
  float value;
  options.faults = &fault;
  options.fault_count = 1;
  OK(tessera_device_simulated(&options, &device));
  a = zeros(device, 4);
  b = zeros(device, 4);
  c = zeros(device, 4);
  OK(tessera_submit(device, "relu", &a, 1, b, NULL, &first));
  OK(tessera_submit(device, "scale", &b, 1, c, "{\"factor\": 2}", &second));
  FAILS(TESSERA_DEVICE_FAILURE, "[relu]", tessera_command_wait(second));
  CHECK(strstr(tessera_last_error(), "[scale]") != NULL);
  CHECK(strstr(tessera_last_error(), "caused by") != NULL);
  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_read(a, &value, sizeof value));
  FAILS(TESSERA_DEVICE_FAILURE, "[relu]", tessera_command_error(first));
  tessera_command_release(first);
  tessera_command_release(second);
  tessera_buffer_release(a);
  tessera_buffer_release(b);
  tessera_buffer_release(c);
  tessera_device_release(device);
}

void test_version_is_checked(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
  CHECK(strcmp(tessera_version(), version) == 0);
  OK(tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR));
  FAILS(TESSERA_UNSUPPORTED, version, tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR + 1));
  FAILS(TESSERA_UNSUPPORTED, "7.0", tessera_check_version(7, 0));
}

/* As a later version of the library might have it. */
struct larger_options {
  tessera_stream_options known;
  uint64_t unknown;
};

/* How many of two commands, which both wait for a mapping, a stream with these options takes. */
static int accepted(tessera_device* device, const tessera_stream_options* options) {
  tessera_buffer* buffer = zeros(device, 4);
  tessera_mapping* mapping = NULL;
  tessera_stream* stream = NULL;
  tessera_command* commands[2] = {NULL, NULL};
  int i, count = 0;
  OK(tessera_buffer_map(buffer, &mapping));
  OK(tessera_stream_create(device, options, &stream));
  for (i = 0; i < 2; ++i) {
    tessera_status status = TESSERA_PENDING;
    OK(tessera_stream_submit(stream, "relu", &buffer, 1, buffer, NULL, &commands[i]));
    OK(tessera_command_poll(commands[i], &status));
    if (status == TESSERA_PENDING) ++count;
  }
  tessera_mapping_release(mapping);
  OK(tessera_stream_synchronize(stream));
  tessera_command_release(commands[0]);
  tessera_command_release(commands[1]);
  tessera_stream_release(stream);
  tessera_buffer_release(buffer);
  return count;
}

void test_options_of_other_versions(void) {
  tessera_device* device = patient_device();
  tessera_stream_options options = TESSERA_STREAM_OPTIONS;
  struct larger_options larger = {TESSERA_STREAM_OPTIONS, 0};
  tessera_stream* stream = NULL;
  options.when_full = TESSERA_WHEN_FULL_REJECT;
  options.max_in_flight = 1;
  CHECK(accepted(device, NULL) == 2);
  CHECK(accepted(device, &options) == 1);

  /* An older program does not know the limit. */
  options.struct_size = offsetof(tessera_stream_options, max_in_flight);
  CHECK(accepted(device, &options) == 2);
  options.struct_size = sizeof options.struct_size;
  CHECK(accepted(device, &options) == 2);

  /* A newer one has more members, and says so if it uses them. */
  larger.known.struct_size = sizeof larger;
  larger.known.when_full = TESSERA_WHEN_FULL_REJECT;
  larger.known.max_in_flight = 1;
  CHECK(accepted(device, &larger.known) == 1);
  larger.unknown = 1;
  FAILS(TESSERA_INVALID_ARGUMENT, "does not know", tessera_stream_create(device, &larger.known, &stream));
  CHECK(stream == NULL);

  options.struct_size = 0;
  FAILS(TESSERA_INVALID_ARGUMENT, "struct_size is 0", tessera_stream_create(device, &options, &stream));
  options.struct_size = SIZE_MAX;
  FAILS(TESSERA_INVALID_ARGUMENT, "struct_size", tessera_stream_create(device, &options, &stream));
  tessera_device_release(device);
}

void test_infos_of_other_versions(void) {
  struct {
    tessera_memory_info known;
    uint64_t unknown[2];
  } larger;
  tessera_device* device = best_device();
  tessera_memory_info info;
  memset(&larger, 0xFF, sizeof larger);
  larger.known.struct_size = sizeof larger;
  OK(tessera_device_memory(device, &larger.known));
  CHECK(larger.known.struct_size == sizeof larger);
  CHECK(larger.known.limit > 0 && larger.known.limit != UINT64_MAX);
  CHECK(larger.unknown[0] == 0 && larger.unknown[1] == 0);

  memset(&info, 0xFF, sizeof info);
  info.struct_size = offsetof(tessera_memory_info, limit);
  OK(tessera_device_memory(device, &info));
  CHECK(info.peak != UINT64_MAX);
  CHECK(info.limit == UINT64_MAX); /* not written: the program does not know it */
  info.struct_size = 0;
  FAILS(TESSERA_INVALID_ARGUMENT, "struct_size is 0", tessera_device_memory(device, &info));
  info.struct_size = 1 << 20;
  FAILS(TESSERA_INVALID_ARGUMENT, "struct_size", tessera_device_memory(device, &info));
  tessera_device_release(device);
}
