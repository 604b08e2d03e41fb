#include "buffers.hpp"

#include "commands.hpp"
#include "device.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace tessera_nif {

namespace {

constexpr std::size_t small = 64;  // bytes of a binary on the heap of its process, which is cheaper than a shared one
constexpr std::size_t long_copy = 64 * 1024;  // some 10 µs, as long as switching to a dirty scheduler takes

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, static_cast<std::size_t>(extent), &elements)) {
      throw Refused("buffer_new: the shape has too many elements");
    }
  }
  return elements;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string describe(tessera_dtype dtype, const std::vector<std::int64_t>& shape) {
  return tessera_dtype_name(dtype) + text_of(shape);
}

// A list's elements as bytes.
class Packer {
 public:
  Packer(ErlNifEnv* env, tessera_dtype dtype) : env_(env), dtype_(dtype) {}

  std::vector<std::byte> pack(Term list, std::size_t expected) {
    bytes_.reserve(expected * tessera_dtype_size(dtype_));
    Term head = 0, tail = list;
    for (; enif_get_list_cell(env_, tail, &head, &tail); ++index_) add(head);
    if (!enif_is_empty_list(env_, tail)) throw BadArgument("the data must be a proper list, got " + show(list));
    return std::move(bytes_);
  }

 private:
  void add(Term element) {
    switch (dtype_) {
      case TESSERA_F32:
        return append(static_cast<float>(real(element)));
      case TESSERA_F64:
        return append(real(element));
      case TESSERA_S32:
        return append(integer<std::int32_t>(element));
      case TESSERA_S64:
        return append(integer<std::int64_t>(element));
      case TESSERA_U32:
        return append(integer<std::uint32_t>(element));
      case TESSERA_U8:
        return append(integer<std::uint8_t>(element));
    }
  }
  template <class T>
  void append(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  double real(Term element) {
    double value = 0;
    if (enif_get_double(env_, element, &value)) return value;
    if (ErlNifSInt64 whole = 0; enif_get_int64(env_, element, &whole)) return static_cast<double>(whole);
    if (ErlNifUInt64 whole = 0; enif_get_uint64(env_, element, &whole)) return static_cast<double>(whole);
    const std::string name = atom_name(env_, element);
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (name == "infinity") return std::numeric_limits<double>::infinity();
    if (name == "neg_infinity") return -std::numeric_limits<double>::infinity();
    refuse(element);
  }
  template <class T>
  T integer(Term element) {
    ErlNifSInt64 value = 0;
    if (!enif_get_int64(env_, element, &value) || value < static_cast<ErlNifSInt64>(std::numeric_limits<T>::min()) ||
        value > static_cast<ErlNifSInt64>(std::numeric_limits<T>::max())) {
      refuse(element);
    }
    return static_cast<T>(value);
  }
  [[noreturn]] void refuse(Term element) const {
    throw Refused("buffer_new: element " + std::to_string(index_) + " is " + show(element) + ", not a number of type " +
                  tessera_dtype_name(dtype_));
  }

  ErlNifEnv* env_;
  tessera_dtype dtype_;
  std::vector<std::byte> bytes_;
  std::size_t index_ = 0;
};

Term make_buffer(ErlNifEnv* env, tessera_buffer* handle, std::vector<std::int64_t> shape, tessera_dtype dtype) {
  auto memory = std::make_shared<Memory>(handle);
  const Ref<Buffer> made = Ref<Buffer>::make();
  made->bytes = elements_of(shape) * tessera_dtype_size(dtype);
  made->shape = std::move(shape);
  made->dtype = dtype;
  made->memory = std::move(memory);
  return ok(env, made.term(env));
}

// One for all binaries, because each would cost the library time as long as it exists.
std::shared_ptr<Mapping> mapping_of(Memory& memory) {
  {
    const std::lock_guard lock(memory.mutex);
    if (std::shared_ptr<Mapping> made = memory.mapping.lock()) return made;
  }
  tessera_mapping* handle = nullptr;
  expect_ok(tessera_buffer_map_read(memory.handle, &handle));
  auto made = std::make_shared<Mapping>(handle);
  const std::lock_guard lock(memory.mutex);
  memory.mapping = made;
  return made;
}

std::string the_buffer() { return "the buffer"; }

Snapshot& expect_snapshot(ErlNifEnv* env, Term term) { return Resource<Snapshot>::expect(env, term, "the snapshot"); }

}  // namespace

Snapshot::Snapshot(MemoryPtr of, std::size_t size) noexcept : memory(std::move(of)), bytes(size) {
  ++memory->snapshots;
}

Snapshot::~Snapshot() {
  mapping = nullptr;  // before the memory may be written again
  --memory->snapshots;
}

Writing::Writing(std::vector<Output> outputs) : outputs_(std::move(outputs)) {
  std::ranges::sort(outputs_, std::less<>(), &Output::buffer);
  for (const Output& output : outputs_) output.buffer->mutex.lock();
  try {
    for (Output& output : outputs_) replace_shown(output);
  } catch (...) {
    end();
    throw;
  }
}

Writing::~Writing() { end(); }

void Writing::replace_shown(Output& output) {
  Buffer& buffer = *output.buffer;
  if (!buffer.memory || buffer.memory->snapshots == 0) return;
  tessera_buffer* handle = nullptr;
  expect_ok(tessera_buffer_empty(device(), buffer.shape.data(), buffer.shape.size(), buffer.dtype, &handle));
  auto fresh = std::make_shared<Memory>(handle);
  if (output.is_read) {
    tessera_command* copy = nullptr;
    expect_ok(tessera_buffer_copy(buffer.memory->handle, handle, &copy));
    tessera_command_release(copy);
  }
  output.old = std::exchange(buffer.memory, std::move(fresh));
}

void Writing::end() noexcept {
  for (Output& output : outputs_) {
    MemoryPtr released;  // after the lock
    if (output.old) released = is_submitted_ ? std::move(output.old) : std::exchange(output.buffer->memory, output.old);
    output.buffer->mutex.unlock();
  }
}

void Writing::submitted(std::uint64_t id) {
  is_submitted_ = true;
  for (const Output& output : outputs_) output.buffer->memory->last_write = id;
}

bool is_long_copy(std::size_t bytes) { return bytes > long_copy; }

std::size_t bytes_of_data(ErlNifEnv* env, Term data) {
  if (ErlNifBinary given; enif_inspect_binary(env, data, &given)) return given.size;
  // An element of a list takes as long as 64 bytes of a copy. Long lists are not counted to their end.
  std::size_t estimate = 0;
  Term head = 0, tail = data;
  while (estimate <= long_copy && enif_get_list_cell(env, tail, &head, &tail)) estimate += 64;
  return estimate;
}

Term buffer_new(ErlNifEnv* env, const Term* argv) {
  std::vector<std::int64_t> shape = expect_shape(env, argv[1]);
  const tessera_dtype dtype = expect_dtype(env, argv[2]);
  const std::size_t elements = elements_of(shape);
  ErlNifBinary given{};
  std::vector<std::byte> packed;
  if (!enif_inspect_binary(env, argv[0], &given)) {
    if (!enif_is_list(env, argv[0])) throw BadArgument("the data must be a list or a binary, got " + show(argv[0]));
    packed = Packer(env, dtype).pack(argv[0], std::min<std::size_t>(elements, long_copy));
    given.data = reinterpret_cast<unsigned char*>(packed.data());
    given.size = packed.size();
  }
  if (const std::size_t size = tessera_dtype_size(dtype); given.size / size != elements || given.size % size != 0) {
    throw Refused("buffer_new: " + describe(dtype, shape) + " has " + std::to_string(elements) + " elements of " +
                  std::to_string(size) + " bytes, but the data has " + std::to_string(given.size) + " bytes");
  }
  tessera_buffer* handle = nullptr;
  expect_ok(tessera_buffer_from_host(device(), given.data, given.size, shape.data(), shape.size(), dtype, &handle));
  return make_buffer(env, handle, std::move(shape), dtype);
}

Term buffer_zeros(ErlNifEnv* env, const Term* argv) {
  std::vector<std::int64_t> shape = expect_shape(env, argv[0]);
  const tessera_dtype dtype = expect_dtype(env, argv[1]);
  elements_of(shape);
  tessera_buffer* handle = nullptr;
  expect_ok(tessera_buffer_zeros(device(), shape.data(), shape.size(), dtype, &handle));
  return make_buffer(env, handle, std::move(shape), dtype);
}

// {shape, dtype, bytes}
Term buffer_info(ErlNifEnv* env, const Term* argv) {
  const Buffer& buffer = Resource<Buffer>::expect(env, argv[0], "the buffer");
  std::vector<Term> shape;
  shape.reserve(buffer.shape.size());
  for (const std::int64_t extent : buffer.shape) shape.push_back(enif_make_int64(env, extent));
  return enif_make_tuple3(env, enif_make_list_from_array(env, shape.data(), static_cast<unsigned>(shape.size())),
                          binary(env, tessera_dtype_name(buffer.dtype)), enif_make_uint64(env, buffer.bytes));
}

Term buffer_free(ErlNifEnv* env, const Term* argv) {
  Buffer& buffer = Resource<Buffer>::expect(env, argv[0], "the buffer");
  MemoryPtr freed;  // released after the lock
  const std::lock_guard lock(buffer.mutex);
  freed = std::move(buffer.memory);
  return atoms().ok;
}

// {snapshot, number of the command to wait for or 0, bytes}
Term snapshot_new(ErlNifEnv* env, const Term* argv) {
  Buffer& buffer = Resource<Buffer>::expect(env, argv[0], "the buffer");
  const Ref<Snapshot> snapshot = [&] {
    const std::lock_guard lock(buffer.mutex);
    return Ref<Snapshot>::make(memory_of(buffer, the_buffer), buffer.bytes);
  }();
  const std::uint64_t last_write = snapshot->memory->last_write;
  const std::uint64_t wait_for = is_in_flight(last_write) ? last_write : 0;
  return enif_make_tuple3(env, snapshot.term(env), enif_make_uint64(env, wait_for),
                          enif_make_uint64(env, buffer.bytes));
}

Term snapshot_copy(ErlNifEnv* env, const Term* argv) {
  const Snapshot& snapshot = expect_snapshot(env, argv[0]);
  Term term = 0;
  unsigned char* const to = enif_make_new_binary(env, snapshot.bytes, &term);
  if (!to) throw std::bad_alloc();
  expect_ok(tessera_buffer_read(snapshot.memory->handle, to, snapshot.bytes));
  return ok(env, term);
}

Term snapshot_share(ErlNifEnv* env, const Term* argv) {
  Snapshot& snapshot = expect_snapshot(env, argv[0]);
  if (snapshot.bytes <= small) return snapshot_copy(env, argv);
  if (!snapshot.mapping) snapshot.mapping = mapping_of(*snapshot.memory);
  const void* const data = tessera_mapping_data(snapshot.mapping->handle);
  return ok(env, enif_make_resource_binary(env, &snapshot, data, snapshot.bytes));
}

Term hold(ErlNifEnv* env, const Term* argv) {
  Buffer& buffer = Resource<Buffer>::expect(env, argv[0], "the buffer");
  const Ref<Hold> made = Ref<Hold>::make();
  const MemoryPtr memory = locked_memory_of(buffer, the_buffer);
  tessera_mapping* mapping = nullptr;
  expect_ok(tessera_buffer_map(memory->handle, &mapping));
  made->mapping = std::make_unique<Mapping>(mapping);
  return ok(env, made.term(env));
}

Term release_hold(ErlNifEnv* env, const Term* argv) {
  Resource<Hold>::expect(env, argv[0], "the hold").mapping = nullptr;
  return atoms().ok;
}

}  // namespace tessera_nif
