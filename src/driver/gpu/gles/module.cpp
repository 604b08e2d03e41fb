#include <tessera/error.hpp>

#include "compile/disk_cache.hpp"
#include "core/text.hpp"
#include "driver/gpu/gles/objects.hpp"

#include <cstring>
#include <utility>
#include <vector>

namespace tessera::driver::gpu::gles {

namespace {

constexpr std::string_view format = "tessera gles 1\n";

// The log of a compiler or linker.
std::string log_of(GLuint object, decltype(&glGetShaderiv) get, decltype(&glGetShaderInfoLog) get_log) {
  GLint size = 0;
  get(object, GL_INFO_LOG_LENGTH, &size);
  if (size <= 0) return {};
  std::string log(static_cast<std::size_t>(size), '\0');
  get_log(object, size, nullptr, log.data());
  log.resize(std::strlen(log.c_str()));
  return log;
}

bool is_linked(GLuint program) {
  GLint linked = GL_FALSE;
  functions()->glGetProgramiv(program, GL_LINK_STATUS, &linked);
  return linked == GL_TRUE;
}

// Zero if the driver rejects it: it may have changed without a new version number.
GLuint from_binary(const std::vector<std::byte>& content) {
  const Functions& gl = *functions();
  GLenum kind = 0;
  if (content.size() <= sizeof kind) return 0;
  std::memcpy(&kind, content.data(), sizeof kind);
  const GLuint program = gl.glCreateProgram();
  gl.glProgramBinary(program, kind, content.data() + sizeof kind, static_cast<GLsizei>(content.size() - sizeof kind));
  if (gl.glGetError() == GL_NO_ERROR && is_linked(program)) return program;
  gl.glDeleteProgram(program);
  return 0;
}

// The binary, preceded by its format; empty if the driver provides none.
std::vector<std::byte> binary_of(GLuint program) {
  const Functions& gl = *functions();
  GLint size = 0;
  gl.glGetProgramiv(program, GL_PROGRAM_BINARY_LENGTH, &size);
  if (size <= 0) return {};
  GLenum kind = 0;
  std::vector<std::byte> content(sizeof kind + static_cast<std::size_t>(size));
  gl.glGetProgramBinary(program, size, &size, &kind, content.data() + sizeof kind);
  if (gl.glGetError() != GL_NO_ERROR) return {};
  std::memcpy(content.data(), &kind, sizeof kind);
  content.resize(sizeof kind + static_cast<std::size_t>(size));
  return content;
}

// Throws an Error with the compiler's log.
GLuint from_source(const std::string& source) {
  const Functions& gl = *functions();
  const GLuint shader = gl.glCreateShader(GL_COMPUTE_SHADER);
  const char* text = source.c_str();
  gl.glShaderSource(shader, 1, &text, nullptr);
  gl.glCompileShader(shader);
  GLint compiled = GL_FALSE;
  gl.glGetShaderiv(shader, GL_COMPILE_STATUS, &compiled);
  if (compiled != GL_TRUE) {
    std::string log = log_of(shader, gl.glGetShaderiv, gl.glGetShaderInfoLog);
    gl.glDeleteShader(shader);
    throw Error(Errc::invalid_kernel, std::move(log));
  }
  const GLuint program = gl.glCreateProgram();
  gl.glProgramParameteri(program, GL_PROGRAM_BINARY_RETRIEVABLE_HINT, GL_TRUE);
  gl.glAttachShader(program, shader);
  gl.glLinkProgram(program);
  gl.glDeleteShader(shader);  // the program keeps it alive
  if (is_linked(program)) return program;
  std::string log = log_of(program, gl.glGetProgramiv, gl.glGetProgramInfoLog);
  gl.glDeleteProgram(program);
  throw Error(Errc::invalid_kernel, std::move(log));
}

}  // namespace

GlesModule::GlesModule(std::shared_ptr<Worker> worker, const compile::gpu::Kernel& kernel, const std::string& name)
    : worker_(std::move(worker)) {
  worker_->completions().throw_if_lost();
  const Found& found = worker_->found();
  compile::DiskCache cache;
  const std::string key = core::text(format, found.driver, '\n', kernel.source);
  const auto known = found.has_binaries ? cache.find(key) : std::nullopt;
  std::vector<std::byte> binary;
  worker_->call([&] {
    if (known) program_ = from_binary(*known);
    if (program_ == 0) {
      try {
        program_ = from_source(kernel.source);
      } catch (const Error& error) {
        throw Error(Errc::invalid_kernel, core::text("[", name, "] does not compile for the OpenGL ES device ",
                                                     found.info.name, ": ", error.message()));
      }
      if (found.has_binaries) binary = binary_of(program_);
    }
    location_ = functions()->glGetUniformLocation(program_, "arguments[0]");
  });
  if (!binary.empty()) cache.store(key, binary);
}

GlesModule::~GlesModule() {
  deletion_.front() = [program = program_] { functions()->glDeleteProgram(program); };
  worker_->post(std::move(deletion_));
}

}  // namespace tessera::driver::gpu::gles
