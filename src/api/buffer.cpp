#include <tessera/buffer.hpp>

#include <tessera/command.hpp>
#include <tessera/device.hpp>

#include "api/buffer_view.hpp"
#include "core/failure.hpp"
#include "core/text.hpp"
#include "engine/cross_device.hpp"
#include "engine/device_state.hpp"
#include "engine/submission.hpp"

#include <new>

namespace tessera {

namespace engine = detail::engine;
using core::text;
using detail::Access;
using detail::Ref;
using detail::view_of;
using engine::DeviceState;
using engine::Storage;
using engine::View;

namespace {

void expect_memory(const View& view, std::string_view call) {
  const Storage& storage = *view.storage;
  if (!storage.placeholder.empty()) throw Error(unusable(text("[", call, "] the buffer"), storage));
}

}  // namespace

namespace detail {

engine::View& view_of(const Buffer& buffer, std::string_view call) {
  if (!Access::get(buffer)) throw Error(Errc::invalid_argument, text("[", call, "] on an empty buffer handle"));
  return *Access::get(buffer);
}

Mapping::Mapping(const Buffer& buffer, DType dtype, bool writes) {
  const View& view = view_of(buffer, "map");
  expect_memory(view, "map");
  if (view.dtype != dtype) {
    throw Error(Errc::dtype_mismatch, text("[map] the buffer is ", describe(view), ", not ", to_string(dtype)));
  }
  DeviceState& device = *view.storage->device;
  unmap_ = map(*view.storage, writes, this);
  data_ = device.driver->host_address(view.storage->block.address);
  if (data_) return;
  bytes_ = view.bytes;
  try {
    copy_ = std::make_unique<std::byte[]>(bytes_);
    device.driver->download({copy_.get(), bytes_}, view.storage->block.address);
  } catch (...) {
    unmap(*std::exchange(unmap_, {}));
    throw;
  }
  data_ = copy_.get();
}

Mapping::Mapping(Mapping&& other) noexcept
    : unmap_(std::move(other.unmap_)),
      data_(std::exchange(other.data_, nullptr)),
      copy_(std::move(other.copy_)),
      bytes_(other.bytes_) {
  if (unmap_) unmap_->holder.store(this, std::memory_order_relaxed);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  end();
  unmap_ = std::move(other.unmap_);
  data_ = std::exchange(other.data_, nullptr);
  copy_ = std::move(other.copy_);
  bytes_ = other.bytes_;
  if (unmap_) unmap_->holder.store(this, std::memory_order_relaxed);
  return *this;
}

Mapping::~Mapping() { end(); }

void Mapping::end() noexcept {
  const Ref<engine::Work> unmap_work = std::move(unmap_);
  if (!unmap_work) return;
  if (copy_ && !unmap_work->outputs.empty()) {
    Storage& storage = *unmap_work->outputs[0];
    try {
      storage.device->driver->upload(storage.block.address, {copy_.get(), bytes_});
    } catch (const Error& error) {
      storage.poison = error.failure();
    } catch (const std::bad_alloc&) {
      storage.poison = core::out_of_memory();
    }
  }
  copy_.reset();
  unmap(*unmap_work);
}

}  // namespace detail

const Shape& Buffer::shape() const { return view_of(*this, "shape").shape; }
DType Buffer::dtype() const { return view_of(*this, "dtype").dtype; }
std::size_t Buffer::size_bytes() const { return view_of(*this, "size_bytes").bytes; }
Device Buffer::device() const { return Access::make<Device>(view_of(*this, "device").storage->device); }
bool Buffer::is_freed() const {
  const Storage& storage = *view_of(*this, "is_freed").storage;
  return storage.is_freed && storage.placeholder.empty();
}

std::vector<std::byte> Buffer::read_bytes() const {
  std::vector<std::byte> bytes(size_bytes());
  read_bytes_into(bytes);
  return bytes;
}

void Buffer::read_bytes_into(std::span<std::byte> bytes) const {
  const View& view = view_of(*this, "read");
  if (bytes.size() != view.bytes) {
    throw Error(Errc::count_mismatch,
                text("[read] ", describe(view), " has ", view.bytes, " bytes, got a span of ", bytes.size()));
  }
  Storage& storage = *view.storage;
  run_host(*storage.device,
           {.label = "read", .storage = &storage, .bytes = static_cast<std::int64_t>(bytes.size()), .function = [&] {
              storage.device->driver->download(bytes, storage.block.address);
            }});
}

void Buffer::write_bytes(std::span<const std::byte> bytes) {
  const View& view = view_of(*this, "write");
  if (bytes.size() != view.bytes) {
    throw Error(Errc::count_mismatch,
                text("[write] ", describe(view), " has ", view.bytes, " bytes, got ", bytes.size()));
  }
  Storage& storage = *view.storage;
  run_host(*storage.device, {.label = "write",
                             .storage = &storage,
                             .writes = true,
                             .heals = true,
                             .bytes = static_cast<std::int64_t>(bytes.size()),
                             .function = [&] { storage.device->driver->upload(storage.block.address, bytes); }});
}

void Buffer::write_elements(std::span<const std::byte> bytes, std::int64_t first) {
  const View& view = view_of(*this, "write");
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  const std::int64_t count = static_cast<std::int64_t>(bytes.size()) / size;
  if (first < 0 || first > view.shape.elements() || count > view.shape.elements() - first) {
    throw Error(Errc::count_mismatch,
                text("[write] ", count, " elements starting at element ", first, " do not fit ", describe(view)));
  }
  Storage& storage = *view.storage;
  run_host(*storage.device,
           {.label = "write",
            .storage = &storage,
            .writes = true,
            .heals = count == view.shape.elements(),
            .bytes = static_cast<std::int64_t>(bytes.size()),
            .function = [&] { storage.device->driver->upload(storage.block.address + first * size, bytes); }});
}

Buffer Buffer::reshape(const Shape& shape) const {
  const View& view = view_of(*this, "reshape");
  if (is_freed()) throw Error(Errc::buffer_freed, "[reshape] the buffer has been freed");
  if (shape.elements() != view.shape.elements()) {
    throw Error(Errc::shape_mismatch, text("[reshape] ", describe(view), " has ", view.shape.elements(), " elements, ",
                                           to_string(shape), " has ", shape.elements()));
  }
  auto* reshaped = new View(*view.storage, shape, view.dtype);
  view.storage->refs.fetch_add(1, std::memory_order_relaxed);
  view.storage->views.fetch_add(1, std::memory_order_relaxed);
  return Access::make<Buffer>(Ref<View>::adopt(reshaped));
}

Command Buffer::copy_to(const Buffer& target) const {
  const View &from = view_of(*this, "copy_to"), &to = view_of(target, "copy_to");
  engine::DeviceState& target_device = *to.storage->device;
  if (from.storage->device == to.storage->device) {
    const View* input = &from;
    return Access::make<Command>(
        engine::submit(target_device, {.name = "copy", .output = &to, .inputs = {&input, 1}, .params = Params()}));
  }
  try {
    if (from.dtype != to.dtype || from.shape != to.shape) {
      throw Error(from.dtype != to.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                  text("[copy] the source is ", describe(from), ", the target ", describe(to)));
    }
    return Access::make<Command>(engine::copy_between(*from.storage, *to.storage, from.bytes));
  } catch (const Error& error) {
    return Access::make<Command>(engine::refuse(target_device, "copy", error.failure(), {&to.storage, 1}));
  }
}

Buffer Buffer::copy_to(const Device& device) const {
  const View& view = view_of(*this, "copy_to");
  if (view.storage->is_freed) throw Error(unusable("[copy] the source", *view.storage));
  Buffer copy = device.empty(view.shape, view.dtype);
  if (const std::optional<Error> error = copy_to(copy).error()) {
    // A copy that was refused, because another thread just freed the source, has not even poisoned the target.
    engine::Storage& storage = *Access::get(copy)->storage;
    const std::scoped_lock lock(storage.device->order);
    if (!storage.poison) storage.poison = error->failure();
  }
  return copy;
}

void Buffer::free() {
  expect_memory(view_of(*this, "free"), "free");
  if (!engine::try_free(*view_of(*this, "free").storage)) {
    throw Error(Errc::buffer_freed, text("[free] the buffer, ", describe(*ref_), ", has already been freed"));
  }
}

void free_many(const BufferList& buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]) throw Error(Errc::invalid_argument, text("[free_many] buffer ", i, " is an empty handle"));
    expect_memory(*Access::get(buffers[i]), "free_many");
    if (buffers[i].is_freed()) {
      throw Error(Errc::buffer_freed,
                  text("[free_many] buffer ", i, ", ", describe(*Access::get(buffers[i])), ", has already been freed"));
    }
  }
  // A buffer that is listed twice, or that another thread frees meanwhile, is freed all the same.
  for (std::size_t i = 0; i < buffers.size(); ++i) engine::try_free(*Access::get(buffers[i])->storage);
}

void Buffer::expect_dtype(DType wanted, const char* call) const {
  const View& view = view_of(*this, call);
  if (view.dtype == wanted) return;
  throw Error(Errc::dtype_mismatch, text("[", call, "] the buffer is ", describe(view), ", not ", to_string(wanted)));
}

void Buffer::expect_count(std::size_t given, const char* call) const {
  const View& view = view_of(*this, call);
  if (static_cast<std::size_t>(view.shape.elements()) == given) return;
  throw Error(Errc::count_mismatch,
              text("[", call, "] ", describe(view), " has ", view.shape.elements(), " elements, got ", given));
}

}  // namespace tessera
