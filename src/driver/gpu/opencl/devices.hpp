#pragma once

#include <tessera/device_info.hpp>

#include "driver/gpu/opencl/functions.hpp"

#include <string>
#include <vector>

namespace tessera::driver::gpu::opencl {

struct Found {
  cl_device_id device = nullptr;
  cl_device_type type = 0;
  DeviceInfo info;
  std::string driver;         // identifies everything that compiled code depends on
  bool is_version_2 = false;  // or later
  bool is_pocl = false;
};

// The devices found by the first call: GPUs, accelerators, then others.
const std::vector<Found>& devices();

// A device property; zero if the device does not support the query.
template <class T>
T value(cl_device_id device, cl_device_info question) {
  T answer{};
  if (functions()->get_device_info(device, question, sizeof answer, &answer, nullptr) != CL_SUCCESS) return T{};
  return answer;
}
std::string text(cl_device_id device, cl_device_info question);
bool has_extension(cl_device_id device, const std::string& name);

}  // namespace tessera::driver::gpu::opencl
