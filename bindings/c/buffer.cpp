// Buffers, mappings and images.
#include "objects.hpp"

#include <algorithm>
#include <limits>
#include <span>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

// A Mapped<T> of any element type.
struct MappingObject {
  virtual ~MappingObject() = default;
  virtual void* data() = 0;
  virtual std::size_t size() = 0;
};

namespace {

template <class T>
struct MappingOf final : MappingObject {
  explicit MappingOf(Mapped<T> of) : mapped(std::move(of)) {}
  void* data() override { return const_cast<std::remove_const_t<T>*>(mapped.data()); }
  std::size_t size() override { return mapped.size() * sizeof(T); }
  Mapped<T> mapped;
};

std::span<const std::byte> bytes_at(const void* data, std::size_t bytes, std::string_view call) {
  expect_data(data, bytes, call, "data");
  return {static_cast<const std::byte*>(data), bytes};
}

tessera_code map(tessera_buffer* buffer, tessera_mapping** mapping, bool writes, std::string_view call) {
  return guarded([&] {
    tessera_mapping*& to = result(mapping, call, "mapping");
    Buffer of = *get(buffer, call, "buffer");  // not pinned while it waits
    std::unique_ptr<MappingObject, void (*)(MappingObject*)> made(nullptr, [](MappingObject* object) { delete object; });
    with_type(of.dtype(), [&](auto zero) {
      using T = decltype(zero);
      if (writes) {
        made.reset(new MappingOf<T>(of.map<T>()));
      } else {
        made.reset(new MappingOf<const T>(of.map_read<T>()));
      }
    });
    to = make_handle<tessera_mapping>(std::move(made));
  });
}

LoadImageOptions load_options(const tessera_load_image_options* options, std::string_view call) {
  const tessera_load_image_options given = options_or(options, TESSERA_LOAD_IMAGE_OPTIONS, call);
  return {.channels = expect_enum<Channels>(given.channels, 4, call, "channels"),
          .upright = given.upright != 0,
          .max_pixels = given.max_pixels};
}

tessera_image* make_image(Image image) {
  return make_handle<tessera_image>(std::make_unique<Image>(std::move(image)));
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_buffer_from_host(tessera_device* device, const void* data, size_t bytes, const int64_t* shape,
                                      size_t rank, tessera_dtype dtype, tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto on = get(device, call, "device");
    to = make_buffer(on->from_bytes(bytes_at(data, bytes, call), expect_shape(shape, rank, call),
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
    expect_data(data, bytes, call, "data");
    to = handle_to<tessera_buffer>([&] {
      return on->wrap({static_cast<std::byte*>(data), bytes}, expect_shape(shape, rank, call), expect_dtype(dtype, call),
                      [=] { release(data, user); });
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
    to = static_cast<tessera_dtype>(get(buffer, call, "buffer")->dtype());
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
    expect_data(data, bytes, call, "data");
    from.read_bytes_into({static_cast<std::byte*>(data), bytes});
  });
}

tessera_code tessera_buffer_write(tessera_buffer* buffer, const void* data, size_t bytes) {
  return guarded(__func__, [&](Call call) {
    Buffer to = *get(buffer, call, "buffer");
    to.write_bytes(bytes_at(data, bytes, call));
  });
}

tessera_code tessera_buffer_write_at(tessera_buffer* buffer, int64_t first, const void* data, size_t bytes) {
  return guarded(__func__, [&](Call call) {
    Buffer to = *get(buffer, call, "buffer");
    const std::span<const std::byte> from = bytes_at(data, bytes, call);
    const std::size_t size = size_of(to.dtype());
    if (bytes % size != 0) {
      refuse(call, std::to_string(bytes) + " bytes are no whole number of elements of " + std::to_string(size));
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
  guarded(__func__, [&](Call call) { data = (*get(mapping, call, "mapping"))->data(); });
  return data;
}

size_t tessera_mapping_size(tessera_mapping* mapping) {
  std::size_t size = 0;
  guarded(__func__, [&](Call call) { size = (*get(mapping, call, "mapping"))->size(); });
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

tessera_code tessera_image_load(const char* path, const tessera_load_image_options* options, tessera_image** image) {
  return guarded(__func__, [&](Call call) {
    tessera_image*& to = result(image, call, "image");
    to = make_image(load_image(expect_text(path, call, "path"), load_options(options, call)));
  });
}

tessera_code tessera_image_decode(const void* file, size_t bytes, const tessera_load_image_options* options,
                                  tessera_image** image) {
  return guarded(__func__, [&](Call call) {
    tessera_image*& to = result(image, call, "image");
    to = make_image(decode_image(bytes_at(file, bytes, call), load_options(options, call)));
  });
}

tessera_code tessera_image_from_pixels(const void* pixels, size_t bytes, int64_t width, int64_t height,
                                       int32_t channels, tessera_image** image) {
  return guarded(__func__, [&](Call call) {
    tessera_image*& to = result(image, call, "image");
    const std::span<const std::byte> from = bytes_at(pixels, bytes, call);
    const auto* first = reinterpret_cast<const std::uint8_t*>(from.data());
    const Shape shape = channels == 1 ? Shape(height, width) : Shape(height, width, channels);
    to = make_image(Image(shape, std::vector<std::uint8_t>(first, first + bytes)));
  });
}

tessera_code tessera_image_from_buffer(tessera_buffer* buffer, tessera_image** image) {
  return guarded(__func__, [&](Call call) {
    tessera_image*& to = result(image, call, "image");
    const Buffer from = *get(buffer, call, "buffer");
    to = make_image(Image(from.shape(), from.read<std::uint8_t>()));
  });
}

void tessera_image_release(tessera_image* image) { release_handle(image, Kind::image, __func__); }

tessera_code tessera_image_size(tessera_image* image, int64_t* width, int64_t* height, int32_t* channels) {
  return guarded(__func__, [&](Call call) {
    std::int64_t& w = result(width, call, "width");
    std::int64_t& h = result(height, call, "height");
    std::int32_t& c = result(channels, call, "channels");
    const auto of = get(image, call, "image");
    w = (*of)->width();
    h = (*of)->height();
    c = (*of)->channels();
  });
}

uint8_t* tessera_image_pixels(tessera_image* image) {
  std::uint8_t* pixels = nullptr;
  guarded(__func__, [&](Call call) { pixels = (*get(image, call, "image"))->data(); });
  return pixels;
}

tessera_code tessera_image_save(tessera_image* image, const char* path, int32_t quality) {
  return guarded(__func__, [&](Call call) {
    const auto of = get(image, call, "image");
    save_image(expect_text(path, call, "path"), **of, {.quality = quality});
  });
}

tessera_code tessera_image_encode(tessera_image* image, tessera_image_format format, int32_t quality,
                                  tessera_text** file) {
  return guarded(__func__, [&](Call call) {
    tessera_text*& to = result(file, call, "file");
    const auto of = get(image, call, "image");
    const std::vector<std::byte> bytes =
        encode_image(**of, expect_enum<ImageFormat>(format, 2, call, "format"), {.quality = quality});
    to = make_text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  });
}
