/* Devices, real and simulated. */
#include "check.h"

void test_devices_are_listed_and_opened(void) {
  size_t count = 0, i;
  tessera_device_info info, opened;
  tessera_device *cpu = NULL, *again = NULL;
  info.struct_size = opened.struct_size = sizeof info;
  OK(tessera_device_count(&count));
  CHECK(count >= 1);
  for (i = 0; i < count; ++i) {
    OK(tessera_device_list(i, &info));
    CHECK(info.name[0] != '\0' && info.backend[0] != '\0');
    CHECK((info.dtypes & (1U << TESSERA_F32)) != 0);
  }
  FAILS(TESSERA_INVALID_ARGUMENT, "devices", tessera_device_list(count, &info));

  OK(tessera_device_list(0, &info));
  CHECK(strcmp(info.backend, "cpu") == 0); /* the CPU is first */
  OK(tessera_device_open("cpu", &cpu));
  OK(tessera_device_open("cpu", &again));
  CHECK(cpu != again); /* a handle each */
  OK(tessera_device_get_info(cpu, &opened));
  CHECK(strcmp(opened.name, info.name) == 0 && opened.memory == info.memory && opened.memory > 0);
  CHECK(opened.compute_units >= 1 && opened.is_gpu == 0);
  tessera_device_release(cpu);
  OK(tessera_device_synchronize(again));
  tessera_device_release(again);
  FAILS(TESSERA_UNKNOWN_DEVICE, "gpu9", tessera_device_open("gpu9", &again));
  CHECK(again == NULL);
}

void test_memory_and_power_of_a_device(void) {
  const int64_t million = 1000000;
  tessera_device* device = NULL;
  tessera_memory_info before, during;
  tessera_power_level level = TESSERA_POWER_CRITICAL;
  tessera_buffer* buffer = NULL;
  uint64_t trimmed = 0;
  OK(tessera_device_simulated(NULL, &device));
  before.struct_size = during.struct_size = sizeof before;
  OK(tessera_device_memory(device, &before));
  OK(tessera_buffer_zeros(device, &million, 1, TESSERA_F64, &buffer));
  OK(tessera_device_memory(device, &during));
  CHECK(during.in_use >= before.in_use + 8000000 && during.buffers == before.buffers + 1);
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_device_set_memory_limit(device, 1));
  tessera_buffer_release(buffer);
  OK(tessera_device_synchronize(device));
  OK(tessera_device_trim_memory(device, &trimmed));
  CHECK(trimmed >= 8000000);
  OK(tessera_device_trim_memory(device, NULL));
  OK(tessera_device_set_memory_limit(device, 1 << 20));
  FAILS(TESSERA_OUT_OF_MEMORY, "", tessera_buffer_zeros(device, &million, 1, TESSERA_F64, &buffer));
  CHECK(buffer == NULL);

  OK(tessera_device_power_level(device, &level));
  CHECK(level == TESSERA_POWER_NOMINAL);
  OK(tessera_device_set_power_level(device, TESSERA_POWER_SERIOUS));
  OK(tessera_device_power_level(device, &level));
  CHECK(level == TESSERA_POWER_SERIOUS);
  tessera_device_release(device);
}

void test_simulated_devices_inject_faults(void) {
  const tessera_fault faults[] = {{2, TESSERA_FAULT_OUT_OF_MEMORY, 0}, {3, TESSERA_FAULT_DELAY, 1000}};
  const int64_t shape = 4;
  tessera_simulation_options options = TESSERA_SIMULATION_OPTIONS;
  tessera_device* device = NULL;
  tessera_buffer *buffer, *refused = NULL;
  options.seed = 7;
  options.backend = "cpu";
  options.workers = 0;
  options.faults = faults;
  options.fault_count = COUNT(faults);
  options.out_of_memory_at_allocation = 2;
  OK(tessera_device_simulated(&options, &device));
  buffer = zeros(device, shape);
  FAILS(TESSERA_OUT_OF_MEMORY, "", tessera_buffer_empty(device, &shape, 1, TESSERA_F32, &refused));
  OK(tessera_run(device, "relu", &buffer, 1, buffer, NULL));
  FAILS(TESSERA_OUT_OF_MEMORY, "", tessera_run(device, "relu", &buffer, 1, buffer, NULL));
  OK(tessera_run(device, "fill", NULL, 0, buffer, "{\"value\": 3}"));
  CHECK(first_of(buffer, 4) == 3);
  tessera_buffer_release(buffer);
  tessera_device_release(device);

  device = NULL;
  options.backend = "nowhere";
  FAILS(TESSERA_UNKNOWN_DEVICE, "nowhere", tessera_device_simulated(&options, &device));
  options.backend = NULL;
  options.fail_rate = 2;
  FAILS(TESSERA_INVALID_ARGUMENT, "", tessera_device_simulated(&options, &device));
  options.fail_rate = 0;
  options.faults = NULL;
  FAILS(TESSERA_INVALID_ARGUMENT, "faults is NULL", tessera_device_simulated(&options, &device));
  CHECK(device == NULL);
}
