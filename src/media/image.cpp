#include <tessera/image.hpp>

#include <tessera/device.hpp>

#include "core/text.hpp"
#include "media/codec.hpp"

#include <new>
#include <utility>

namespace tessera {

using core::text;

namespace {

Shape checked(const Shape& shape) {
  const bool has_channels = shape.rank() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
  if (shape.rank() != 2 && !has_channels) {
    throw Error(
        Errc::shape_mismatch,
        text("[Image] the shape must be [height,width], [height,width,3] or [height,width,4], got ", to_string(shape)));
  }
  return media::image_shape(shape[0], shape[1], shape.rank() == 2 ? 1 : static_cast<int>(shape[2]));
}

std::vector<std::uint8_t> zeros(const Shape& shape) try {
  return std::vector<std::uint8_t>(shape.size_bytes(u8));
} catch (const std::bad_alloc&) {
  throw Error(Errc::out_of_memory, text("[Image] no memory for ", to_string(u8, shape)));
}

}  // namespace

Shape media::image_shape(std::int64_t height, std::int64_t width, int channels) {
  return channels == 1 ? Shape{height, width} : Shape{height, width, channels};
}

Image::Image(const Shape& shape) : shape_(checked(shape)), bytes_(zeros(shape)) {}

Image::Image(const Shape& shape, std::vector<std::uint8_t> bytes) : shape_(checked(shape)), bytes_(std::move(bytes)) {
  if (bytes_.size() != shape.size_bytes(u8)) {
    throw Error(Errc::count_mismatch,
                text("[Image] ", to_string(u8, shape), " needs ", shape.elements(), " bytes, got ", bytes_.size()));
  }
}

Image::Image(Image&& other) noexcept
    : shape_(std::exchange(other.shape_, Shape{0, 0})), bytes_(std::exchange(other.bytes_, {})) {}

Image& Image::operator=(Image&& other) noexcept {
  Image taken(std::move(other));
  std::swap(shape_, taken.shape_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

std::size_t Image::offset(std::int64_t y, std::int64_t x) const {
  if (y < 0 || y >= height() || x < 0 || x >= width()) {
    throw Error(Errc::invalid_argument, text("[Image] there is no pixel (", y, ",", x, ") in ", to_string(shape_)));
  }
  return static_cast<std::size_t>((y * width() + x) * channels());
}

Buffer Device::buffer(const Image& image) const { return buffer<std::uint8_t>(image.bytes(), image.shape()); }

}  // namespace tessera
