#include "compile/plugin_library.hpp"

#include <tessera/error.hpp>

#include "compile/compiler_exit_guard.hpp"
#include "core/environment.hpp"
#include "core/platform.hpp"
#include "core/text.hpp"

namespace tessera::compile {

PluginLibrary::Symbol PluginLibrary::symbol() {
  const std::scoped_lock lock(mutex_);
  if (found_) return {found_, {}};
  std::string file = core::library_file(name_);
  if (const char* folder = core::environment_variable("TESSERA_PLUGIN_DIR")) file = core::text(folder, '/', file);
  const core::OpenedLibrary library = core::open_library(file);
  if (!library.handle) {
    if (library.may_open_later) return {nullptr, library.why_not};
    throw Error(Errc::internal, core::text("cannot load the compiler plugin: ", library.why_not));
  }
  found_ = core::find_symbol(library.handle, symbol_);
  if (!found_) {
    throw Error(Errc::internal,
                core::text("the compiler plugin ", file, " was built for another version of this library"));
  }
  CompilerExitGuard::close_at_exit();
  return {found_, {}};
}

}  // namespace tessera::compile
