// An event loop of the program's own, which waits for commands with poll() as it waits for sockets.
// Expect: ^frame 0: completed.frame 1: completed.frame 2: completed.a pixel: 4.$
#include <tessera/tessera.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 3

static void check(tessera_code code) {
  if (code == TESSERA_OK) return;
  fprintf(stderr, "%s: %s\n", tessera_code_name(code), tessera_last_error());
  exit(1);
}

int main(void) {
  const int64_t size[] = {480, 640};
  tessera_device* device = NULL;
  tessera_events* events = NULL;
  tessera_buffer *frames[FRAMES] = {NULL}, *blurred[FRAMES] = {NULL};
  tessera_status status[FRAMES] = {TESSERA_PENDING};
  check(tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR));
  check(tessera_device_best(&device));
  check(tessera_events_create(&events));

  for (int i = 0; i < FRAMES; ++i) {
    tessera_command* command = NULL;
    check(tessera_buffer_empty(device, size, 2, TESSERA_U8, &frames[i]));
    check(tessera_buffer_empty(device, size, 2, TESSERA_U8, &blurred[i]));
    check(tessera_submit(device, "fill", NULL, 0, frames[i], "{\"value\": 4}", &command));
    tessera_command_release(command);  // it runs all the same
    check(tessera_submit(device, "gaussian_blur", &frames[i], 1, blurred[i], "{\"radius\": 3}", &command));
    check(tessera_events_watch(events, command, (uint64_t)i));
    tessera_command_release(command);
  }

  // Other descriptors of the program would be in the same list.
  struct pollfd ready = {.fd = tessera_events_descriptor(events), .events = POLLIN};
  for (int left = FRAMES; left > 0;) {
    tessera_event event;
    if (poll(&ready, 1, -1) < 0) return 1;
    while (tessera_events_next(events, &event) == TESSERA_OK && event.has_event) {
      status[event.token] = event.status;
      --left;
    }
  }
  for (int i = 0; i < FRAMES; ++i) printf("frame %d: %s\n", i, tessera_status_name(status[i]));

  tessera_mapping* mapping = NULL;
  check(tessera_buffer_map_read(blurred[0], &mapping));
  printf("a pixel: %d\n", *(const uint8_t*)tessera_mapping_data(mapping));
  tessera_mapping_release(mapping);

  for (int i = 0; i < FRAMES; ++i) {
    tessera_buffer_release(frames[i]);
    tessera_buffer_release(blurred[i]);
  }
  tessera_events_release(events);
  tessera_device_release(device);
  return tessera_live_handles() == 0 ? 0 : 1;
}
