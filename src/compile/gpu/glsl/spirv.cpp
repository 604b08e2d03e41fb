#include "compile/gpu/glsl/spirv.hpp"

#include <tessera/error.hpp>

#include "compile/compiler_exit_guard.hpp"
#include "compile/disk_cache.hpp"
#include "compile/gpu/glsl/plugin.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <span>
#include <string_view>

namespace tessera::compile::gpu::glsl {

namespace {

// Increases when the same text compiles to different SPIR-V.
constexpr std::string_view format = "spirv 1\n";
constexpr std::uint32_t spirv_magic = 0x07230203;

// Null if there is none.
Function* plugin() {
  static Function* const opened = []() -> Function* {
    // Searched for like the CPU's compiler: see jit.cpp.
    std::string file = "libtessera_glsl.so";
    if (const char* folder = std::getenv("TESSERA_PLUGIN_DIR")) file = std::string(folder) + "/" + file;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const std::string why = dlerror();
      if (why.find("cannot open shared object file") != std::string::npos) return nullptr;
      throw Error(Errc::internal, "the shader compiler plugin cannot be used: " + why);
    }
    auto* found = reinterpret_cast<Function*>(dlsym(handle, plugin_symbol));
    if (!found) {
      throw Error(Errc::internal, "the shader compiler plugin " + file + " is of another version than this library");
    }
    CompilerExitGuard::close_at_exit();
    return found;
  }();
  return opened;
}

DiskCache& disk_cache() {
  static DiskCache& cache = *new DiskCache;  // never destroyed: workers may still compile while the process exits
  return cache;
}

core::Hash128 key_of(const std::string& source) {
  const std::string all = std::string(format) + source;
  return core::hash128(std::as_bytes(std::span(all)));
}

std::optional<std::vector<std::uint32_t>> find(const core::Hash128& key) {
  const auto bytes = disk_cache().find(key);
  if (!bytes || bytes->empty() || bytes->size() % sizeof(std::uint32_t) != 0) return std::nullopt;
  std::vector<std::uint32_t> words(bytes->size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes->data(), bytes->size());
  if (words[0] != spirv_magic) return std::nullopt;
  return words;
}

bool wants_validation() {
  const char* wanted = std::getenv("TESSERA_VALIDATE");
  return wanted && std::string_view(wanted) == "1";
}

}  // namespace

std::vector<std::uint32_t> spirv(const std::string& source, const std::string& name) {
  const core::Hash128 key = key_of(source);
  const bool is_validated = wants_validation();
  if (!is_validated) {
    if (auto words = find(key)) return *std::move(words);
  }
  Result result;
  {
    const CompilerExitGuard guard;
    Function* compile = plugin();
    if (!compile) {
      throw Error(Errc::unsupported,
                  core::text("[", name, "] cannot be compiled for Vulkan: there is no libtessera_glsl.so"));
    }
    compile({source.c_str(), is_validated}, result);
  }
  if (result.words.empty()) {
    throw Error(Errc::invalid_kernel, core::text("[", name, "] does not compile: ", result.error));
  }
  if (!result.error.empty()) throw Error(Errc::internal, core::text("[", name, "] ", result.error));
  disk_cache().store(key, std::as_bytes(std::span(result.words)));
  return std::move(result.words);
}

}  // namespace tessera::compile::gpu::glsl
