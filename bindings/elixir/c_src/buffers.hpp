// Buffers, and binaries that show their memory.
//
// A binary never changes, so memory that one shows is never written again: a command that writes such a buffer gets
// fresh memory for it. That loses nothing, because commands write the whole of their outputs.
#pragma once

#include "resources.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera_nif {

// Memory that the host reads in place.
struct Mapping {
  explicit Mapping(tessera_mapping* of) noexcept : handle(of) {}
  ~Mapping() { tessera_mapping_release(handle); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  tessera_mapping* const handle;
};

// What a buffer holds at some time.
struct Memory {
  explicit Memory(tessera_buffer* of) noexcept : handle(of) {}
  ~Memory() { tessera_buffer_release(handle); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  tessera_buffer* const handle;
  std::atomic<int> snapshots{0};             // readers that must see it as it is
  std::atomic<std::uint64_t> last_write{0};  // the number of the last command that writes it
  std::mutex mutex;                          // guards what follows
  std::weak_ptr<Mapping> mapping;            // of all its binaries
};
using MemoryPtr = std::shared_ptr<Memory>;

struct Buffer {
  static constexpr const char* name = "buffer";

  std::vector<std::int64_t> shape;
  tessera_dtype dtype = TESSERA_F32;
  std::size_t bytes = 0;

  std::mutex mutex;  // guards what follows; a submission holds it until its command is placed
  MemoryPtr memory;  // null: freed
};

// The memory of a buffer as it is after the commands submitted so far.
struct Snapshot {
  static constexpr const char* name = "snapshot";
  Snapshot(MemoryPtr of, std::size_t size) noexcept;  // under the buffer's lock
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  MemoryPtr memory;
  std::size_t bytes;
  std::shared_ptr<Mapping> mapping;  // null unless a binary shows it
};

// Holds up every command on a buffer until it is released: for tests.
struct Hold {
  static constexpr const char* name = "hold";
  std::unique_ptr<Mapping> mapping;
};

// Locks the buffers that a submission writes, in one order, and gives those fresh memory whose memory has readers.
class Writing {
 public:
  struct Output {
    Buffer* buffer;
    bool is_read = false;     // before it is written, through the same handle: its contents are needed
    MemoryPtr old = nullptr;  // if it was replaced
  };
  explicit Writing(std::vector<Output> outputs);  // each buffer once
  ~Writing();
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  // This command writes them: see Memory::last_write. Without it the buffers get their memory back.
  void submitted(std::uint64_t id);

 private:
  static void replace_shown(Output& output);
  void end() noexcept;
  std::vector<Output> outputs_;
  bool is_submitted_ = false;
};

// The current memory, under the buffer's lock. `what()` names the buffer if it has been freed.
template <class What>
const MemoryPtr& memory_of(Buffer& buffer, What&& what) {
  if (!buffer.memory) throw Refused(what() + " has been freed");
  return buffer.memory;
}
// The same, takes the lock.
template <class What>
MemoryPtr locked_memory_of(Buffer& buffer, What&& what) {
  const std::lock_guard lock(buffer.mutex);
  return memory_of(buffer, what);
}

Term buffer_new(ErlNifEnv* env, const Term* argv);      // list or binary, shape, dtype
Term buffer_zeros(ErlNifEnv* env, const Term* argv);    // shape, dtype
Term buffer_info(ErlNifEnv* env, const Term* argv);     // buffer
Term buffer_free(ErlNifEnv* env, const Term* argv);     // buffer
Term snapshot_new(ErlNifEnv* env, const Term* argv);    // buffer
Term snapshot_copy(ErlNifEnv* env, const Term* argv);   // snapshot
Term snapshot_share(ErlNifEnv* env, const Term* argv);  // snapshot
Term hold(ErlNifEnv* env, const Term* argv);            // buffer
Term release_hold(ErlNifEnv* env, const Term* argv);    // hold

// Whether so much work is too much for a normal scheduler.
bool is_long_copy(std::size_t bytes);
// The bytes of buffer_new's data, or an estimate for a list.
std::size_t bytes_of_data(ErlNifEnv* env, Term data);

}  // namespace tessera_nif
