// Devices, kernels, streams, traces, and what all of them need.
#include "objects.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

struct KernelList {
  std::vector<KernelInfo> kernels;
  // For each kernel, what the C structure points to.
  struct Pointers {
    std::vector<const char*> inputs, aliases;
    std::vector<std::string> defaults;
    std::vector<tessera_param_info> params;
  };
  std::vector<Pointers> pointers;
};

std::vector<Buffer> expect_buffers(tessera_buffer* const* buffers, std::size_t count, std::string_view call,
                                   std::string_view name) {
  if (count > 0) expect(buffers, call, name);
  constexpr std::size_t most = 1 << 16;  // more is a count gone wrong
  if (count > most) refuse(call, std::string(name) + " are " + std::to_string(count) + ", more than any kernel takes");
  std::vector<Buffer> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(*get(buffers[i], call, std::string(name) + "[" + std::to_string(i) + "]"));
  }
  return list;
}

std::uint32_t bits_of(const std::vector<DType>& dtypes) {
  std::uint32_t bits = 0;
  for (const DType dtype : dtypes) bits |= std::uint32_t{1} << static_cast<unsigned>(dtype);
  return bits;
}

namespace {

// Cuts what is too long, at the end of a character.
template <std::size_t size>
void copy_text(char (&to)[size], std::string_view from) {
  std::size_t length = std::min(from.size(), size - 1);
  while (length > 0 && length < from.size() && (static_cast<unsigned char>(from[length]) & 0xC0U) == 0x80U) --length;
  std::memcpy(to, from.data(), length);
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

std::chrono::nanoseconds nanoseconds(std::uint64_t count) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(count, most)));
}

std::shared_ptr<const KernelList> list_kernels(const Device& device) {
  auto list = std::make_shared<KernelList>();
  list->kernels = device.kernels();
  for (const KernelInfo& kernel : list->kernels) {
    KernelList::Pointers& of = list->pointers.emplace_back();
    for (const std::string& input : kernel.inputs) of.inputs.push_back(input.c_str());
    for (const std::string& alias : kernel.aliases) of.aliases.push_back(alias.c_str());
    for (const ParamInfo& param : kernel.params) {
      of.defaults.push_back(param.is_required ? std::string() : param.default_value.to_json());
    }
    for (std::size_t i = 0; i < kernel.params.size(); ++i) {
      const ParamInfo& param = kernel.params[i];
      of.params.push_back({param.name.c_str(), param.type.c_str(), param.range.c_str(),
                           param.is_required ? nullptr : of.defaults[i].c_str(), param.documentation.c_str()});
    }
  }
  return list;
}

}  // namespace
}  // namespace tessera::c

const char* tessera_version(void) { return version().data(); }

tessera_code tessera_check_version(int major, int minor) {
  // Before 1.0 every minor version may differ.
  if (major == TESSERA_VERSION_MAJOR && minor == TESSERA_VERSION_MINOR) return TESSERA_OK;
  return guarded([&] {
    throw Error(Errc::unsupported, "the program was compiled for version " + std::to_string(major) + "." +
                                       std::to_string(minor) + ", the library is " + std::string(version()));
  });
}

size_t tessera_live_handles(void) { return live_handles(); }

const char* tessera_dtype_name(tessera_dtype dtype) {
  return dtype < TESSERA_F32 || dtype > TESSERA_U8 ? nullptr : to_string(static_cast<DType>(dtype)).data();
}

tessera_code tessera_dtype_from_name(const char* name, tessera_dtype* dtype) {
  return guarded(__func__, [&](Call call) {
    tessera_dtype& to = result(dtype, call, "dtype");
    to = static_cast<tessera_dtype>(dtype_from_string(expect_text(name, call, "name")));
  });
}

size_t tessera_dtype_size(tessera_dtype dtype) {
  return dtype < TESSERA_F32 || dtype > TESSERA_U8 ? 0 : size_of(static_cast<DType>(dtype));
}

const char* tessera_status_name(tessera_status status) {
  return status < TESSERA_PENDING || status > TESSERA_CANCELLED ? nullptr
                                                                 : to_string(static_cast<Status>(status)).data();
}

const char* tessera_text_data(const tessera_text* text) {
  const char* data = nullptr;
  guarded(__func__, [&](Call call) { data = (*get(text, call, "text"))->c_str(); });
  return data;
}

size_t tessera_text_size(const tessera_text* text) {
  std::size_t size = 0;
  guarded(__func__, [&](Call call) { size = (*get(text, call, "text"))->size(); });
  return size;
}

void tessera_text_release(tessera_text* text) { release_handle(text, Kind::text, __func__); }

tessera_code tessera_device_count(size_t* count) {
  return guarded(__func__, [&](Call call) { result(count, call, "count") = Device::devices().size(); });
}

tessera_code tessera_device_list(size_t index, tessera_device_info* info) {
  return guarded(__func__, [&](Call call) {
    expect(info, call, "info");
    const std::vector<DeviceInfo> devices = Device::devices();
    if (index >= devices.size()) {
      refuse(call, "there are " + std::to_string(devices.size()) + " devices, no number " + std::to_string(index));
    }
    const tessera_device_info made = to_c(devices[index]);
    copy_info(info, &made, sizeof made, call);
  });
}

tessera_code tessera_device_best(tessera_device** device) {
  return guarded(__func__, [&](Call call) { result(device, call, "device") = make_handle<tessera_device>(Device::best()); });
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
    if (given.fault_count > 0) expect(given.faults, call, "faults");
    for (std::size_t i = 0; i < given.fault_count; ++i) {
      const tessera_fault& fault = given.faults[i];
      simulation.faults.push_back({fault.command,
                                   expect_enum<InjectedFault::Kind>(fault.kind, 3, call, "the fault's kind"),
                                   nanoseconds(fault.delay_ns)});
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
    const tessera_memory_info made = {0,           memory.in_use,  memory.reserved,   memory.peak,
                                      memory.limit, memory.buffers, memory.allocations};
    copy_info(info, &made, sizeof made, call);
  });
}

tessera_code tessera_device_set_memory_limit(tessera_device* device, uint64_t bytes) {
  return guarded(__func__, [&](Call call) {
    if (bytes > std::numeric_limits<std::size_t>::max()) refuse(call, "bytes is too large");
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

tessera_code tessera_device_kernels(tessera_device* device, tessera_kernels** kernels) {
  return guarded(__func__, [&](Call call) {
    tessera_kernels*& to = result(kernels, call, "kernels");
    to = make_handle<tessera_kernels>(list_kernels(*get(device, call, "device")));
  });
}

size_t tessera_kernels_count(const tessera_kernels* kernels) {
  std::size_t count = 0;
  guarded(__func__, [&](Call call) { count = (*get(kernels, call, "kernels"))->kernels.size(); });
  return count;
}

tessera_code tessera_kernels_get(const tessera_kernels* kernels, size_t index, tessera_kernel_info* info) {
  return guarded(__func__, [&](Call call) {
    const auto held = get(kernels, call, "kernels");
    const KernelList& list = **held;
    expect(info, call, "info");
    if (index >= list.kernels.size()) {
      refuse(call, "there are " + std::to_string(list.kernels.size()) + " kernels, no number " +
                           std::to_string(index));
    }
    const KernelInfo& kernel = list.kernels[index];
    const KernelList::Pointers& of = list.pointers[index];
    const tessera_kernel_info made = {0,
                                      kernel.name.c_str(),
                                      kernel.documentation.c_str(),
                                      of.inputs.data(),
                                      of.inputs.size(),
                                      kernel.optional_inputs,
                                      of.params.data(),
                                      of.params.size(),
                                      of.aliases.data(),
                                      of.aliases.size(),
                                      bits_of(kernel.dtypes)};
    copy_info(info, &made, sizeof made, call);
  });
}

void tessera_kernels_release(tessera_kernels* kernels) { release_handle(kernels, Kind::kernels, __func__); }

tessera_code tessera_define_kernel(const char* name, const char* const* inputs, size_t input_count,
                                   const char* expression, const char* params) {
  return guarded(__func__, [&](Call call) {
    if (input_count > 0) expect(inputs, call, "inputs");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < input_count; ++i) names.emplace_back(expect_text(inputs[i], call, "an input's name"));
    define_kernel(expect_text(name, call, "name"), Names(std::move(names)),
                  expect_text(expression, call, "expression"), expect_params(params, call));
  });
}

tessera_code tessera_stream_create(tessera_device* device, const tessera_stream_options* options,
                                   tessera_stream** stream) {
  return guarded(__func__, [&](Call call) {
    tessera_stream*& to = result(stream, call, "stream");
    const auto on = get(device, call, "device");
    const tessera_stream_options given = options_or(options, TESSERA_STREAM_OPTIONS, call);
    StreamOptions of;
    of.priority = expect_enum<Priority>(given.priority, 3, call, "priority");
    of.when_full = expect_enum<WhenFull>(given.when_full, 3, call, "when_full");
    of.max_in_flight = static_cast<std::size_t>(
        std::min<std::uint64_t>(given.max_in_flight, std::numeric_limits<std::size_t>::max()));
    of.deadline = nanoseconds(given.deadline_ns);
    of.in_order = given.in_order != 0;
    to = make_handle<tessera_stream>(on->stream(of));
  });
}

void tessera_stream_release(tessera_stream* stream) { release_handle(stream, Kind::stream, __func__); }

tessera_code tessera_stream_in_flight(tessera_stream* stream, size_t* count) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(count, call, "count");
    to = get(stream, call, "stream")->in_flight();
  });
}

tessera_code tessera_stream_synchronize(tessera_stream* stream) {
  return guarded(__func__, [&](Call call) { get(stream, call, "stream")->synchronize(); });
}

tessera_code tessera_trace_start(const char* path) {
  return guarded(__func__, [&](Call call) { trace::start(expect_text(path, call, "path")); });
}

tessera_code tessera_trace_stop(void) {
  return guarded([] { trace::stop(); });
}
