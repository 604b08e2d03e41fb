#pragma once

#include <tessera/error.hpp>
#include <tessera/image.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

// File formats. Their errors give only the reason; the caller adds the file's name.
namespace tessera::media {

struct Decoded {
  Image image;
  int orientation = 1;  // Exif orientation, see orientation.hpp
};

// Decode to the channels of the options, except that for Channels::gray a colour file is decoded to RGB or RGBA.
Decoded decode_png(std::span<const std::byte> file, const LoadImageOptions& options);
Decoded decode_jpeg(std::span<const std::byte> file, const LoadImageOptions& options);

std::vector<std::byte> encode_png(const Image& image);
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

// Throws Errc::io_error if the image has more pixels than the options allow, or more than a file of this size can hold:
// the format stores at most `densest` pixels per byte.
void check_size(std::int64_t height, std::int64_t width, std::size_t file_bytes, std::int64_t densest,
                const LoadImageOptions& options);

Shape image_shape(std::int64_t height, std::int64_t width, int channels);

// Appends `more` bytes; returns false if out of memory. For callbacks, which must not throw.
inline bool grow(std::vector<std::byte>& bytes, std::size_t more) noexcept {
  try {
    bytes.resize(bytes.size() + more);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace tessera::media
