#pragma once

#include <tessera/detail/export.hpp>

#include <filesystem>

// A record of every command, in the JSON format of Chrome's chrome://tracing and of ui.perfetto.dev: when it was
// queued, started and ended, on which worker, its kernel, its bytes, and the commands it waited for.
//
// TESSERA_TRACE=file.json in the environment traces the whole process. Off, it costs one load a command.
namespace tessera::trace {

// Begins to record, and ends a record that is going on. Errc::io_error if the file cannot be written: then the record
// before it goes on.
TESSERA_API void start(const std::filesystem::path& file);
// Ends the record and completes the file; does nothing if there is none. Errc::io_error if not all could be written.
TESSERA_API void stop();
TESSERA_API bool is_on() noexcept;

}  // namespace tessera::trace
