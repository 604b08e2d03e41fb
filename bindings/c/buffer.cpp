#include "objects.hpp"

#include <algorithm>
#include <span>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

// A view of a buffer of any element type.
struct MappedBuffer {
  MappedBuffer(const Buffer& buffer, bool writes) : view(buffer, buffer.dtype(), writes), bytes(buffer.size_bytes()) {}
  detail::Mapping view;
  std::size_t bytes;
};

namespace {

tessera_code map(tessera_buffer* buffer, tessera_mapping** mapping, bool writes, Call call) {
  return guarded([&] {
    tessera_mapping*& to = result(mapping, call, "mapping");
    const Buffer of = *get(buffer, call, "buffer");
    to = make_handle<tessera_mapping>(std::make_unique<MappedBuffer>(of, writes));
  });
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_buffer_from_host(tessera_device* device, const void* data, size_t bytes, const int64_t* shape,
                                      size_t rank, tessera_dtype dtype, tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    to = make_buffer(on->from_bytes(bytes_at(data, bytes, call, "data"), expect_shape(shape, rank, call),
                                    expect_dtype(dtype, call)));
  });
}

tessera_code tessera_buffer_zeros(tessera_device* device, const int64_t* shape, size_t rank, tessera_dtype dtype,
                                  tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    to = make_buffer(on->zeros(expect_shape(shape, rank, call), expect_dtype(dtype, call)));
  });
}

tessera_code tessera_buffer_empty(tessera_device* device, const int64_t* shape, size_t rank, tessera_dtype dtype,
                                  tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    to = make_buffer(on->empty(expect_shape(shape, rank, call), expect_dtype(dtype, call)));
  });
}

tessera_code tessera_buffer_wrap(tessera_device* device, void* data, size_t bytes, const int64_t* shape, size_t rank,
                                 tessera_dtype dtype, tessera_release_memory release, void* user,
                                 tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    expect(release, call, "release");
    expect_array(data, bytes, call, "data");
    to = handle_to<tessera_buffer>([&] {
      return on->wrap({static_cast<std::byte*>(data), bytes}, expect_shape(shape, rank, call),
                      expect_dtype(dtype, call), [=] { release(data, user); });
    });
  });
}

tessera_code tessera_buffer_from_image(tessera_device* device, tessera_image* image, tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    to = make_buffer(on->buffer(**get(image, call, "image")));
  });
}

tessera_code tessera_buffer_reshape(tessera_buffer* buffer, const int64_t* shape, size_t rank,
                                    tessera_buffer** reshaped) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(reshaped, call, "reshaped");
    const auto of = get(buffer, call, "buffer");
    to = make_buffer(of->reshape(expect_shape(shape, rank, call)));
  });
}

void tessera_buffer_release(tessera_buffer* buffer) { release_handle(buffer, Kind::buffer, __func__); }

tessera_code tessera_buffer_free(tessera_buffer* buffer) {
  return guarded(__func__, [&](Call call) { get(buffer, call, "buffer")->free(); });
}

tessera_code tessera_buffers_free(tessera_buffer* const* buffers, size_t count) {
  return guarded(__func__, [&](Call call) { free_many(expect_buffers(buffers, count, call, "buffers")); });
}

tessera_code tessera_buffer_is_freed(tessera_buffer* buffer, int32_t* is_freed) {
  return guarded(__func__, [&](Call call) {
    std::int32_t& to = result(is_freed, call, "is_freed");
    to = get(buffer, call, "buffer")->is_freed() ? 1 : 0;
  });
}

tessera_code tessera_buffer_shape(tessera_buffer* buffer, int64_t* shape, size_t* rank) {
  return guarded(__func__, [&](Call call) {
    std::size_t& count = result(rank, call, "rank");
    expect(shape, call, "shape");
    const auto of = get(buffer, call, "buffer");
    std::ranges::copy(of->shape(), shape);
    count = static_cast<std::size_t>(of->shape().rank());
  });
}

tessera_code tessera_buffer_dtype(tessera_buffer* buffer, tessera_dtype* dtype) {
  return guarded(__func__, [&](Call call) {
    tessera_dtype& to = result(dtype, call, "dtype");
    to = to_c(get(buffer, call, "buffer")->dtype());
  });
}

tessera_code tessera_buffer_size(tessera_buffer* buffer, size_t* bytes) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(bytes, call, "bytes");
    to = get(buffer, call, "buffer")->size_bytes();
  });
}

tessera_code tessera_buffer_device(tessera_buffer* buffer, tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    to = make_handle<tessera_device>(get(buffer, call, "buffer")->device());
  });
}

// Handles are not pinned while a call waits: whoever releases one meanwhile need not wait with it.
tessera_code tessera_buffer_read(tessera_buffer* buffer, void* data, size_t bytes) {
  return guarded(__func__, [&](Call call) {
    const Buffer from = *get(buffer, call, "buffer");
    expect_array(data, bytes, call, "data");
    from.read_bytes_into({static_cast<std::byte*>(data), bytes});
  });
}

tessera_code tessera_buffer_write(tessera_buffer* buffer, const void* data, size_t bytes) {
  return guarded(__func__, [&](Call call) {
    Buffer to = *get(buffer, call, "buffer");
    to.write_bytes(bytes_at(data, bytes, call, "data"));
  });
}

tessera_code tessera_buffer_write_at(tessera_buffer* buffer, int64_t first, const void* data, size_t bytes) {
  return guarded(__func__, [&](Call call) {
    Buffer to = *get(buffer, call, "buffer");
    const std::span<const std::byte> from = bytes_at(data, bytes, call, "data");
    const std::size_t size = size_of(to.dtype());
    if (bytes % size != 0) {
      refuse(call, "bytes",
             std::to_string(bytes) + ", which is no whole number of elements of " + std::to_string(size));
    }
    with_type(to.dtype(), [&](auto zero) {
      using T = decltype(zero);
      to.write<T>(std::span(reinterpret_cast<const T*>(from.data()), bytes / size), first);
    });
  });
}

tessera_code tessera_buffer_map(tessera_buffer* buffer, tessera_mapping** mapping) {
  return map(buffer, mapping, true, __func__);
}

tessera_code tessera_buffer_map_read(tessera_buffer* buffer, tessera_mapping** mapping) {
  return map(buffer, mapping, false, __func__);
}

void* tessera_mapping_data(tessera_mapping* mapping) {
  void* data = nullptr;
  guarded(__func__, [&](Call call) { data = (*get(mapping, call, "mapping"))->view.data(); });
  return data;
}

size_t tessera_mapping_size(tessera_mapping* mapping) {
  std::size_t size = 0;
  guarded(__func__, [&](Call call) { size = (*get(mapping, call, "mapping"))->bytes; });
  return size;
}

void tessera_mapping_release(tessera_mapping* mapping) { release_handle(mapping, Kind::mapping, __func__); }

tessera_code tessera_buffer_copy(tessera_buffer* from, tessera_buffer* to, tessera_command** command) {
  return guarded(__func__, [&](Call call) {
    tessera_command*& made = result(command, call, "command");
    const auto source = get(from, call, "from"), target = get(to, call, "to");
    made = handle_to<tessera_command>([&] { return source->copy_to(*target); });
  });
}

tessera_code tessera_buffer_copy_to_device(tessera_buffer* buffer, tessera_device* device, tessera_buffer** copy) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(copy, call, "copy");
    const auto source = get(buffer, call, "buffer");
    to = make_buffer(source->copy_to(*get(device, call, "device")));
  });
}
