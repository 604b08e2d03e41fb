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

// A device of a backend, the first one being number 0.
struct Wish {
  const Backend* backend;
  std::size_t number;
};

// "vulkan", "vulkan:1"; none if it is no such name.
std::optional<Wish> wish_of(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  const auto* const backend = std::ranges::find(gpu_backends, kind, &Backend::name);
  if (backend == std::end(gpu_backends)) return std::nullopt;
  if (kind == name) return Wish{backend, 0};
  const std::string_view digits = name.substr(kind.size() + 1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return Wish{backend, number};
}

std::string name_of(const Wish& wish) {
  return wish.number == 0 ? std::string(wish.backend->name) : core::text(wish.backend->name, ":", wish.number);
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
      info.backend = name_of({&backend, number++});
      all.push_back(std::move(info));
    }
  }
  return all;
}

std::unique_ptr<Driver> open_driver(std::string_view backend) {
  if (backend == "cpu") return make_cpu_driver();
  const std::optional<Wish> wish = wish_of(backend);
  if (!wish || wish->number >= wish->backend->devices().size()) return nullptr;
  std::unique_ptr<gpu::Api> api = wish->backend->open(wish->number);
  gpu::warm_up(*api);
  return gpu::make_gpu_driver(std::move(api), name_of(*wish));
}

std::string usual_name(std::string_view backend) {
  const std::optional<Wish> wish = wish_of(backend);
  return wish ? name_of(*wish) : std::string(backend);
}

std::string full_name(const DeviceInfo& info) { return core::text(info.name, " (", info.backend, ")"); }

}  // namespace tessera::driver
