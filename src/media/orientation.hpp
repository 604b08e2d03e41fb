#pragma once

#include <tessera/image.hpp>

#include <cstdint>
#include <span>

namespace tessera::media {

// What Exif data (a TIFF header and its first directory) says about which side is up: 1 to 8. 1, which is "as it is",
// if it says nothing or is damaged: a picture is worth more than the note about it.
int exif_orientation(std::span<const std::uint8_t> exif) noexcept;

// The picture that a viewer shows for this orientation:
//   1 as it is       2 mirrored left to right     3 turned by 180°    4 mirrored top to bottom
//   5 transposed     6 turned clockwise by 90°    7 transposed along the other diagonal    8 turned by 90° the other
//   way
Image upright(Image image, int orientation);

}  // namespace tessera::media
