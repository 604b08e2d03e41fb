#include "media/orientation.hpp"

#include "media/codec.hpp"

#include <cstring>
#include <optional>

namespace tessera::media {

namespace {

// Reads numbers of either byte order.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  // False if it is not a TIFF.
  bool read_byte_order() {
    if (bytes_.size() < 2 || bytes_[0] != bytes_[1] || (bytes_[0] != 'I' && bytes_[0] != 'M')) return false;
    is_little_ = bytes_[0] == 'I';
    return number(2, 2) == 42;
  }

  std::optional<std::uint32_t> number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return {};
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes_[at + (is_little_ ? size - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool is_little_ = false;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> exif) noexcept {
  constexpr std::uint32_t orientation_tag = 0x0112, short_type = 3;
  Tiff tiff(exif);
  if (!tiff.read_byte_order()) return 1;
  const std::size_t directory = tiff.number(4, 4).value_or(0);
  const std::uint32_t entries = tiff.number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const auto tag = tiff.number(entry, 2);
    if (!tag) return 1;
    if (*tag != orientation_tag) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2).value_or(1);
    return tiff.number(entry + 2, 2) == short_type && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool is_transposed = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;

  const std::int64_t height = image.height(), width = image.width(), pixel = image.channels();
  Image turned(is_transposed ? image_shape(width, height, image.channels()) : image.shape());
  // The source index of the first pixel, and the distance to its neighbours on the right and below.
  const std::int64_t first = (from_bottom ? (height - 1) * width : 0) + (from_right ? width - 1 : 0);
  const std::int64_t across = from_right ? -1 : 1, down = from_bottom ? -width : width;
  const std::int64_t right = is_transposed ? down : across, below = is_transposed ? across : down;

  std::uint8_t* to = turned.data();
  for (std::int64_t y = 0; y < turned.height(); ++y) {
    for (std::int64_t x = 0; x < turned.width(); ++x, to += pixel) {
      std::memcpy(to, image.data() + (first + y * below + x * right) * pixel, static_cast<std::size_t>(pixel));
    }
  }
  return turned;
}

}  // namespace tessera::media
