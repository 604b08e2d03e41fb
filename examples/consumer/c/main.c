/* A user's program: submit, do something else, wait, read. Prints: tessera <version>: 11 22 33 */
#include <tessera/tessera.h>

#include <stdio.h>

int main(void) {
  const float a_values[] = {1, 2, 3}, b_values[] = {10, 20, 30};
  const int64_t shape[] = {3};
  float sums[3] = {0};
  tessera_device* device = NULL;
  tessera_buffer *inputs[2] = {NULL, NULL}, *sum = NULL;
  tessera_command* command = NULL;
  tessera_code code = tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR);
  if (code == TESSERA_OK) code = tessera_device_best(&device);
  tessera_buffer_from_host(device, a_values, sizeof a_values, shape, 1, TESSERA_F32, &inputs[0]);
  tessera_buffer_from_host(device, b_values, sizeof b_values, shape, 1, TESSERA_F32, &inputs[1]);
  tessera_buffer_zeros(device, shape, 1, TESSERA_F32, &sum);

  /* A call that failed has left NULL, which the next one refuses: it is enough to look at the last ones. */
  tessera_submit(device, "elementwise_add", inputs, 2, sum, NULL, &command);
  printf("tessera %s:", tessera_version());
  if (code == TESSERA_OK) code = tessera_command_wait(command);
  if (code == TESSERA_OK) code = tessera_buffer_read(sum, sums, sizeof sums);
  if (code == TESSERA_OK) printf(" %g %g %g\n", sums[0], sums[1], sums[2]);
  if (code != TESSERA_OK) fprintf(stderr, "%s\n", tessera_last_error());

  tessera_command_release(command);
  tessera_buffer_release(inputs[0]);
  tessera_buffer_release(inputs[1]);
  tessera_buffer_release(sum);
  tessera_device_release(device);
  return code == TESSERA_OK ? 0 : 1;
}
