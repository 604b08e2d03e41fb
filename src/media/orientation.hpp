#pragma once

#include <tessera/image.hpp>

#include <cstdint>
#include <span>

namespace tessera::media {

// The orientation, 1 to 8, in Exif data (a TIFF header and its first directory). 1, which is upright, if there is none
// or the data is damaged: the picture matters more than its metadata.
int exif_orientation(std::span<const std::uint8_t> exif) noexcept;

// Turns a picture with this orientation upright:
//   1 unchanged      2 mirrored left to right     3 turned by 180°    4 mirrored top to bottom
//   5 transposed     6 turned clockwise by 90°    7 transposed along the other diagonal    8 turned by 90° the other
//   way
Image upright(Image image, int orientation);

}  // namespace tessera::media
