#include "driver/driver.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/gpu_driver.hpp"
#include "driver/gpu/warm_up.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace tessera::driver {

namespace {

[[noreturn]] void no_queue() { throw Error(Errc::internal, "the device has no queue"); }

struct Backend {
  std::string_view name;
  std::vector<DeviceInfo> (*devices)();
  std::unique_ptr<gpu::Api> (*open)(std::size_t number);
};

constexpr Backend gpu_backends[] = {
    {"vulkan", gpu::vulkan_devices, gpu::open_vulkan},
    {"opencl", gpu::opencl_devices, gpu::open_opencl},
    {"gles", gpu::gles_devices, gpu::open_gles},
};

// A device of a backend, numbered from 0.
struct DeviceName {
  const Backend* backend;
  std::size_t number;
};

// Parses "vulkan" or "vulkan:1"; nullopt if it is neither.
std::optional<DeviceName> parse_name(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  const auto* const backend = std::ranges::find(gpu_backends, kind, &Backend::name);
  if (backend == std::end(gpu_backends)) return std::nullopt;
  if (kind == name) return DeviceName{backend, 0};
  const std::string_view digits = name.substr(kind.size() + 1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return DeviceName{backend, number};
}

std::string to_string(const DeviceName& name) {
  return name.number == 0 ? std::string(name.backend->name) : core::text(name.backend->name, ":", name.number);
}

}  // namespace

std::uint64_t Driver::start(std::span<const Launch>) { no_queue(); }
std::unique_ptr<Recording> Driver::record(std::span<const Launch>) { no_queue(); }
void Driver::prepare_to_record(std::span<const Launch>) {}
std::uint64_t Driver::start(Recording&) { no_queue(); }
Progress Driver::wait(std::uint64_t, std::chrono::steady_clock::time_point) { no_queue(); }

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> all = {make_cpu_driver()->info()};
  for (const Backend& backend : gpu_backends) {
    std::size_t number = 0;
    for (DeviceInfo& info : backend.devices()) {
      info.backend = to_string({&backend, number++});
      all.push_back(std::move(info));
    }
  }
  return all;
}

std::unique_ptr<Driver> open_driver(std::string_view backend) {
  if (backend == "cpu") return make_cpu_driver();
  const std::optional<DeviceName> name = parse_name(backend);
  if (!name || name->number >= name->backend->devices().size()) return nullptr;
  std::unique_ptr<gpu::Api> api = name->backend->open(name->number);
  gpu::warm_up(*api);
  return gpu::make_gpu_driver(std::move(api), to_string(*name));
}

std::string usual_name(std::string_view backend) {
  const std::optional<DeviceName> name = parse_name(backend);
  return name ? to_string(*name) : std::string(backend);
}

std::string full_name(const DeviceInfo& info) { return core::text(info.name, " (", info.backend, ")"); }

}  // namespace tessera::driver
