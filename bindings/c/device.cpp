#include "objects.hpp"

#include <algorithm>
#include <limits>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

namespace {

// Cuts what is too long, at the end of a character.
template <std::size_t size>
void copy_text(char (&to)[size], std::string_view from) {
  std::size_t length = std::min(from.size(), size - 1);
  while (length > 0 && length < from.size() && (static_cast<unsigned char>(from[length]) & 0xC0U) == 0x80U) --length;
  from.copy(to, length);
  to[length] = '\0';
}

tessera_device_info to_c(const DeviceInfo& info) {
  tessera_device_info to{};
  copy_text(to.name, info.name);
  copy_text(to.backend, info.backend);
  copy_text(to.version, info.version);
  to.is_gpu = info.is_gpu ? 1 : 0;
  to.is_discrete = info.is_discrete ? 1 : 0;
  to.memory = info.memory;
  to.compute_units = info.compute_units;
  to.dtypes = bits_of(info.dtypes);
  return to;
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_device_count(size_t* count) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(count, call, "count");
    to = Device::devices().size();
  });
}

tessera_code tessera_device_list(size_t index, tessera_device_info* info) {
  return guarded(__func__, [&](Call call) {
    expect(info, call, "info");
    const std::vector<DeviceInfo> devices = Device::devices();
    if (index >= devices.size()) {
      refuse(call, "index", std::to_string(index) + ", there are " + std::to_string(devices.size()) + " devices");
    }
    const tessera_device_info made = to_c(devices[index]);
    copy_info(info, &made, sizeof made, call);
  });
}

tessera_code tessera_device_best(tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    to = make_handle<tessera_device>(Device::best());
  });
}

tessera_code tessera_device_open(const char* backend, tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    to = make_handle<tessera_device>(Device::open(expect_text(backend, call, "backend")));
  });
}

tessera_code tessera_device_simulated(const tessera_simulation_options* options, tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    const tessera_simulation_options given = options_or(options, TESSERA_SIMULATION_OPTIONS, call);
    SimulationOptions simulation;
    simulation.seed = given.seed;
    if (given.backend) simulation.backend = given.backend;
    simulation.workers = given.workers;
    simulation.fail_rate = given.fail_rate;
    simulation.out_of_memory_at_allocation = given.out_of_memory_at_allocation;
    expect_list(given.faults, given.fault_count, call, "faults");
    for (std::size_t i = 0; i < given.fault_count; ++i) {
      const tessera_fault& fault = given.faults[i];
      const auto kind = expect_enum<InjectedFault::Kind>(fault.kind, 3, call, {"faults", i, ".kind"});
      simulation.faults.push_back({fault.command, kind, nanoseconds(fault.delay_ns)});
    }
    to = make_handle<tessera_device>(Device::simulated(simulation));
  });
}

void tessera_device_release(tessera_device* device) { release_handle(device, Kind::device, __func__); }

tessera_code tessera_device_get_info(tessera_device* device, tessera_device_info* info) {
  return guarded(__func__, [&](Call call) {
    const auto from = get(device, call, "device");
    expect(info, call, "info");
    const tessera_device_info made = to_c(from->info());
    copy_info(info, &made, sizeof made, call);
  });
}

tessera_code tessera_device_memory(tessera_device* device, tessera_memory_info* info) {
  return guarded(__func__, [&](Call call) {
    const auto from = get(device, call, "device");
    expect(info, call, "info");
    const MemoryInfo memory = from->memory();
    const tessera_memory_info made = {
        0, memory.in_use, memory.reserved, memory.peak, memory.limit, memory.buffers, memory.allocations};
    copy_info(info, &made, sizeof made, call);
  });
}

tessera_code tessera_device_set_memory_limit(tessera_device* device, uint64_t bytes) {
  return guarded(__func__, [&](Call call) {
    if (bytes > std::numeric_limits<std::size_t>::max()) refuse(call, "bytes", "more than this machine can address");
    get(device, call, "device")->set_memory_limit(static_cast<std::size_t>(bytes));
  });
}

tessera_code tessera_device_trim_memory(tessera_device* device, uint64_t* bytes) {
  return guarded(__func__, [&](Call call) {
    if (bytes) *bytes = 0;
    const std::size_t returned = get(device, call, "device")->trim_memory();
    if (bytes) *bytes = returned;
  });
}

tessera_code tessera_device_power_level(tessera_device* device, tessera_power_level* level) {
  return guarded(__func__, [&](Call call) {
    tessera_power_level& to = result(level, call, "level");
    to = static_cast<tessera_power_level>(get(device, call, "device")->power_level());
  });
}

tessera_code tessera_device_set_power_level(tessera_device* device, tessera_power_level level) {
  return guarded(__func__, [&](Call call) {
    get(device, call, "device")->set_power_level(expect_enum<PowerLevel>(level, 4, call, "level"));
  });
}

tessera_code tessera_device_synchronize(tessera_device* device) {
  return guarded(__func__, [&](Call call) { get(device, call, "device")->synchronize(); });
}
