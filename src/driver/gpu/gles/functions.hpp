#pragma once

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES3/gl31.h>

namespace tessera::driver::gpu::gles {

// From the extensions KHR_robustness and EXT_robustness.
inline constexpr GLenum context_lost = 0x0507;
using GetResetStatus = GLenum(GL_APIENTRY*)();

#define TESSERA_EGL_FUNCTIONS(USE) \
  USE(eglChooseConfig)             \
  USE(eglCreateContext)            \
  USE(eglDestroyContext)           \
  USE(eglGetDisplay)               \
  USE(eglGetProcAddress)           \
  USE(eglInitialize)               \
  USE(eglMakeCurrent)              \
  USE(eglQueryString)              \
  USE(eglReleaseThread)

#define TESSERA_GLES_FUNCTIONS(USE) \
  USE(glAttachShader)               \
  USE(glBindBuffer)                 \
  USE(glBindBufferBase)             \
  USE(glBufferData)                 \
  USE(glClientWaitSync)             \
  USE(glCompileShader)              \
  USE(glCreateProgram)              \
  USE(glCreateShader)               \
  USE(glDeleteBuffers)              \
  USE(glDeleteProgram)              \
  USE(glDeleteShader)               \
  USE(glDeleteSync)                 \
  USE(glDispatchCompute)            \
  USE(glFenceSync)                  \
  USE(glFlush)                      \
  USE(glGenBuffers)                 \
  USE(glGetError)                   \
  USE(glGetInteger64v)              \
  USE(glGetIntegeri_v)              \
  USE(glGetIntegerv)                \
  USE(glGetProgramBinary)           \
  USE(glGetProgramInfoLog)          \
  USE(glGetProgramiv)               \
  USE(glGetShaderInfoLog)           \
  USE(glGetShaderiv)                \
  USE(glGetString)                  \
  USE(glGetUniformLocation)         \
  USE(glLinkProgram)                \
  USE(glMapBufferRange)             \
  USE(glMemoryBarrier)              \
  USE(glProgramBinary)              \
  USE(glProgramParameteri)          \
  USE(glShaderSource)               \
  USE(glUniform1iv)                 \
  USE(glUnmapBuffer)                \
  USE(glUseProgram)

// The EGL and OpenGL ES functions used. The libraries are opened at run time, so that programs start without them.
struct Functions {
#define TESSERA_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  TESSERA_EGL_FUNCTIONS(TESSERA_MEMBER)
  TESSERA_GLES_FUNCTIONS(TESSERA_MEMBER)
#undef TESSERA_MEMBER
  PFNEGLGETPLATFORMDISPLAYEXTPROC eglGetPlatformDisplayEXT = nullptr;  // null if EGL lacks it
  // Of KHR_robustness and EXT_robustness. Not null does not mean that a context has the extension.
  GetResetStatus glGetGraphicsResetStatusKHR = nullptr;
  GetResetStatus glGetGraphicsResetStatusEXT = nullptr;
};

// Null if one of them is missing.
const Functions* functions();

// "GL_OUT_OF_MEMORY".
const char* error_name(GLenum error);

}  // namespace tessera::driver::gpu::gles
