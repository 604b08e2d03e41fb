#include "driver/driver.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/gpu_driver.hpp"

#include <charconv>
#include <string>

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
      info.backend = number == 0 ? std::string(backend.name) : core::text(backend.name, ":", number);
      ++number;
      all.push_back(std::move(info));
    }
  }
  return all;
}

std::unique_ptr<Driver> open_driver(std::string_view backend) {
  if (backend == "cpu") return make_cpu_driver();
  for (const Backend& known : gpu_backends) {
    if (!backend.starts_with(known.name)) continue;
    std::size_t number = 0;
    std::string_view rest = backend.substr(known.name.size());
    if (!rest.empty()) {
      if (rest.front() != ':') continue;
      rest.remove_prefix(1);
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error != std::errc() || end != rest.data() + rest.size()) return nullptr;
    }
    if (number >= known.devices().size()) return nullptr;
    return gpu::make_gpu_driver(known.open(number), std::string(backend));
  }
  return nullptr;
}

}  // namespace tessera::driver
