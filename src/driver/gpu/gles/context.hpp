#pragma once

#include <tessera/device_info.hpp>

#include "driver/gpu/gles/functions.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::driver::gpu::gles {

// A context of OpenGL ES 3.1 without a window, current on the thread that made it, which alone may use and destroy it.
class Context {
 public:
  // Empty where there is none.
  static std::optional<Context> make();
  Context(Context&& other) noexcept;
  Context& operator=(Context&&) = delete;
  ~Context();

  bool reports_resets() const noexcept { return reports_resets_; }

 private:
  explicit Context(EGLContext context, bool reports_resets) : context_(context), reports_resets_(reports_resets) {}

  EGLContext context_;
  bool reports_resets_;
};

struct Found {
  DeviceInfo info;
  std::string driver;  // all that compiled code depends on
  std::size_t block_bytes = 0;
  std::array<std::uint32_t, 2> most_groups = {};  // of a dispatch, along the first two axes
  int group_invocations = 0;
  int shared_bytes = 0;
  int blocks = 0;
  bool has_binaries = false;
};

// What the machine had when it was asked for first.
const std::optional<Found>& device();

}  // namespace tessera::driver::gpu::gles
