/* Handles that several threads use and release at the same time. */
#include "check.h"

#include <pthread.h>

enum { thread_count = 4, rounds = 200 };

static void in_threads(void* (*function)(void*), void* argument) {
  pthread_t threads[thread_count];
  int i;
  for (i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, function, argument) == 0);
  for (i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

struct shared {
  tessera_device* device;
  tessera_buffer* buffer;
  tessera_command* command;
  int users; /* threads that have begun */
};

/* Good until the handles are released, refused from then on. */
static void* use_until_released(void* argument) {
  struct shared* shared = (struct shared*)argument;
  __atomic_fetch_add(&shared->users, 1, __ATOMIC_RELEASE);
  for (;;) {
    tessera_command* command = NULL;
    tessera_status status = TESSERA_PENDING;
    float values[4];
    const tessera_code ran = tessera_submit(shared->device, "relu", &shared->buffer, 1, shared->buffer, NULL, &command);
    const tessera_code read = tessera_buffer_read(shared->buffer, values, sizeof values);
    const tessera_code polled = tessera_command_poll(shared->command, &status);
    CHECK(ran == TESSERA_OK || ran == TESSERA_INVALID_ARGUMENT);
    CHECK(read == TESSERA_OK || read == TESSERA_INVALID_ARGUMENT);
    CHECK(polled == TESSERA_OK || polled == TESSERA_INVALID_ARGUMENT);
    tessera_command_release(command);
    if (ran != TESSERA_OK && read != TESSERA_OK && polled != TESSERA_OK) return NULL;
  }
}

static void* release_when_used(void* argument) {
  struct shared* shared = (struct shared*)argument;
  while (__atomic_load_n(&shared->users, __ATOMIC_ACQUIRE) < thread_count) continue;
  tessera_buffer_release(shared->buffer);
  tessera_command_release(shared->command);
  tessera_device_release(shared->device);
  return NULL;
}

void test_handles_are_released_while_in_use(void) {
  int round;
  for (round = 0; round < 20; ++round) {
    struct shared shared = {best_device(), NULL, NULL, 0};
    pthread_t thread;
    shared.buffer = zeros(shared.device, 4);
    OK(tessera_submit(shared.device, "relu", &shared.buffer, 1, shared.buffer, NULL, &shared.command));
    CHECK(pthread_create(&thread, NULL, release_when_used, &shared) == 0);
    in_threads(use_until_released, &shared);
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

static int released_once;

static void count_release(void* data, void* user) {
  (void)data;
  (void)user;
  __atomic_fetch_add(&released_once, 1, __ATOMIC_RELAXED);
}

static void* release_buffer(void* argument) {
  struct shared* shared = (struct shared*)argument;
  __atomic_fetch_add(&shared->users, 1, __ATOMIC_RELEASE);
  while (__atomic_load_n(&shared->users, __ATOMIC_ACQUIRE) < thread_count) continue;
  tessera_buffer_release(shared->buffer);
  return NULL;
}

void test_one_of_many_threads_releases(void) {
  static float memory[16] __attribute__((aligned(64)));
  const int64_t count = 16;
  int round;
  for (round = 0; round < 20; ++round) {
    struct shared shared = {NULL, NULL, NULL, 0};
    released_once = 0;
    OK(tessera_device_open("cpu", &shared.device));
    OK(tessera_buffer_wrap(shared.device, memory, sizeof memory, &count, 1, TESSERA_F32, count_release, NULL,
                           &shared.buffer));
    in_threads(release_buffer, &shared);
    CHECK(released_once == 1);
    tessera_device_release(shared.device);
  }
}

static void* make_and_use(void* argument) {
  tessera_device* device = (tessera_device*)argument;
  tessera_events* events = NULL;
  int i, left = 0;
  OK(tessera_events_create(&events));
  for (i = 0; i < rounds; ++i) {
    const float values[] = {-1, 1};
    tessera_buffer *in = floats(device, values, 2), *out = zeros(device, 2);
    tessera_command* command = NULL;
    OK(tessera_submit(device, "abs", &in, 1, out, NULL, &command));
    OK(tessera_events_watch(events, command, (uint64_t)i));
    ++left;
    CHECK(first_of(out, 2) == 1);
    tessera_buffer_release(in);
    tessera_buffer_release(out);
    tessera_command_release(command);
  }
  while (left > 0) {
    tessera_event event;
    OK(tessera_events_next(events, &event));
    left -= event.has_event;
  }
  tessera_events_release(events);
  return NULL;
}

void test_many_threads_make_and_use_handles(void) {
  tessera_device* device = best_device();
  in_threads(make_and_use, device);
  tessera_device_release(device);
}
