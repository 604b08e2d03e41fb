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
#include <string>
#include <type_traits>
#include <vector>

namespace tessera {

class Buffer;
class Command;
class Device;
template <class T>
class Mapped;

namespace detail {

// The untyped half of Mapped: holds the buffer's place in the order until it is dropped.
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
  // Of memory that the host cannot address: copied out, and back in at the end if it is written.
  std::unique_ptr<std::byte[]> copy_;
  std::size_t bytes_ = 0;
};

}  // namespace detail

// Device memory with a shape and an element type: a shared handle, freed with its last copy. Commands that still use a
// buffer keep its memory alive by themselves.
//
// A buffer can be *poisoned*: the command that was to write it failed or was cancelled. Reading it, by the host or by a
// command, fails with that cause; writing it whole heals it.
//
// Every member but the default constructor throws Errc::invalid_argument on an empty handle, and those that touch the
// contents throw Errc::buffer_freed after free().
class TESSERA_API Buffer {
 public:
  // An empty handle.
  Buffer() noexcept = default;

  const Shape& shape() const;
  DType dtype() const;
  std::size_t size_bytes() const;
  Device device() const;

  // Copies the contents out. Blocks until the commands that write the buffer are over; throws their error if they
  // failed. T must be the buffer's element type (Errc::dtype_mismatch); read_into needs room for exactly as many
  // elements as there are (Errc::count_mismatch).
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

  // Copies values in, all or, with `first`, some of them from that element on. Blocks until the commands that use the
  // buffer are over. Writing all of it heals a poisoned buffer; writing a part of a poisoned buffer throws its cause.
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

  // The memory itself, without a copy, on devices whose memory the host can address (Errc::unsupported on others).
  // Blocks until the buffer is free; commands submitted while the view lives wait for its end, so a thread must not
  // wait for them while it holds the view. map_read leaves room for other readers.
  //
  //   { auto view = buffer.map<float>(); view[0] = 1; }
  template <Element T>
  Mapped<T> map();
  template <Element T>
  Mapped<const T> map_read() const;

  // The same memory seen as another shape with as many elements (Errc::shape_mismatch). Nothing is copied: order,
  // poison and free() are common to all views.
  Buffer reshape(const Shape& shape) const;

  // Copies the contents into another buffer of the same type and shape, on this device or on another one, without
  // waiting: a command of the target's device, ordered on both. It never throws for what is wrong: the command has
  // failed then. Between devices it goes through the host's memory where the host can address neither side's.
  //
  //   frame.copy_to(on_gpu).wait();
  Command copy_to(const Buffer& target) const;
  // The same into a new buffer of that device; if the copy fails, also because this buffer is poisoned, the new one is
  // poisoned. Throws only what is wrong with the call: Errc::buffer_freed, out_of_memory.
  Buffer copy_to(const Device& device) const;

  // Gives the memory back now instead of with the last handle; commands that use it still finish. Every later use of
  // any handle throws Errc::buffer_freed, a second free() too.
  void free();
  bool is_freed() const;
  // Frees several: see free_many below.
  static void free_many(const ArgumentList<Buffer>& buffers);

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  // Whether both are handles of one and the same buffer.
  friend bool operator==(const Buffer&, const Buffer&) noexcept = default;

 private:
  friend struct detail::Access;
  explicit Buffer(detail::Ref<detail::engine::View> ref) noexcept : ref_(std::move(ref)) {}
  void expect_dtype(DType wanted, const char* call) const;
  void expect_count(std::size_t given, const char* call) const;
  void write_elements(std::span<const std::byte> bytes, std::int64_t first);

  detail::Ref<detail::engine::View> ref_;
};

// A buffer's memory in the host's hands: a span that ends its access when it is dropped.
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

// The buffers of a call, as in {a, b}.
using BufferList = ArgumentList<Buffer>;

// Frees several buffers. If one cannot be freed (empty, freed before), none is.
TESSERA_API void free_many(const BufferList& buffers);

inline void Buffer::free_many(const BufferList& buffers) { tessera::free_many(buffers); }

}  // namespace tessera
