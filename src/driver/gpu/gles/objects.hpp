#pragma once

#include "driver/gpu/gles/worker.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tessera::driver::gpu::gles {

// A buffer object.
class GlesMemory final : public Memory {
 public:
  // Null if out of memory.
  static std::unique_ptr<Memory> make(const std::shared_ptr<Worker>& worker, std::size_t bytes);
  ~GlesMemory() override;

  GLuint object() const noexcept { return object_; }
  void upload(std::size_t offset, std::span<const std::byte> from);
  void download(std::span<std::byte> to, std::size_t offset);
  void fill_zero(std::size_t offset, std::size_t bytes);

 private:
  explicit GlesMemory(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
  // Calls `use` on the worker with the address of the mapped bytes.
  template <class F>
  void with_mapping(std::size_t offset, std::size_t bytes, GLbitfield access, F&& use);

  std::shared_ptr<Worker> worker_;
  GLuint object_ = 0;
  Worker::Jobs deletion_{1};  // made now, since a destructor must not need memory
};

// A program with one compute shader.
class GlesModule final : public Module {
 public:
  GlesModule(std::shared_ptr<Worker> worker, const compile::gpu::Kernel& kernel, const std::string& name);
  ~GlesModule() override;

  GLuint program() const noexcept { return program_; }
  // Uniform location of the arguments; -1 if there are none.
  GLint location() const noexcept { return location_; }

 private:
  std::shared_ptr<Worker> worker_;
  GLuint program_ = 0;
  GLint location_ = -1;
  Worker::Jobs deletion_{1};
};

}  // namespace tessera::driver::gpu::gles
