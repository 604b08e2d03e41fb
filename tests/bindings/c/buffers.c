/* Buffers: making, reading, mapping, wrapping, freeing, copying. */
#include "check.h"

#include <stdlib.h>

void test_buffers_are_made_and_read(void) {
  const int32_t values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3}, flat[] = {6}, wrong[] = {7};
  int64_t extents[TESSERA_MAX_RANK];
  int32_t read[6] = {0};
  size_t rank = 0, bytes = 0;
  double scalar = 2.5;
  tessera_dtype dtype = TESSERA_F32;
  tessera_device *device = best_device(), *same = NULL;
  tessera_buffer *buffer = NULL, *reshaped = NULL, *other = NULL;
  OK(tessera_buffer_from_host(device, values, sizeof values, shape, 2, TESSERA_S32, &buffer));
  OK(tessera_buffer_shape(buffer, extents, &rank));
  CHECK(rank == 2 && extents[0] == 2 && extents[1] == 3);
  OK(tessera_buffer_dtype(buffer, &dtype));
  CHECK(dtype == TESSERA_S32);
  OK(tessera_buffer_size(buffer, &bytes));
  CHECK(bytes == sizeof values);
  OK(tessera_buffer_device(buffer, &same));
  OK(tessera_device_synchronize(same));
  tessera_device_release(same);

  OK(tessera_buffer_reshape(buffer, flat, 1, &reshaped));
  FAILS(TESSERA_SHAPE_MISMATCH, "", tessera_buffer_reshape(buffer, wrong, 1, &other));
  OK(tessera_buffer_write_at(reshaped, 4, &values[0], 2 * sizeof values[0]));
  OK(tessera_buffer_read(buffer, read, sizeof read));
  CHECK(read[0] == 1 && read[3] == 4 && read[4] == 1 && read[5] == 2);
  OK(tessera_buffer_write(buffer, values, sizeof values));
  OK(tessera_buffer_read(reshaped, read, sizeof read));
  CHECK(memcmp(read, values, sizeof values) == 0);
  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_read(buffer, read, sizeof read - 4));
  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_write(buffer, values, 4));
  FAILS(TESSERA_INVALID_ARGUMENT, "bytes is 3", tessera_buffer_write_at(buffer, 0, values, 3));
  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_write_at(buffer, 5, values, 8));
  FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_write_at(buffer, -1, values, 4));

  /* A scalar, and nothing at all. */
  OK(tessera_buffer_from_host(device, &scalar, sizeof scalar, NULL, 0, TESSERA_F64, &other));
  scalar = 0;
  OK(tessera_buffer_read(other, &scalar, sizeof scalar));
  CHECK(scalar == 2.5);
  tessera_buffer_release(other);
  {
    const int64_t none = 0;
    OK(tessera_buffer_from_host(device, NULL, 0, &none, 1, TESSERA_F32, &other));
    OK(tessera_buffer_read(other, NULL, 0));
    OK(tessera_buffer_write(other, NULL, 0));
    tessera_buffer_release(other);
    OK(tessera_buffer_empty(device, &none, 1, TESSERA_U8, &other));
    tessera_buffer_release(other);
  }

  {
    const int64_t negative[] = {-1}, huge[] = {INT64_MAX, INT64_MAX};
    FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_buffer_zeros(device, negative, 1, TESSERA_F32, &other));
    FAILS(TESSERA_OVERFLOW, "", tessera_buffer_zeros(device, huge, 2, TESSERA_F32, &other));
    FAILS(TESSERA_INVALID_ARGUMENT, "rank is 9", tessera_buffer_zeros(device, huge, 9, TESSERA_F32, &other));
    FAILS(TESSERA_COUNT_MISMATCH, "", tessera_buffer_from_host(device, values, 4, shape, 2, TESSERA_S32, &other));
    CHECK(other == NULL);
  }
  tessera_buffer_release(reshaped);
  tessera_buffer_release(buffer);
  tessera_device_release(device);
}

void test_buffers_are_mapped(void) {
  tessera_device* device = best_device();
  tessera_buffer* buffer = zeros(device, 8);
  tessera_mapping *mapping = NULL, *second = NULL;
  tessera_command* command = NULL;
  const float* seen;
  OK(tessera_buffer_map(buffer, &mapping));
  CHECK(tessera_mapping_size(mapping) == 8 * sizeof(float));
  ((float*)tessera_mapping_data(mapping))[0] = -5;
  /* Commands wait for the mapping, and others wait for them. */
  OK(tessera_submit(device, "abs", &buffer, 1, buffer, NULL, &command));
  FAILS(TESSERA_TIMED_OUT, "", tessera_command_wait_for(command, 1000000));
  tessera_buffer_release(buffer); /* the mapping and the command keep the memory */
  tessera_mapping_release(mapping);
  OK(tessera_command_wait(command));
  tessera_command_release(command);

  buffer = zeros(device, 8);
  OK(tessera_buffer_map_read(buffer, &mapping));
  OK(tessera_buffer_map_read(buffer, &second));
  seen = (const float*)tessera_mapping_data(second);
  CHECK(seen && seen[7] == 0);
  CHECK(first_of(buffer, 8) == 0); /* readers do not wait */
  tessera_mapping_release(second);
  tessera_mapping_release(mapping);
  tessera_buffer_release(buffer);
  tessera_device_release(device);
}

struct owner {
  tessera_device* device; /* or NULL */
  int calls;
  void* data;
};

static void give_back(void* data, void* user) {
  struct owner* owner = (struct owner*)user;
  owner->data = data;
  if (owner->device) {
    tessera_buffer_release(zeros(owner->device, 4)); /* it may call back in */
    tessera_device_release(owner->device);
  }
  __atomic_fetch_add(&owner->calls, 1, __ATOMIC_RELEASE);
}

static int calls_of(struct owner* owner) { return __atomic_load_n(&owner->calls, __ATOMIC_ACQUIRE); }

void test_callers_memory_is_released_once(void) {
  const int64_t shape = 32, wrong = 33;
  const size_t bytes = 128;
  float* memory = (float*)aligned_alloc(64, 128);
  struct owner owner = {NULL, 0, NULL};
  tessera_device* device = NULL;
  tessera_buffer *buffer = NULL, *view = NULL;
  tessera_command* command = NULL;
  OK(tessera_device_open("cpu", &device));
  OK(tessera_device_open("cpu", &owner.device));
  memset(memory, 0, bytes);
  memory[0] = -7;

  /* A call that fails leaves the memory to the caller. */
  FAILS(TESSERA_COUNT_MISMATCH, "",
        tessera_buffer_wrap(device, memory, bytes, &wrong, 1, TESSERA_F32, give_back, &owner, &buffer));
  FAILS(TESSERA_INVALID_ARGUMENT, "dtype",
        tessera_buffer_wrap(device, memory, bytes, &shape, 1, (tessera_dtype)77, give_back, &owner, &buffer));
  FAILS(TESSERA_INVALID_ARGUMENT, "release is NULL",
        tessera_buffer_wrap(device, memory, bytes, &shape, 1, TESSERA_F32, NULL, NULL, &buffer));
  FAILS(TESSERA_INVALID_ARGUMENT, "data is NULL",
        tessera_buffer_wrap(device, NULL, bytes, &shape, 1, TESSERA_F32, give_back, &owner, &buffer));
  CHECK(buffer == NULL && calls_of(&owner) == 0);

  OK(tessera_buffer_wrap(device, memory, bytes, &shape, 1, TESSERA_F32, give_back, &owner, &buffer));
  OK(tessera_buffer_reshape(buffer, &shape, 1, &view));
  OK(tessera_submit(device, "abs", &buffer, 1, view, NULL, &command));
  tessera_buffer_release(buffer);
  tessera_buffer_release(buffer); /* twice: refused */
  OK(tessera_command_wait(command));
  CHECK(calls_of(&owner) == 0);
  tessera_command_release(command);
  tessera_buffer_release(view);
  OK(tessera_device_synchronize(device));
  while (calls_of(&owner) == 0) OK(tessera_device_synchronize(device));
  CHECK(calls_of(&owner) == 1 && owner.data == memory);
  CHECK(memory[0] == 7); /* the kernel worked in place */

  /* Not aligned: copied, and given back at once. */
  owner.device = NULL;
  OK(tessera_buffer_wrap(device, memory + 1, 4, NULL, 0, TESSERA_F32, give_back, &owner, &buffer));
  CHECK(calls_of(&owner) == 2);
  tessera_buffer_release(buffer);
  tessera_device_release(device);
  free(memory);
}

void test_buffers_are_freed(void) {
  tessera_device* device = patient_device();
  tessera_buffer *buffer = zeros(device, 4), *out = zeros(device, 4), *view = NULL, *pair[2];
  tessera_command *before = NULL, *after = NULL;
  const int64_t shape = 4;
  int32_t is_freed = -1;
  float values[4];
  OK(tessera_buffer_reshape(buffer, &shape, 1, &view));
  OK(tessera_submit(device, "relu", &buffer, 1, out, NULL, &before));
  OK(tessera_buffer_is_freed(view, &is_freed));
  CHECK(is_freed == 0);
  OK(tessera_buffer_free(buffer)); /* the command in flight keeps the memory */
  OK(tessera_buffer_is_freed(view, &is_freed));
  CHECK(is_freed == 1);
  FAILS(TESSERA_BUFFER_FREED, "", tessera_buffer_free(view));
  FAILS(TESSERA_BUFFER_FREED, "", tessera_buffer_read(view, values, sizeof values));
  FAILS(TESSERA_BUFFER_FREED, "", tessera_buffer_write(buffer, values, sizeof values));
  OK(tessera_submit(device, "relu", &buffer, 1, out, NULL, &after)); /* a command that has failed */
  OK(tessera_command_wait(before));
  FAILS(TESSERA_BUFFER_FREED, "[relu]", tessera_command_wait(after));

  pair[0] = out;
  pair[1] = buffer;
  FAILS(TESSERA_BUFFER_FREED, "", tessera_buffers_free(pair, 2));
  OK(tessera_buffer_is_freed(out, &is_freed));
  CHECK(is_freed == 0); /* all or none */
  OK(tessera_buffers_free(pair, 1));
  OK(tessera_buffers_free(NULL, 0));
  FAILS(TESSERA_BUFFER_FREED, "", tessera_buffer_free(out));

  tessera_command_release(before);
  tessera_command_release(after);
  tessera_buffer_release(view);
  tessera_buffer_release(buffer);
  tessera_buffer_release(out);
  tessera_device_release(device);
}

void test_buffers_are_copied(void) {
  const float values[] = {3, 4};
  tessera_device *here = best_device(), *there = patient_device(), *of_copy = NULL;
  tessera_buffer *from = floats(here, values, 2), *to = zeros(there, 2), *longer = zeros(there, 3), *copy = NULL;
  tessera_command* command = NULL;
  OK(tessera_buffer_copy(from, to, &command));
  OK(tessera_command_wait(command));
  tessera_command_release(command);
  CHECK(first_of(to, 2) == 3);
  OK(tessera_buffer_copy_to_device(to, here, &copy));
  CHECK(first_of(copy, 2) == 3);
  OK(tessera_buffer_device(copy, &of_copy));
  tessera_device_release(of_copy);
  OK(tessera_buffer_copy(from, longer, &command));
  FAILS(TESSERA_SHAPE_MISMATCH, "", tessera_command_wait(command));
  tessera_command_release(command);
  tessera_buffer_release(from);
  tessera_buffer_release(to);
  tessera_buffer_release(longer);
  tessera_buffer_release(copy);
  tessera_device_release(here);
  tessera_device_release(there);
}
