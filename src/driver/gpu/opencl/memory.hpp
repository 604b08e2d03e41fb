#pragma once

#include "driver/gpu/opencl/connection.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace tessera::driver::gpu::opencl {

// Memory shared with the host, or device-only memory.
class OpenclMemory final : public Memory {
 public:
  // Null if out of memory.
  static std::unique_ptr<Memory> make(const std::shared_ptr<Connection>& connection, std::size_t bytes);
  ~OpenclMemory() override;

  std::byte* host_address() noexcept override { return shared_; }
  cl_int set_as_argument(cl_kernel kernel, cl_uint index) const;

  void upload(std::size_t offset, std::span<const std::byte> from);
  void download(std::span<std::byte> to, std::size_t offset);
  void fill_zero(std::size_t offset, std::size_t bytes);

 private:
  explicit OpenclMemory(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  std::shared_ptr<Connection> connection_;
  std::byte* shared_ = nullptr;
  MemoryObject object_;
};

}  // namespace tessera::driver::gpu::opencl
