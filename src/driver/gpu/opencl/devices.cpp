#include "driver/gpu/opencl/devices.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tessera::driver::gpu::opencl {

namespace {

// "OpenCL 3.0 PoCL …" is 300.
int version_of(const std::string& text) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(text.c_str(), "OpenCL %d.%d", &major, &minor) != 2) return 0;  // NOLINT(cert-err34-c)
  return major * 100 + minor * 10;
}

int rank(const Found& found) {
  if (found.type & CL_DEVICE_TYPE_GPU) return 0;
  return found.type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2;
}

std::vector<cl_platform_id> platforms() {
  cl_uint count = 0;
  if (functions()->get_platforms(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_platform_id> all(count);
  if (functions()->get_platforms(count, all.data(), nullptr) != CL_SUCCESS) return {};
  return all;
}

std::vector<cl_device_id> devices_of(cl_platform_id platform) {
  cl_uint count = 0;
  if (functions()->get_devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_device_id> all(count);
  if (functions()->get_devices(platform, CL_DEVICE_TYPE_ALL, count, all.data(), nullptr) != CL_SUCCESS) return {};
  return all;
}

bool is_usable(cl_device_id device) {
  return version_of(text(device, CL_DEVICE_VERSION)) >= 120 && value<cl_bool>(device, CL_DEVICE_AVAILABLE) &&
         value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE);
}

Found describe(cl_device_id device) {
  const std::string version = text(device, CL_DEVICE_VERSION);
  Found found;
  found.device = device;
  found.type = value<cl_device_type>(device, CL_DEVICE_TYPE);
  found.is_version_2 = version_of(version) >= 200;
  found.is_pocl = version.find("PoCL") != std::string::npos || version.find("pocl") != std::string::npos;
  DeviceInfo& info = found.info;
  info.name = text(device, CL_DEVICE_NAME);
  info.backend = "opencl";
  info.is_gpu = (found.type & CL_DEVICE_TYPE_GPU) != 0;
  info.is_discrete = info.is_gpu && !value<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY);
  info.version = core::text(text(device, CL_DRIVER_VERSION), ", ", version);
  info.memory = static_cast<std::size_t>(value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  info.compute_units = std::max(1U, value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  info.dtypes = {f32, s32, s64, u32, u8};
  if (has_extension(device, "cl_khr_fp64")) info.dtypes.insert(info.dtypes.begin() + 1, f64);
  found.driver = core::text(text(device, CL_DEVICE_VENDOR), '\n', info.name, '\n', info.version);
  return found;
}

std::vector<Found> find_devices() {
  std::vector<Found> all;
  if (!functions()) return all;
  for (cl_platform_id platform : platforms()) {
    for (cl_device_id device : devices_of(platform)) {
      if (!is_usable(device)) continue;
      Found found = describe(device);
      const auto after = std::ranges::upper_bound(all, rank(found), {}, rank);
      all.insert(after, std::move(found));
    }
  }
  return all;
}

}  // namespace

const std::vector<Found>& devices() {
  static const std::vector<Found> all = find_devices();
  return all;
}

std::string text(cl_device_id device, cl_device_info question) {
  std::size_t size = 0;
  if (functions()->get_device_info(device, question, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string answer(size, '\0');
  if (functions()->get_device_info(device, question, size, answer.data(), nullptr) != CL_SUCCESS) return {};
  answer.resize(std::min(answer.find('\0'), size));
  return answer;
}

bool has_extension(cl_device_id device, const std::string& name) {
  return (' ' + text(device, CL_DEVICE_EXTENSIONS) + ' ').find(' ' + name + ' ') != std::string::npos;
}

}  // namespace tessera::driver::gpu::opencl
