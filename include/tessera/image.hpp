#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ranges>
#include <span>
#include <vector>

namespace tessera {

// A picture in the host's memory: rows from top to bottom, pixels from left to right, one byte a channel. A value like
// std::vector: a copy has pixels of its own, a move takes them and leaves an image without pixels behind.
//
//   Image photo = load_image("photo.png");
//   photo.at(0, 0)[3] = 0;                    // the first pixel's alpha
//   Buffer pixels = device.buffer(photo);     // u8[height,width,4]
class TESSERA_API Image {
 public:
  // Without pixels: [0,0].
  Image() noexcept = default;
  // [height,width] for gray (also given as [height,width,1]), [height,width,3] for RGB, [height,width,4] for RGBA;
  // Errc::shape_mismatch for any other. Black, and transparent if there is alpha.
  explicit Image(const Shape& shape);
  // With these bytes, as many as the shape has elements (Errc::count_mismatch).
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

// What an image that is loaded has.
enum class Channels : std::uint8_t {
  rgba,     // always four: alpha is 255 where the file has none
  rgb,      // three: alpha is dropped
  gray,     // one: alpha is dropped, colours become 0.299 R + 0.587 G + 0.114 B, as the kernel "grayscale" makes them
  as_file,  // gray, RGB or RGBA, whichever holds what the file has
};

struct LoadImageOptions {
  Channels channels = Channels::rgba;
  // Cameras store pictures as the sensor was held, with a note (the Exif orientation) which side is up. Turned
  // upright, width and height may be those of the file exchanged.
  bool upright = true;
  // A file that claims more is refused before memory is taken for it. The default is 1 GiB of RGBA.
  std::int64_t max_pixels = std::int64_t{1} << 28;
};

struct SaveImageOptions {
  int quality = 90;  // of a JPEG, 1 to 100; a PNG keeps every pixel as it is
};

enum class ImageFormat : std::uint8_t { png, jpeg };

// Reads a PNG or JPEG file; the content tells which, not the name. All kinds of both are read: palettes, 1 to 16 bits,
// interlaced, transparent colours; progressive, gray, CMYK. Values are those of the file, brought to 8 bits: gamma and
// colour profiles are not applied, alpha is not multiplied in. CMYK becomes RGB by the plain formula.
//
// Throws Errc::io_error, with the path and the reason, if there is no such file, if it cannot be read or is no regular
// file, and if it is neither PNG nor JPEG, damaged, cut off, or larger than the options allow. Never an image that is
// only there in part.
//
//   Image photo = load_image("photo.jpg");
//   Image mask = load_image("mask.png", {.channels = Channels::gray});
TESSERA_API Image load_image(const std::filesystem::path& path, const LoadImageOptions& options = {});

// Writes a PNG (.png) or a JPEG (.jpg, .jpeg; capital letters too), as the name's extension says; any other is
// Errc::invalid_argument. A JPEG has no alpha: it is dropped. The file is complete or, if this throws (Errc::io_error),
// as it was before: it is written under another name beside it and then renamed.
//
// A buffer is u8 [height,width], [height,width,1], [height,width,3] or [height,width,4] (Errc::dtype_mismatch,
// Errc::shape_mismatch). Blocks until the commands that write it are over, and throws their error if they failed.
//
//   save_image("gray.png", gray);   save_image("small.jpg", photo, {.quality = 75});
TESSERA_API void save_image(const std::filesystem::path& path, const Image& image,
                            const SaveImageOptions& options = {});
TESSERA_API void save_image(const std::filesystem::path& path, const Buffer& buffer,
                            const SaveImageOptions& options = {});

// The same with files in memory.
TESSERA_API Image decode_image(std::span<const std::byte> file, const LoadImageOptions& options = {});
template <std::ranges::contiguous_range R>
  requires(sizeof(std::ranges::range_value_t<R>) == 1)
Image decode_image(const R& file, const LoadImageOptions& options = {}) {
  return decode_image(std::as_bytes(std::span(std::ranges::data(file), std::ranges::size(file))), options);
}
TESSERA_API std::vector<std::byte> encode_image(const Image& image, ImageFormat format,
                                                const SaveImageOptions& options = {});

}  // namespace tessera
