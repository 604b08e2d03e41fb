#pragma once

#include <tessera/detail/access.hpp>
#include <tessera/detail/argument_list.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/dtype.hpp>
#include <tessera/error.hpp>
#include <tessera/shape.hpp>
#include <tessera/values.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace tessera {

class Buffer;
class Command;
class Device;
template <class T>
class Mapped;

namespace detail {

// The untyped part of Mapped: holds up later commands on the buffer until it is destroyed.
class TESSERA_API Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(const Buffer& buffer, DType dtype, bool writes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const noexcept { return data_; }

 private:
  void end() noexcept;
  Ref<engine::Work> unmap_;
  std::byte* data_ = nullptr;
  // Where the host cannot address the memory: a copy, written back at the end if the mapping is writable.
  std::unique_ptr<std::byte[]> copy_;
  std::size_t bytes_ = 0;
};

}  // namespace detail

// Device memory with a shape and an element type. A shared handle: the memory is released with the last copy, or later
// if commands still use it.
//
// A buffer is *poisoned* if the command that should have written it failed, was refused or was cancelled. Reading it
// then fails with that error, for the host and for commands alike. Overwriting the whole buffer clears the poison.
//
// On an empty handle every member except operator bool and operator== throws Errc::invalid_argument. After free(),
// members that touch the contents throw Errc::buffer_freed.
class TESSERA_API Buffer {
 public:
  // An empty handle.
  Buffer() noexcept = default;

  const Shape& shape() const;
  DType dtype() const;
  std::size_t size_bytes() const;
  Device device() const;

  // Returns a copy of the contents. Blocks until the commands that write the buffer have finished. Throws the cause if
  // the buffer is poisoned, and Errc::dtype_mismatch if T is not its element type. read_into copies into memory of
  // exactly the right size (Errc::count_mismatch).
  //
  //   std::vector<float> values = buffer.read<float>();
  template <Element T>
  std::vector<T> read() const {
    expect_dtype(dtype_of<T>, "read");
    std::vector<T> values(static_cast<std::size_t>(shape().elements()));
    read_bytes_into(std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<std::byte> read_bytes() const;
  template <Element T>
  void read_into(std::span<T> values) const {
    expect_dtype(dtype_of<T>, "read_into");
    expect_count(values.size(), "read_into");
    read_bytes_into(std::as_writable_bytes(values));
  }
  template <ElementRange R>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
  void read_into(R&& values) const {
    read_into<std::ranges::range_value_t<R>>(std::span(values));
  }
  void read_bytes_into(std::span<std::byte> bytes) const;

  // Overwrites the whole buffer or, given `first`, the elements from that index on. Blocks until the commands that use
  // the buffer have finished. Overwriting all of it clears poison; writing part of a poisoned buffer throws the cause.
  // Throws Errc::dtype_mismatch if T is not the element type, and Errc::count_mismatch if the values do not fit.
  //
  //   buffer.write(vector);   buffer.write<float>({1, 2, 3});   buffer.write<float>({9}, 2);
  template <Element T>
  void write(const Values<T>& values) {
    expect_dtype(dtype_of<T>, "write");
    expect_count(values.span().size(), "write");
    write_bytes(std::as_bytes(values.span()));
  }
  template <Element T>
  void write(const Values<T>& values, std::int64_t first) {
    expect_dtype(dtype_of<T>, "write");
    write_elements(std::as_bytes(values.span()), first);
  }
  template <ElementRange R>
  void write(const R& values) {
    write<std::ranges::range_value_t<R>>(Values<std::ranges::range_value_t<R>>(values));
  }
  template <ElementRange R>
  void write(const R& values, std::int64_t first) {
    write<std::ranges::range_value_t<R>>(Values<std::ranges::range_value_t<R>>(values), first);
  }
  void write_bytes(std::span<const std::byte> bytes);

  // Returns a view of the contents. Where the host can address the device's memory, the view is that memory. Elsewhere
  // it is a copy, which map() writes back when the view is destroyed; if that fails, the buffer is poisoned.
  //
  // Blocks until no command uses the buffer (map) or writes it (map_read). Commands submitted while the view exists
  // wait until it is destroyed, except readers during map_read. A thread that waits for such a command while it holds
  // the view in a local variable would wait for itself, and gets Errc::invalid_argument. Throws the cause if the buffer
  // is poisoned, and Errc::dtype_mismatch if T is not its element type.
  //
  //   { auto view = buffer.map<float>(); view[0] = 1; }
  template <Element T>
  Mapped<T> map();
  template <Element T>
  Mapped<const T> map_read() const;

  // Returns the same memory with another shape; Errc::shape_mismatch if the number of elements differs. Nothing is
  // copied: ordering, poison and free() apply to all views. Never blocks.
  Buffer reshape(const Shape& shape) const;

  // Copies the contents into another buffer of the same type and shape, on this device or another one. Never blocks:
  // returns a command of the target's device, ordered after earlier work on both buffers. Never throws for a wrong
  // call: the command has then failed. Between devices whose memory the host cannot address, the copy goes through host
  // memory.
  //
  //   frame.copy_to(on_gpu).wait();
  Command copy_to(const Buffer& target) const;
  // Copies the contents into a new buffer on that device and returns it at once. If the copy fails, or this buffer is
  // poisoned, the new one is poisoned. Throws Errc::buffer_freed and Errc::out_of_memory.
  Buffer copy_to(const Device& device) const;

  // Releases the memory now rather than with the last handle. Never blocks: commands in flight still finish. Any later
  // use through any handle throws Errc::buffer_freed, including a second free().
  void free();
  bool is_freed() const;
  // See tessera::free_many below.
  static void free_many(const ArgumentList<Buffer>& buffers);

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  // Whether both are handles to the same buffer.
  friend bool operator==(const Buffer&, const Buffer&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Buffer(detail::Ref<detail::engine::View> ref) noexcept : ref_(std::move(ref)) {}
  void expect_dtype(DType wanted, const char* call) const;
  void expect_count(std::size_t given, const char* call) const;
  void write_elements(std::span<const std::byte> bytes, std::int64_t first);

  detail::Ref<detail::engine::View> ref_;
};

// Host access to a buffer's contents: a span that gives the buffer back when it is destroyed. See Buffer::map.
template <class T>
class Mapped {
 public:
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t index) const noexcept { return data_[index]; }
  std::span<T> span() const noexcept { return {data_, size_}; }

 private:
  friend class Buffer;
  Mapped(const Buffer& buffer, bool writes)
      : mapping_(buffer, dtype_of<std::remove_const_t<T>>, writes),
        data_(reinterpret_cast<T*>(mapping_.data())),
        size_(static_cast<std::size_t>(buffer.shape().elements())) {}

  detail::Mapping mapping_;
  T* data_;
  std::size_t size_;
};

template <Element T>
Mapped<T> Buffer::map() {
  return Mapped<T>(*this, true);
}
template <Element T>
Mapped<const T> Buffer::map_read() const {
  return Mapped<const T>(*this, false);
}

// The buffers of a call: {a, b}, or a std::vector<Buffer>.
using BufferList = ArgumentList<Buffer>;

// Frees several buffers, or none: throws if one is empty (Errc::invalid_argument) or freed (Errc::buffer_freed).
TESSERA_API void free_many(const BufferList& buffers);

inline void Buffer::free_many(const BufferList& buffers) { tessera::free_many(buffers); }

}  // namespace tessera
