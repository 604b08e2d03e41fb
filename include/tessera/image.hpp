#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ranges>
#include <span>
#include <vector>

namespace tessera {

class Buffer;

// A picture in host memory: rows from top to bottom, pixels from left to right, one byte per channel. A value like
// std::vector: copies are independent, and a moved-from image has no pixels.
//
//   Image photo = load_image("photo.png");
//   photo.at(0, 0)[3] = 0;                    // the first pixel's alpha
//   Buffer pixels = device.buffer(photo);     // u8[height,width,4]
class TESSERA_API Image {
 public:
  // No pixels: [0,0].
  Image() noexcept = default;
  // All zeros: black, and transparent if there is alpha. The shape is [height,width] (or [height,width,1]) for gray,
  // [height,width,3] for RGB, [height,width,4] for RGBA; throws Errc::shape_mismatch for any other.
  explicit Image(const Shape& shape);
  // Takes these bytes; Errc::count_mismatch unless there is one for each element of the shape.
  Image(const Shape& shape, std::vector<std::uint8_t> bytes);

  Image(const Image& other) = default;
  Image& operator=(const Image& other) = default;
  Image(Image&& other) noexcept;
  Image& operator=(Image&& other) noexcept;
  ~Image() = default;

  // {height, width} for gray, {height, width, channels} for colours.
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t height() const noexcept { return shape_.begin()[0]; }
  std::int64_t width() const noexcept { return shape_.begin()[1]; }
  int channels() const noexcept { return shape_.rank() == 2 ? 1 : static_cast<int>(shape_.begin()[2]); }

  std::span<std::uint8_t> bytes() noexcept { return bytes_; }
  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  std::uint8_t* data() noexcept { return bytes_.data(); }
  const std::uint8_t* data() const noexcept { return bytes_.data(); }

  // The channels of one pixel; Errc::invalid_argument if there is no such pixel.
  std::span<std::uint8_t> at(std::int64_t y, std::int64_t x) { return bytes().subspan(offset(y, x), pixel_bytes()); }
  std::span<const std::uint8_t> at(std::int64_t y, std::int64_t x) const {
    return bytes().subspan(offset(y, x), pixel_bytes());
  }

  friend bool operator==(const Image&, const Image&) noexcept = default;

 private:
  std::size_t offset(std::int64_t y, std::int64_t x) const;
  std::size_t pixel_bytes() const noexcept { return static_cast<std::size_t>(channels()); }

  Shape shape_{0, 0};
  std::vector<std::uint8_t> bytes_;
};

// The channels of a loaded image.
enum class Channels : std::uint8_t {
  rgba,     // always four: alpha is 255 where the file has none
  rgb,      // three: alpha is discarded
  gray,     // one: 0.299 R + 0.587 G + 0.114 B, like the "grayscale" kernel; alpha is discarded
  as_file,  // gray, RGB or RGBA, depending on the file
};

struct LoadImageOptions {
  Channels channels = Channels::rgba;
  // Whether to apply the Exif orientation, with which cameras record how they were held. This may swap the file's width
  // and height.
  bool upright = true;
  // Larger files are refused before any memory is allocated. The default is 1 GiB of RGBA. So is a progressive JPEG
  // with more than 100 scans, or fewer (but at least 20) above 5 million pixels: each takes as long as a whole
  // picture.
  std::int64_t max_pixels = std::int64_t{1} << 28;
};

struct SaveImageOptions {
  int quality = 90;  // of a JPEG, 1 to 100; PNG is lossless
};

enum class ImageFormat : std::uint8_t { png, jpeg };

// Reads a PNG or JPEG file, detected by content rather than name. Supports all kinds of both: palettes, 1 to 16 bits,
// interlacing, transparent colours; progressive, gray, CMYK. Values are converted to 8 bits and otherwise unchanged:
// gamma and colour profiles are not applied, alpha is not premultiplied. CMYK is converted to RGB by the plain formula.
//
// Blocks. Throws Errc::io_error, with the path and the reason, if the file does not exist, is not a regular file,
// cannot be read, is neither PNG nor JPEG, is damaged or truncated, or is larger than the options allow. Never returns
// a partial image.
//
//   Image photo = load_image("photo.jpg");
//   Image mask = load_image("mask.png", {.channels = Channels::gray});
TESSERA_API Image load_image(const std::filesystem::path& path, const LoadImageOptions& options = {});

// Writes a PNG (.png) or a JPEG (.jpg, .jpeg), chosen by the extension in any case; another extension throws
// Errc::invalid_argument. JPEG has no alpha: it is discarded. The file is written under a temporary name and renamed,
// so that it is either complete or, if this throws Errc::io_error, unchanged.
//
// A buffer must be u8 [height,width], [height,width,1], [height,width,3] or [height,width,4] (Errc::dtype_mismatch,
// Errc::shape_mismatch). Blocks, for a buffer also until the commands that write it have finished; throws its cause if
// the buffer is poisoned.
//
//   save_image("gray.png", gray);   save_image("small.jpg", photo, {.quality = 75});
TESSERA_API void save_image(const std::filesystem::path& path, const Image& image,
                            const SaveImageOptions& options = {});
TESSERA_API void save_image(const std::filesystem::path& path, const Buffer& buffer,
                            const SaveImageOptions& options = {});

// Like load_image and save_image, with the file in memory.
TESSERA_API Image decode_image(std::span<const std::byte> file, const LoadImageOptions& options = {});
template <std::ranges::contiguous_range R>
  requires(sizeof(std::ranges::range_value_t<R>) == 1)
Image decode_image(const R& file, const LoadImageOptions& options = {}) {
  return decode_image(std::as_bytes(std::span(std::ranges::data(file), std::ranges::size(file))), options);
}
TESSERA_API std::vector<std::byte> encode_image(const Image& image, ImageFormat format,
                                                const SaveImageOptions& options = {});

}  // namespace tessera
