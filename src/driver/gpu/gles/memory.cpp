#include <tessera/error.hpp>

#include "driver/gpu/gles/objects.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::driver::gpu::gles {

namespace {

// Nothing else uses the memory, so mapping need not wait for the device.
constexpr GLbitfield writing = GL_MAP_WRITE_BIT | GL_MAP_INVALIDATE_RANGE_BIT | GL_MAP_UNSYNCHRONIZED_BIT;

}  // namespace

std::unique_ptr<Memory> GlesMemory::make(const std::shared_ptr<Worker>& worker, std::size_t bytes) {
  const Functions& gl = *functions();
  // Shaders access whole words.
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 3) / 4 * 4;
  std::unique_ptr<GlesMemory> memory(new GlesMemory(worker));
  GLuint& object = memory->object_;
  worker->completions().throw_if_lost();
  worker->call([&] {
    gl.glGenBuffers(1, &object);
    gl.glBindBuffer(GL_COPY_WRITE_BUFFER, object);
    gl.glBufferData(GL_COPY_WRITE_BUFFER, static_cast<GLsizeiptr>(size), nullptr, GL_DYNAMIC_COPY);
    const GLenum error = gl.glGetError();
    if (error == GL_NO_ERROR) return;
    gl.glDeleteBuffers(1, &object);
    object = 0;
    if (error == GL_OUT_OF_MEMORY) return;
    worker->lose(error_name(error));
    worker->completions().throw_if_lost();
  });
  if (object == 0) return nullptr;
  return memory;
}

// OpenGL ES keeps the object until nothing uses it.
GlesMemory::~GlesMemory() {
  if (object_ == 0) return;
  deletion_.front() = [object = object_] { functions()->glDeleteBuffers(1, &object); };
  worker_->post(std::move(deletion_));
}

template <class F>
void GlesMemory::with_mapping(std::size_t offset, std::size_t bytes, GLbitfield access, F&& use) {
  if (bytes == 0) return;
  worker_->completions().throw_if_lost();
  worker_->call([&] {
    const Functions& gl = *functions();
    gl.glBindBuffer(GL_COPY_WRITE_BUFFER, object_);
    void* address = gl.glMapBufferRange(GL_COPY_WRITE_BUFFER, static_cast<GLintptr>(offset),
                                        static_cast<GLsizeiptr>(bytes), access);
    if (address) use(static_cast<std::byte*>(address));
    // False: the contents were corrupted while mapped.
    if (address && gl.glUnmapBuffer(GL_COPY_WRITE_BUFFER)) return;
    if (gl.glGetError() == GL_OUT_OF_MEMORY) {
      throw Error(Errc::out_of_memory, "the OpenGL ES device " + worker_->found().info.name + " cannot map a buffer");
    }
    worker_->lose("a buffer cannot be mapped");
    worker_->completions().throw_if_lost();
  });
}

void GlesMemory::upload(std::size_t offset, std::span<const std::byte> from) {
  with_mapping(offset, from.size(), writing,
               [&](std::byte* address) { std::memcpy(address, from.data(), from.size()); });
}

void GlesMemory::download(std::span<std::byte> to, std::size_t offset) {
  with_mapping(offset, to.size(), GL_MAP_READ_BIT,
               [&](const std::byte* address) { std::memcpy(to.data(), address, to.size()); });
}

void GlesMemory::fill_zero(std::size_t offset, std::size_t bytes) {
  with_mapping(offset, bytes, writing, [&](std::byte* address) { std::memset(address, 0, bytes); });
}

}  // namespace tessera::driver::gpu::gles
