#pragma once

#include <tessera/status.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::detail::engine {

// What the trace records about one command in flight.
struct TraceRecord {
  using Clock = std::chrono::steady_clock;

  Clock::time_point queued;
  Clock::time_point started;
  unsigned thread = 0;  // that started it
  std::string thread_name;
  std::vector<CommandId> waited_for;
};

// What else is known when it has finished.
struct TraceEvent {
  unsigned device;
  CommandId id;  // 0: not a command, but a read, write, map or free
  std::string_view name;
  std::int64_t bytes;
  Status status;  // running: a thread finished helping with pieces of the command
  bool is_compilation = false;
};

// begin_trace_record() returns null while no trace is on.
extern std::atomic<bool> trace_is_on;
std::unique_ptr<TraceRecord> make_trace_record();
inline std::unique_ptr<TraceRecord> begin_trace_record() {
  return trace_is_on.load(std::memory_order_relaxed) ? make_trace_record() : nullptr;
}
// Records the start, on this thread; and the end, which consumes the record.
// Without memory, something is missing in the trace.
void trace_start(TraceRecord& record) noexcept;
void trace_end(TraceRecord& record, const TraceEvent& event) noexcept;

// Starts the trace that TESSERA_TRACE requests, once; called when a device is made.
void start_trace_from_environment();

// Names this thread in traces: "worker 1". Others are "thread 1", …
void name_thread(const char* kind, unsigned number);

}  // namespace tessera::detail::engine
