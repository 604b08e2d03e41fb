#include "objects.hpp"

#include <span>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

namespace {

LoadImageOptions load_options(const tessera_load_image_options* options, Call call) {
  const tessera_load_image_options given = options_or(options, TESSERA_LOAD_IMAGE_OPTIONS, call);
  return {.channels = expect_enum<Channels>(given.channels, 4, call, "channels"),
          .upright = given.upright != 0,
          .max_pixels = given.max_pixels};
}

tessera_image* make_image(Image image) { return make_handle<tessera_image>(std::make_unique<Image>(std::move(image))); }

}  // namespace
}  // namespace tessera::c

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
    to = make_image(decode_image(bytes_at(file, bytes, call, "file"), load_options(options, call)));
  });
}

tessera_code tessera_image_from_pixels(const void* pixels, size_t bytes, int64_t width, int64_t height,
                                       int32_t channels, tessera_image** image) {
  return guarded(__func__, [&](Call call) {
    tessera_image*& to = result(image, call, "image");
    const std::span<const std::byte> from = bytes_at(pixels, bytes, call, "pixels");
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
