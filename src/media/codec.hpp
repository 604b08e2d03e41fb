#pragma once

#include <tessera/error.hpp>
#include <tessera/image.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

// The formats of files. What they throw says the reason alone; whoever calls them knows the file's name.
namespace tessera::media {

struct Decoded {
  Image image;
  int orientation = 1;  // as Exif counts them, see orientation.hpp
};

// The image has the channels that are asked for; for Channels::gray a coloured file gives RGB or RGBA.
Decoded decode_png(std::span<const std::byte> file, const LoadImageOptions& options);
Decoded decode_jpeg(std::span<const std::byte> file, const LoadImageOptions& options);

std::vector<std::byte> encode_png(const Image& image);
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

// Errc::io_error if a file of so many bytes has more pixels than the options allow, or more than it can hold:
// no file of the format has more than `densest` pixels a byte.
void check_size(std::int64_t height, std::int64_t width, std::size_t file_bytes, std::int64_t densest,
                const LoadImageOptions& options);

Shape image_shape(std::int64_t height, std::int64_t width, int channels);

// Makes room for as many more bytes; false if there is no memory. For callbacks, which must not throw.
inline bool grow(std::vector<std::byte>& bytes, std::size_t more) noexcept {
  try {
    bytes.resize(bytes.size() + more);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace tessera::media
