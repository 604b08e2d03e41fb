#pragma once

#include <tessera/detail/export.hpp>

#include <filesystem>

// Records every command in the JSON format of chrome://tracing and ui.perfetto.dev: when it was queued, started and
// finished, on which worker, its kernel, its bytes, and the commands it waited for.
//
// TESSERA_TRACE=file.json in the environment traces the whole process. When off, tracing costs one load per command.
namespace tessera::trace {

// Starts a trace, ending the current one. Throws Errc::io_error if the file cannot be written; the current trace then
// continues.
TESSERA_API void start(const std::filesystem::path& file);
// Ends the trace and completes the file; does nothing if there is none. Throws Errc::io_error if the file could not be
// written completely.
TESSERA_API void stop();
TESSERA_API bool is_on() noexcept;

}  // namespace tessera::trace
