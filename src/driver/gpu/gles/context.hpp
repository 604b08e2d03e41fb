#pragma once

#include <tessera/device_info.hpp>

#include "driver/gpu/gles/functions.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::driver::gpu::gles {

// A windowless OpenGL ES 3.1 context, current on the thread that created it, which alone may use and destroy it.
class Context {
 public:
  // Empty if it cannot be created.
  static std::optional<Context> make();
  Context(Context&& other) noexcept;
  Context& operator=(Context&&) = delete;
  ~Context();

  // Asks whether the device was reset; null if the context does not tell.
  GetResetStatus reset_status() const noexcept { return reset_status_; }

 private:
  explicit Context(EGLContext context) : context_(context) {}

  EGLContext context_;
  GetResetStatus reset_status_ = nullptr;
};

struct Found {
  DeviceInfo info;
  std::string driver;  // identifies everything that compiled code depends on
  std::size_t block_bytes = 0;
  std::array<std::uint32_t, 2> most_groups = {};  // per dispatch, along the first two axes
  int group_invocations = 0;
  int shared_bytes = 0;
  int blocks = 0;              // storage buffers that a kernel can use
  int uniform_components = 0;  // words of uniforms that a kernel can use
  bool has_binaries = false;
};

// The machine's device, queried now; nullopt if there is none.
std::optional<Found> find_device();
// The device found by the first call.
const std::optional<Found>& device();

}  // namespace tessera::driver::gpu::gles
