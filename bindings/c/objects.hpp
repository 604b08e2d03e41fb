#pragma once

#include <tessera/tessera.hpp>

#include "guard.hpp"
#include "handles.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

// What each kind of handle holds.
namespace tessera::c {

struct MappedBuffer;
struct EventQueue;
struct KernelList;

template <>
struct HandleTraits<tessera_device> {
  using Object = Device;
  static constexpr Kind kind = Kind::device;
};
template <>
struct HandleTraits<tessera_buffer> {
  using Object = Buffer;
  static constexpr Kind kind = Kind::buffer;
};
template <>
struct HandleTraits<tessera_mapping> {
  using Object = std::unique_ptr<MappedBuffer>;
  static constexpr Kind kind = Kind::mapping;
};
template <>
struct HandleTraits<tessera_command> {
  using Object = Command;
  static constexpr Kind kind = Kind::command;
};
template <>
struct HandleTraits<tessera_events> {
  using Object = std::shared_ptr<EventQueue>;
  static constexpr Kind kind = Kind::events;
};
template <>
struct HandleTraits<tessera_stream> {
  using Object = Stream;
  static constexpr Kind kind = Kind::stream;
};
template <>
struct HandleTraits<tessera_pipeline> {
  using Object = Pipeline;
  static constexpr Kind kind = Kind::pipeline;
};
template <>
struct HandleTraits<tessera_kernels> {
  using Object = std::shared_ptr<const KernelList>;
  static constexpr Kind kind = Kind::kernels;
};
template <>
struct HandleTraits<tessera_image> {
  using Object = std::unique_ptr<Image>;
  static constexpr Kind kind = Kind::image;
};
template <>
struct HandleTraits<tessera_text> {
  using Object = std::unique_ptr<const std::string>;
  static constexpr Kind kind = Kind::text;
};

// A new handle to a value.
template <class Handle>
Handle* make_handle(typename HandleTraits<Handle>::Object object) {
  return handle_to<Handle>([&] { return std::move(object); });
}
inline tessera_buffer* make_buffer(Buffer buffer) { return make_handle<tessera_buffer>(std::move(buffer)); }
inline tessera_text* make_text(std::string text) {
  return make_handle<tessera_text>(std::make_unique<const std::string>(std::move(text)));
}

// The buffers of a call.
std::vector<Buffer> expect_buffers(tessera_buffer* const* buffers, std::size_t count, Call call, const char* name);

// Calls the function with a value of the C++ type.
template <class Function>
auto with_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f64:
      return function(double{});
    case DType::s32:
      return function(std::int32_t{});
    case DType::s64:
      return function(std::int64_t{});
    case DType::u32:
      return function(std::uint32_t{});
    case DType::u8:
      return function(std::uint8_t{});
    default:
      return function(float{});
  }
}

// The bytes of an argument.
inline std::span<const std::byte> bytes_at(const void* data, std::size_t bytes, Call call, const char* name) {
  expect_array(data, bytes, call, name);
  return {static_cast<const std::byte*>(data), bytes};
}

inline tessera_status to_c(Status status) noexcept { return static_cast<tessera_status>(status); }
inline tessera_dtype to_c(DType dtype) noexcept { return static_cast<tessera_dtype>(dtype); }
// Bits as in tessera_device_info::dtypes.
std::uint32_t bits_of(const std::vector<DType>& dtypes);

}  // namespace tessera::c
