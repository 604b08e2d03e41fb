#include <tessera/trace.hpp>

#include <tessera/error.hpp>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "engine/observe/trace_record.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <locale>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

namespace detail::engine {

namespace {

// A thread's name and number in traces.
struct ThreadName {
  ThreadName(std::string called, unsigned numbered) : name(std::move(called)), number(numbered) {}
  std::string name;
  unsigned number;
};

ThreadName& this_thread_name() {
  static std::atomic<unsigned> count{0};
  // On the heap: static TLS is scarce (see CMakeLists.txt).
  thread_local const auto name = std::make_unique<ThreadName>("", ++count);
  return *name;
}

const ThreadName& named_thread() {
  static std::atomic<unsigned> unnamed{0};
  ThreadName& name = this_thread_name();
  if (name.name.empty()) name.name = core::text("thread ", ++unnamed);
  return name;
}

double microseconds(TraceRecord::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// Escapes, since kernel names may come from the user.
std::string json_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += "\\u00";
      quoted += digits[static_cast<unsigned char>(c) >> 4];
      quoted += digits[static_cast<unsigned char>(c) & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Collects events and writes the file. One per process.
class Recorder {
 public:
  static Recorder& instance() {
    static auto& recorder = *new Recorder();  // workers may still record while the process ends
    return recorder;
  }

  void start(const std::filesystem::path& file) {
    std::ofstream out(file, std::ios::trunc);
    out.imbue(std::locale::classic());
    out.precision(3);
    out << std::fixed << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" << std::flush;
    if (!out) throw Error(Errc::io_error, core::text("cannot write the trace file ", file));
    const std::scoped_lock lock(mutex_);
    close();
    out_ = std::move(out);
    file_ = file;
    origin_ = TraceRecord::Clock::now();
    is_first_ = true;
    known_threads_.clear();
    trace_is_on = true;
  }

  void stop() {
    const std::scoped_lock lock(mutex_);
    if (!close()) throw Error(Errc::io_error, core::text("the trace file ", file_, " could not be written completely"));
  }

  void add(TraceRecord record, const TraceEvent& event) {
    const auto end = TraceRecord::Clock::now();
    if (record.started == TraceRecord::Clock::time_point{}) {  // refused, or cancelled before it could start
      trace_start(record);
      record.started = end;
    }
    // A command waits once for another, whatever the number of buffers that they share.
    std::ranges::sort(record.waited_for);
    const auto repeated = std::ranges::unique(record.waited_for);
    record.waited_for.erase(repeated.begin(), repeated.end());
    const std::scoped_lock lock(mutex_);
    if (!out_.is_open()) return;
    entries_.push_back({std::move(record), event, std::string(event.name), end});
    if (entries_.size() >= most_entries) write_entries();
  }

 private:
  // Stored unformatted until there are many: formatting takes ten times as long as storing.
  struct Entry {
    TraceRecord record;
    TraceEvent event;
    std::string name;
    TraceRecord::Clock::time_point end;
  };
  static constexpr std::size_t most_entries = 65'536;

  // Everything below is called under the mutex.

  void write_entries() {
    for (const Entry& entry : entries_) write(entry);
    entries_.clear();
  }

  void write(const Entry& entry) {
    const TraceRecord& record = entry.record;
    const TraceEvent& event = entry.event;
    introduce(event.device, record.thread, record.thread_name);
    const double queued = microseconds(record.queued - origin_);
    const double start = microseconds(record.started - origin_);
    const bool is_piece = event.status == Status::running || event.is_compilation;  // a part of a command
    if (!is_piece) {  // a span from the submission to the start, beside the threads
      ++span_;
      write_span('b', entry, queued);
      write_span('e', entry, start);
    }
    next() << R"({"ph":"X","cat":)"
           << (event.is_compilation ? R"("compile")"
               : is_piece           ? R"("piece")"
                                    : R"("command")")
           << ",\"name\":" << json_string(entry.name) << ",\"pid\":" << event.device << ",\"tid\":" << record.thread
           << ",\"ts\":" << start << ",\"dur\":" << microseconds(entry.end - record.started)
           << ",\"args\":{\"command\":" << event.id;
    if (!is_piece) {
      out_ << ",\"status\":\"" << to_string(event.status) << "\",\"bytes\":" << event.bytes << ",\"queued\":" << queued
           << ",\"waited_for\":[";
      for (std::size_t i = 0; i < record.waited_for.size(); ++i) out_ << (i ? "," : "") << record.waited_for[i];
      out_ << ']';
    }
    out_ << "}}";
  }

  std::ostream& next() {
    if (!is_first_) out_ << ",\n";
    is_first_ = false;
    return out_;
  }

  void write_span(char phase, const Entry& entry, double time) {
    next() << R"({"ph":")" << phase << R"(","cat":"queued","id":)" << span_ << ",\"name\":" << json_string(entry.name)
           << ",\"pid\":" << entry.event.device << ",\"tid\":" << entry.record.thread << ",\"ts\":" << time << "}";
  }

  void introduce(unsigned device, unsigned thread, const std::string& name) {
    if (!known_threads_.insert({device, thread}).second) return;
    next() << R"({"ph":"M","name":"process_name","pid":)" << device << R"(,"args":{"name":"device )" << device
           << "\"}}";
    next() << R"({"ph":"M","name":"thread_name","pid":)" << device << ",\"tid\":" << thread
           << ",\"args\":{\"name\":" << json_string(name) << "}}";
  }

  // False if something could not be written.
  bool close() {
    trace_is_on = false;
    if (!out_.is_open()) return true;
    write_entries();
    out_ << "\n]}\n";
    out_.close();
    return static_cast<bool>(out_);
  }

  std::mutex mutex_;
  std::ofstream out_;
  std::filesystem::path file_;
  bool is_first_ = true;
  TraceRecord::Clock::time_point origin_;
  std::vector<Entry> entries_;
  std::uint64_t span_ = 0;
  std::set<std::pair<unsigned, unsigned>> known_threads_;  // device and thread
};

}  // namespace

std::atomic<bool> trace_is_on{false};

std::unique_ptr<TraceRecord> make_trace_record() {
  auto record = std::make_unique<TraceRecord>();
  record->queued = TraceRecord::Clock::now();
  return record;
}

void trace_start(TraceRecord& record) noexcept {
  record.started = TraceRecord::Clock::now();
  try {
    record.thread = named_thread().number;
    record.thread_name = named_thread().name;
  } catch (const std::bad_alloc&) {
  }
}

void trace_end(TraceRecord& record, const TraceEvent& event) noexcept {
  try {
    Recorder::instance().add(std::move(record), event);
  } catch (const std::bad_alloc&) {
  }
}

void start_trace_from_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* file = core::environment_variable("TESSERA_TRACE");
    if (!file || *file == '\0') return;
    try {
      trace::start(file);
    } catch (const Error& error) {  // whoever opens the first device did not ask for the trace
      std::cerr << "tessera: TESSERA_TRACE: " << error.what() << "; nothing is traced\n";
      return;
    }
    std::atexit([] {
      try {
        trace::stop();
      } catch (const Error& error) {  // there is no caller left to throw it to
        std::cerr << "tessera: TESSERA_TRACE: " << error.what() << '\n';
      }
    });
  });
}

void name_thread(const char* kind, unsigned number) { this_thread_name().name = core::text(kind, " ", number); }

}  // namespace detail::engine

namespace trace {

void start(const std::filesystem::path& file) { detail::engine::Recorder::instance().start(file); }
void stop() { detail::engine::Recorder::instance().stop(); }
bool is_on() noexcept { return detail::engine::trace_is_on; }

}  // namespace trace

}  // namespace tessera
