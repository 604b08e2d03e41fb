#include "compile/gpu/glsl/spirv.hpp"

#include <tessera/error.hpp>

#include "compile/compiler_exit_guard.hpp"
#include "compile/disk_cache.hpp"
#include "compile/gpu/glsl/plugin.hpp"
#include "compile/plugin_library.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace tessera::compile::gpu::glsl {

namespace {

// Increases when the same text compiles to different SPIR-V.
constexpr std::string_view format = "spirv 1\n";
constexpr std::uint32_t spirv_magic = 0x07230203;

Function& compiler(const std::string& name) {
  static PluginLibrary& library = *new PluginLibrary("tessera_glsl", plugin_symbol);
  const PluginLibrary::Symbol symbol = library.symbol();
  if (!symbol.address) {
    throw Error(Errc::unsupported, core::text("[", name, "] cannot be compiled for Vulkan: ", symbol.why_not));
  }
  return *reinterpret_cast<Function*>(symbol.address);
}

DiskCache& disk_cache() {
  static DiskCache& cache = *new DiskCache;  // never destroyed: workers may still compile while the process exits
  return cache;
}

std::optional<std::vector<std::uint32_t>> find(std::string_view key) {
  const auto bytes = disk_cache().find(key);
  if (!bytes || bytes->empty() || bytes->size() % sizeof(std::uint32_t) != 0) return std::nullopt;
  std::vector<std::uint32_t> words(bytes->size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes->data(), bytes->size());
  if (words[0] != spirv_magic) return std::nullopt;
  return words;
}

}  // namespace

std::vector<std::uint32_t> spirv(const std::string& source, const std::string& name) {
  const std::string key = std::string(format) + source;
  const bool is_validated = core::is_switched_on("TESSERA_VALIDATE");
  if (!is_validated) {
    if (auto words = find(key)) return *std::move(words);
  }
  Result result;
  {
    const CompilerExitGuard guard;
    compiler(name)({source.c_str(), is_validated}, result);
  }
  if (result.words.empty()) {
    throw Error(Errc::invalid_kernel, core::text("[", name, "] does not compile: ", result.error));
  }
  if (!result.error.empty()) throw Error(Errc::internal, core::text("[", name, "] ", result.error));
  disk_cache().store(key, std::as_bytes(std::span(result.words)));
  return std::move(result.words);
}

}  // namespace tessera::compile::gpu::glsl
