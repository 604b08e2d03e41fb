#include "driver/gpu/gles/context.hpp"

#include "core/platform.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace tessera::driver::gpu::gles {

namespace {

bool has_word(const char* words, const std::string& word) {
  return words && (' ' + std::string(words) + ' ').find(' ' + word + ' ') != std::string::npos;
}

// One per process: EGL returns the same display to every caller, so it must never be terminated.
EGLDisplay display() {
  static EGLDisplay made = [] {
    const Functions& gl = *functions();
    EGLDisplay found = EGL_NO_DISPLAY;
    if (gl.eglGetPlatformDisplayEXT &&
        has_word(gl.eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS), "EGL_MESA_platform_surfaceless")) {
      found = gl.eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
      if (found != EGL_NO_DISPLAY && gl.eglInitialize(found, nullptr, nullptr)) return found;
    }
    found = gl.eglGetDisplay(EGL_DEFAULT_DISPLAY);
    if (found != EGL_NO_DISPLAY && gl.eglInitialize(found, nullptr, nullptr)) return found;
    return EGLDisplay{EGL_NO_DISPLAY};
  }();
  return made;
}

EGLConfig config() {
  const Functions& gl = *functions();
  if (has_word(gl.eglQueryString(display(), EGL_EXTENSIONS), "EGL_KHR_no_config_context")) return EGL_NO_CONFIG_KHR;
  const EGLint wanted[] = {EGL_SURFACE_TYPE, 0, EGL_RENDERABLE_TYPE, EGL_OPENGL_ES3_BIT, EGL_NONE};
  EGLConfig found = EGL_NO_CONFIG_KHR;
  EGLint count = 0;
  gl.eglChooseConfig(display(), wanted, &found, 1, &count);
  return found;
}

GLint integer(GLenum question) {
  GLint answer = 0;
  functions()->glGetIntegerv(question, &answer);
  return answer;
}

std::string text(GLenum question) {
  const auto* answer = functions()->glGetString(question);
  return answer ? reinterpret_cast<const char*>(answer) : "";
}

Found describe() {
  const Functions& gl = *functions();
  Found found;
  DeviceInfo& info = found.info;
  info.name = text(GL_RENDERER);
  info.backend = "gles";
  info.is_gpu = true;
  for (const char* software : {"llvmpipe", "softpipe", "SwiftShader"}) {
    if (info.name.find(software) != std::string::npos) info.is_gpu = false;
  }
  info.version = text(GL_VERSION);
  // OpenGL ES does not report memory; its devices nearly always share the machine's.
  info.memory = core::usable_memory();
  info.compute_units = info.is_gpu ? 1 : core::usable_cores();
  info.dtypes = {f32, s32, u32, u8};

  GLint64 block_bytes = 0;
  gl.glGetInteger64v(GL_MAX_SHADER_STORAGE_BLOCK_SIZE, &block_bytes);
  found.block_bytes = static_cast<std::size_t>(block_bytes);
  for (GLuint axis = 0; axis < 2; ++axis) {
    GLint groups = 0;
    gl.glGetIntegeri_v(GL_MAX_COMPUTE_WORK_GROUP_COUNT, axis, &groups);
    found.most_groups[axis] = static_cast<std::uint32_t>(groups);
  }
  found.group_invocations = integer(GL_MAX_COMPUTE_WORK_GROUP_INVOCATIONS);
  found.shared_bytes = integer(GL_MAX_COMPUTE_SHARED_MEMORY_SIZE);
  found.blocks =
      std::min({integer(GL_MAX_COMPUTE_SHADER_STORAGE_BLOCKS), integer(GL_MAX_COMBINED_SHADER_STORAGE_BLOCKS),
                integer(GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS)});
  found.uniform_components = integer(GL_MAX_COMPUTE_UNIFORM_COMPONENTS);
  found.has_binaries = integer(GL_NUM_PROGRAM_BINARY_FORMATS) > 0;
  found.driver = text(GL_VENDOR) + '\n' + info.name + '\n' + info.version;
  return found;
}

// The function that tells whether the device of the current context was reset; null if there is none.
GetResetStatus find_reset_status() {
  const Functions& gl = *functions();
  const std::string extensions = text(GL_EXTENSIONS);
  if (gl.glGetGraphicsResetStatusKHR && has_word(extensions.c_str(), "GL_KHR_robustness")) {
    return gl.glGetGraphicsResetStatusKHR;
  }
  return has_word(extensions.c_str(), "GL_EXT_robustness") ? gl.glGetGraphicsResetStatusEXT : nullptr;
}

}  // namespace

std::optional<Context> Context::make() {
  const Functions* gl = functions();
  if (!gl || display() == EGL_NO_DISPLAY) return {};
  const char* extensions = gl->eglQueryString(display(), EGL_EXTENSIONS);
  if (!has_word(extensions, "EGL_KHR_surfaceless_context")) return {};
  const bool is_robust = has_word(extensions, "EGL_EXT_create_context_robustness");
  // Without reset notification if that is not supported.
  for (const bool robust : {true, false}) {
    if (robust && !is_robust) continue;
    const EGLint version[] = {EGL_CONTEXT_MAJOR_VERSION,
                              3,
                              EGL_CONTEXT_MINOR_VERSION,
                              1,
                              robust ? EGL_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY_EXT : EGL_NONE,
                              EGL_LOSE_CONTEXT_ON_RESET_EXT,
                              EGL_NONE};
    EGLContext context = gl->eglCreateContext(display(), config(), EGL_NO_CONTEXT, version);
    if (context == EGL_NO_CONTEXT) continue;
    if (gl->eglMakeCurrent(display(), EGL_NO_SURFACE, EGL_NO_SURFACE, context)) {
      Context made(context);
      if (robust) made.reset_status_ = find_reset_status();
      return made;
    }
    gl->eglDestroyContext(display(), context);
  }
  return {};
}

Context::Context(Context&& other) noexcept
    : context_(std::exchange(other.context_, EGL_NO_CONTEXT)), reset_status_(other.reset_status_) {}

Context::~Context() {
  if (context_ == EGL_NO_CONTEXT) return;
  functions()->eglMakeCurrent(display(), EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  functions()->eglDestroyContext(display(), context_);
  functions()->eglReleaseThread();
}

std::optional<Found> find_device() {
  std::optional<Found> described;
  // On a separate thread, since the caller's may have a current context.
  std::thread([&] {
    if (const auto context = Context::make()) described = describe();
  }).join();
  if (described && (described->blocks == 0 || described->most_groups[0] == 0)) described.reset();
  return described;
}

const std::optional<Found>& device() {
  static const std::optional<Found> found = find_device();
  return found;
}

}  // namespace tessera::driver::gpu::gles
