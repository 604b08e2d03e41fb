#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace tessera::compile {

// A compiler that is a shared library of its own, opened when something has to be compiled. It is searched for beside
// this library and in the program's library path, or only in TESSERA_PLUGIN_DIR.
class PluginLibrary {
 public:
  // Its name without "lib" and ".so", and the one symbol that it exports.
  PluginLibrary(std::string name, const char* symbol) : name_(std::move(name)), symbol_(symbol) {}
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  struct Symbol {
    void* address = nullptr;
    std::string why_not;  // if the address is null
  };
  // Null if the library is not found, or if the process has no descriptors or memory for it; the next call tries again.
  // Throws Errc::internal if the file is there but is not this library's plugin. Needs a CompilerExitGuard.
  Symbol symbol();

 private:
  const std::string name_;
  const char* const symbol_;
  std::mutex mutex_;
  void* found_ = nullptr;
};

}  // namespace tessera::compile
