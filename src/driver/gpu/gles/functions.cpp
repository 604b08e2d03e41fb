#include "driver/gpu/gles/functions.hpp"

#include "driver/gpu/library.hpp"

#include <dlfcn.h>

namespace tessera::driver::gpu::gles {

namespace {

bool find_all(void* egl, void* gl, Functions& table) {
#define TESSERA_FIND(name)                                                \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(egl, #name)); \
  if (!table.name) return false;
  TESSERA_EGL_FUNCTIONS(TESSERA_FIND)
#undef TESSERA_FIND
#define TESSERA_FIND(name)                                               \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(gl, #name)); \
  if (!table.name) return false;
  TESSERA_GLES_FUNCTIONS(TESSERA_FIND)
#undef TESSERA_FIND
  table.eglGetPlatformDisplayEXT =
      reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(table.eglGetProcAddress("eglGetPlatformDisplayEXT"));
  table.glGetGraphicsResetStatusKHR =
      reinterpret_cast<GetResetStatus>(table.eglGetProcAddress("glGetGraphicsResetStatusKHR"));
  table.glGetGraphicsResetStatusEXT =
      reinterpret_cast<GetResetStatus>(table.eglGetProcAddress("glGetGraphicsResetStatusEXT"));
  return true;
}

}  // namespace

const Functions* functions() {
  static const Functions* const opened = []() -> const Functions* {
    void* egl = open_library({"libEGL.so.1", "libEGL.so"});
    void* gl = open_library({"libGLESv2.so.2", "libGLESv2.so"});
    if (!egl || !gl) return nullptr;
    static Functions table;
    return find_all(egl, gl, table) ? &table : nullptr;
  }();
  return opened;
}

const char* error_name(GLenum error) {
  switch (error) {
    case GL_INVALID_ENUM:
      return "GL_INVALID_ENUM";
    case GL_INVALID_VALUE:
      return "GL_INVALID_VALUE";
    case GL_INVALID_OPERATION:
      return "GL_INVALID_OPERATION";
    case GL_INVALID_FRAMEBUFFER_OPERATION:
      return "GL_INVALID_FRAMEBUFFER_OPERATION";
    case GL_OUT_OF_MEMORY:
      return "GL_OUT_OF_MEMORY";
    case context_lost:
      return "GL_CONTEXT_LOST";
    default:
      return "an unknown error";
  }
}

}  // namespace tessera::driver::gpu::gles
