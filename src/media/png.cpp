// libpng reports errors with longjmp, which must not skip destructors. It jumps only over the functions below that call
// setjmp and over the callbacks, so these have no objects with destructors: their state lives in a struct of the
// caller.
#include <png.h>

#include "core/text.hpp"
#include "media/codec.hpp"
#include "media/orientation.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera::media {

using core::text;

namespace {

// Lower than zlib's default: faster, and files are only slightly larger.
constexpr int compression_level = 3;
// Deflate expands a byte to at most 1032 bytes; a pixel may be a single bit.
constexpr std::int64_t densest = 1032 * 8;

struct Failure {
  std::array<char, 128> reason{};
  Errc code = Errc::io_error;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& failure = *static_cast<Failure*>(png_get_error_ptr(png));
  std::strncpy(failure.reason.data(), message, failure.reason.size() - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}  // recoverable

[[noreturn]] void fail(const Failure& failure, std::string_view task) {
  throw Error(failure.code, text("cannot ", task, " the PNG: ", failure.reason.data()));
}

// --- reading

struct Reader : Failure {
  explicit Reader(std::span<const std::byte> of_file)
      : file(of_file), png(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning)) {
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw Error(Errc::out_of_memory, "cannot decode the PNG: no memory");
    }
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::span<const std::byte> file;  // the unread rest
  png_structp png;
  png_infop info;

  // The header.
  png_uint_32 width = 0, height = 0;
  int depth = 0;
  bool has_color = false, has_alpha = false, has_palette = false;
  std::span<const std::uint8_t> exif;
};

void read_from_memory(png_structp png, png_bytep to, std::size_t size) {
  auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (size > reader.file.size()) png_error(png, "the file is truncated");
  std::memcpy(to, reader.file.data(), size);
  reader.file = reader.file.subspan(size);
}

bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(cert-err52-cpp)
  png_set_read_fn(reader.png, &reader, read_from_memory);
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() does this
  // Only the picture and its orientation: text chunks may be decompression bombs too.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
  png_read_info(reader.png, reader.info);

  int colors = 0;
  png_get_IHDR(reader.png, reader.info, &reader.width, &reader.height, &reader.depth, &colors, nullptr, nullptr,
               nullptr);
  reader.has_color = (colors & PNG_COLOR_MASK_COLOR) != 0;
  reader.has_palette = (colors & PNG_COLOR_MASK_PALETTE) != 0;
  reader.has_alpha = (colors & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0;
  png_uint_32 exif_size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &exif_size, &exif) != 0) reader.exif = {exif, exif_size};
  return true;
}

int channels_of(const Reader& reader, Channels wanted) {
  switch (wanted) {
    case Channels::rgba:
      return 4;
    case Channels::rgb:
      return 3;
    case Channels::gray:
      return reader.has_color ? 3 : 1;
    case Channels::as_file:
      return reader.has_alpha ? 4 : reader.has_color ? 3 : 1;
  }
  return 4;
}

// Replaces palette indices, which are the last `width` bytes of each row, by colours. Each index is read before a pixel
// overwrites it. libpng would turn indices beyond the palette into black.
void apply_palette(const Reader& reader, int channels, std::uint8_t* to) {
  png_colorp colors = nullptr;
  png_bytep alphas = nullptr;
  int color_count = 0, alpha_count = 0;
  png_get_PLTE(reader.png, reader.info, &colors, &color_count);
  png_get_tRNS(reader.png, reader.info, &alphas, &alpha_count, nullptr);
  for (png_uint_32 y = 0; y < reader.height; ++y) {
    const std::uint8_t* index = to + std::size_t{reader.width} * static_cast<std::size_t>(channels - 1);
    for (png_uint_32 x = 0; x < reader.width; ++x, ++index, to += channels) {
      const int at = *index;
      if (at >= color_count) png_error(reader.png, "a pixel has a colour that is not in the palette");
      to[0] = colors[at].red;
      to[1] = colors[at].green;
      to[2] = colors[at].blue;
      if (channels == 4) to[3] = at < alpha_count ? alphas[at] : 255;
    }
  }
}

void set_transformations(const Reader& reader, int channels) {
  if (reader.has_palette) {
    png_set_packing(reader.png);  // one byte per pixel
    return;
  }
  png_set_expand(reader.png);  // fewer than 8 bits to 8, transparent colours to alpha
  if (reader.depth == 16) png_set_scale_16(reader.png);
  if (!reader.has_color && channels >= 3) png_set_gray_to_rgb(reader.png);
  if (reader.has_alpha && channels != 4) png_set_strip_alpha(reader.png);
  if (!reader.has_alpha && channels == 4) png_set_add_alpha(reader.png, 255, PNG_FILLER_AFTER);
}

bool read_pixels(Reader& reader, int channels, std::uint8_t* to) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(cert-err52-cpp)
  set_transformations(reader, channels);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);

  const std::size_t row = std::size_t{reader.width} * static_cast<std::size_t>(channels);
  const std::size_t read = reader.has_palette ? reader.width : row;
  if (png_get_rowbytes(reader.png, reader.info) != read) png_error(reader.png, "its rows have an unexpected length");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < reader.height; ++y) png_read_row(reader.png, to + (y + 1) * row - read, nullptr);
  }
  png_read_end(reader.png, nullptr);
  if (reader.has_palette) apply_palette(reader, channels, to);
  return true;
}

// --- writing

struct Writer : Failure {
  explicit Writer(const Image& of_image)
      : image(of_image), png(png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning)) {
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
      png_destroy_write_struct(&png, nullptr);
      throw Error(Errc::out_of_memory, "cannot encode the PNG: no memory");
    }
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  const Image& image;
  std::vector<std::byte> file;
  png_structp png;
  png_infop info;
};

void write_to_memory(png_structp png, png_bytep from, std::size_t size) {
  auto& writer = *static_cast<Writer*>(png_get_io_ptr(png));
  const std::size_t before = writer.file.size();
  if (!grow(writer.file, size)) {
    writer.code = Errc::out_of_memory;
    png_error(png, "no memory");
  }
  std::memcpy(writer.file.data() + before, from, size);
}
void flush(png_structp) {}

bool write(Writer& writer) {
  if (setjmp(png_jmpbuf(writer.png))) return false;  // NOLINT(cert-err52-cpp)
  png_set_write_fn(writer.png, &writer, write_to_memory, flush);
  png_set_user_limits(writer.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(writer.png, compression_level);

  const int channels = writer.image.channels();
  const int colors = channels == 1 ? PNG_COLOR_TYPE_GRAY : channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA;
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(writer.image.width()),
               static_cast<png_uint_32>(writer.image.height()), 8, colors, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  const std::int64_t row = writer.image.width() * channels;
  for (std::int64_t y = 0; y < writer.image.height(); ++y) png_write_row(writer.png, writer.image.data() + y * row);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

Decoded decode_png(std::span<const std::byte> file, const LoadImageOptions& options) {
  Reader reader(file);
  if (!read_header(reader)) fail(reader, "decode");
  check_size(reader.height, reader.width, file.size(), densest, options);
  const int channels = channels_of(reader, options.channels);
  Decoded decoded{.image = Image(image_shape(reader.height, reader.width, channels)),
                  .orientation = exif_orientation(reader.exif)};
  if (!read_pixels(reader, channels, decoded.image.data())) fail(reader, "decode");
  return decoded;
}

std::vector<std::byte> encode_png(const Image& image) {
  constexpr std::int64_t longest = PNG_UINT_31_MAX;
  if (std::max(image.height(), image.width()) > longest) {
    throw Error(Errc::invalid_argument,
                text("a PNG has at most ", longest, " pixels per side, the image is ", to_string(image.shape())));
  }
  Writer writer(image);
  if (!write(writer)) fail(writer, "encode");
  return std::move(writer.file);
}

}  // namespace tessera::media
