// libjpeg reports errors with longjmp, which must not skip destructors. It jumps only over the functions below that
// call setjmp and over the callbacks, so these have no objects with destructors: their state lives in a struct of the
// caller.
#include "core/text.hpp"
#include "media/codec.hpp"
#include "media/orientation.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <jerror.h>
#include <jpeglib.h>
#include <string>
#include <string_view>

namespace tessera::media {

using core::text;

namespace {

// A block of 8 x 8 pixels takes at least one bit.
constexpr std::int64_t densest = 8 * 64;
// Each scan touches all pixels, even if it takes a few bytes, so a small file with very many would take hours. Encoders
// write about ten. Pictures of more than 5 million pixels may have fewer scans than others: 100 empty scans of that
// many take 0.4 s, and 20 of the largest picture 3.5 s instead of 1.
constexpr std::int64_t most_scans = 100;
constexpr std::int64_t always_allowed_scans = 20;
constexpr std::int64_t most_scanned_pixels = std::int64_t{1} << 29;  // of all scans
constexpr int exif_marker = JPEG_APP0 + 1;
constexpr std::string_view exif_name("Exif\0\0", 6);

struct Failure {
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> reason{};
  Errc code = Errc::io_error;
};

Failure& failing_of(j_common_ptr jpeg) { return *static_cast<Failure*>(jpeg->client_data); }

[[noreturn]] void on_error(j_common_ptr jpeg) {
  Failure& failure = failing_of(jpeg);
  if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) failure.code = Errc::out_of_memory;
  jpeg->err->format_message(jpeg, failure.reason.data());
  std::longjmp(failure.escape, 1);  // NOLINT(cert-err52-cpp)
}

// libjpeg continues after damage and silently fills the missing part with gray.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;  // a trace message
  switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
      return;  // nothing is missing
    default:
      on_error(jpeg);
  }
}
void on_output(j_common_ptr) {}

void set_errors(Failure& failure) {
  jpeg_std_error(&failure.errors);
  failure.errors.error_exit = on_error;
  failure.errors.emit_message = on_message;
  failure.errors.output_message = on_output;
}

[[noreturn]] void fail(const Failure& failure, std::string_view task) {
  throw Error(failure.code, text("cannot ", task, " the JPEG: ", failure.reason.data()));
}

// --- reading

struct Reader : Failure {
  explicit Reader(std::span<const std::byte> of_file) : file(of_file) {
    set_errors(*this);
    jpeg.err = &errors;
    jpeg.client_data = static_cast<Failure*>(this);
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::span<const std::byte> file;
  jpeg_decompress_struct jpeg{};
  jpeg_progress_mgr progress{};
  int allowed_scans = 0;  // set once the header was read

  void set_allowed_scans() {
    const std::int64_t pixels = std::int64_t{jpeg.image_height} * jpeg.image_width;
    allowed_scans = static_cast<int>(
        std::clamp(most_scanned_pixels / std::max<std::int64_t>(1, pixels), always_allowed_scans, most_scans));
  }
};

// libjpeg calls this for each row of blocks of each scan.
void on_progress(j_common_ptr jpeg) {
  auto& reader = static_cast<Reader&>(failing_of(jpeg));
  if (reader.jpeg.input_scan_number <= reader.allowed_scans) return;
  std::snprintf(reader.reason.data(), reader.reason.size(), "it has more than %d scans", reader.allowed_scans);
  std::longjmp(reader.escape, 1);  // NOLINT(cert-err52-cpp)
}

bool read_header(Reader& reader) {
  if (setjmp(reader.escape)) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&reader.jpeg);     // keeps err and client_data
  reader.progress.progress_monitor = on_progress;
  reader.jpeg.progress = &reader.progress;
  jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char*>(reader.file.data()), reader.file.size());
  jpeg_save_markers(&reader.jpeg, exif_marker, 0xFFFF);
  jpeg_read_header(&reader.jpeg, TRUE);
  reader.set_allowed_scans();
  return true;
}

int orientation_of(const Reader& reader) {
  for (const jpeg_marker_struct* marker = reader.jpeg.marker_list; marker; marker = marker->next) {
    const std::span<const std::uint8_t> data(marker->data, marker->data_length);
    if (marker->marker != exif_marker || data.size() < exif_name.size()) continue;
    if (std::memcmp(data.data(), exif_name.data(), exif_name.size()) != 0) continue;
    return exif_orientation(data.subspan(exif_name.size()));
  }
  return 1;
}

bool is_cmyk(const Reader& reader) {
  return reader.jpeg.jpeg_color_space == JCS_CMYK || reader.jpeg.jpeg_color_space == JCS_YCCK;
}

// How many channels libjpeg should decode.
int channels_of(const Reader& reader, Channels wanted) {
  if (is_cmyk(reader)) return 4;
  const bool is_gray = reader.jpeg.jpeg_color_space == JCS_GRAYSCALE;
  switch (wanted) {
    case Channels::rgba:
      return 4;
    case Channels::rgb:
      return 3;
    case Channels::gray:
    case Channels::as_file:
      return is_gray ? 1 : 3;
  }
  return 4;
}

bool read_pixels(Reader& reader, int channels, std::uint8_t* to) {
  if (setjmp(reader.escape)) return false;  // NOLINT(cert-err52-cpp)
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg.out_color_space = is_cmyk(reader) ? JCS_CMYK
                         : channels == 1 ? JCS_GRAYSCALE
                         : channels == 3 ? JCS_RGB
                                         : JCS_EXT_RGBA;
  jpeg_start_decompress(&jpeg);
  const std::size_t row = std::size_t{jpeg.output_width} * static_cast<std::size_t>(channels);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW at = to + jpeg.output_scanline * row;
    jpeg_read_scanlines(&jpeg, &at, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

// To RGB, with or without alpha. Adobe's programs, which write nearly all CMYK files, store the remaining light, others
// the amount of ink.
Image from_cmyk(const Image& cmyk, bool stores_light, int channels) {
  Image image(image_shape(cmyk.height(), cmyk.width(), channels));
  std::uint8_t* to = image.data();
  const std::span<const std::uint8_t> inks = cmyk.bytes();
  for (std::size_t i = 0; i < inks.size(); i += 4, to += channels) {
    const auto light = [&](std::size_t ink) { return stores_light ? inks[i + ink] : 255 - inks[i + ink]; };
    for (std::size_t c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
    if (channels == 4) to[3] = 255;
  }
  return image;
}

// --- writing

struct Writer : Failure {
  Writer(const Image& of_image, int with_quality) : image(of_image), quality(with_quality) {
    set_errors(*this);
    jpeg.err = &errors;
    jpeg.client_data = static_cast<Failure*>(this);
  }
  ~Writer() { jpeg_destroy_compress(&jpeg); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  const Image& image;
  int quality;
  std::vector<std::byte> file;
  jpeg_compress_struct jpeg{};
  jpeg_destination_mgr destination{};
};

// libjpeg writes into the free space at the end of the vector.
void make_room(j_compress_ptr jpeg) {
  auto& writer = static_cast<Writer&>(failing_of(reinterpret_cast<j_common_ptr>(jpeg)));
  const std::size_t used = writer.file.size(), room = std::max(used, std::size_t{1} << 16);
  if (!grow(writer.file, room)) ERREXIT1(jpeg, JERR_OUT_OF_MEMORY, 0);
  writer.destination.next_output_byte = reinterpret_cast<JOCTET*>(writer.file.data() + used);
  writer.destination.free_in_buffer = room;
}
boolean on_full(j_compress_ptr jpeg) {
  make_room(jpeg);
  return TRUE;
}
void on_end(j_compress_ptr jpeg) {
  auto& writer = static_cast<Writer&>(failing_of(reinterpret_cast<j_common_ptr>(jpeg)));
  writer.file.resize(writer.file.size() - writer.destination.free_in_buffer);
}

bool write(Writer& writer) {
  if (setjmp(writer.escape)) return false;  // NOLINT(cert-err52-cpp)
  jpeg_compress_struct& jpeg = writer.jpeg;
  jpeg_create_compress(&jpeg);
  writer.destination.init_destination = make_room;
  writer.destination.empty_output_buffer = on_full;
  writer.destination.term_destination = on_end;
  jpeg.dest = &writer.destination;

  const int channels = writer.image.channels();
  jpeg.image_width = static_cast<JDIMENSION>(writer.image.width());
  jpeg.image_height = static_cast<JDIMENSION>(writer.image.height());
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBX;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, writer.quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  const std::size_t row = std::size_t{jpeg.image_width} * static_cast<std::size_t>(channels);
  while (jpeg.next_scanline < jpeg.image_height) {
    // libjpeg takes non-const pointers to data that it does not change.
    auto* from = const_cast<JSAMPROW>(writer.image.data() + jpeg.next_scanline * row);
    jpeg_write_scanlines(&jpeg, &from, 1);
  }
  jpeg_finish_compress(&jpeg);
  return true;
}

}  // namespace

Decoded decode_jpeg(std::span<const std::byte> file, const LoadImageOptions& options) {
  Reader reader(file);
  if (!read_header(reader)) fail(reader, "decode");
  const jpeg_decompress_struct& jpeg = reader.jpeg;
  // Arithmetic coding has no minimum number of bits.
  check_size(jpeg.image_height, jpeg.image_width, file.size(), jpeg.arith_code ? options.max_pixels : densest, options);
  const int channels = channels_of(reader, options.channels);
  Decoded decoded{.image = Image(image_shape(jpeg.image_height, jpeg.image_width, channels)),
                  .orientation = orientation_of(reader)};
  if (!read_pixels(reader, channels, decoded.image.data())) fail(reader, "decode");
  if (is_cmyk(reader)) {
    decoded.image = from_cmyk(decoded.image, jpeg.saw_Adobe_marker, options.channels == Channels::rgba ? 4 : 3);
  }
  return decoded;
}

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  constexpr std::int64_t longest = JPEG_MAX_DIMENSION;
  if (std::max(image.height(), image.width()) > longest) {
    throw Error(Errc::invalid_argument,
                text("a JPEG has at most ", longest, " pixels per side, the image is ", to_string(image.shape())));
  }
  Writer writer(image, quality);
  if (!write(writer)) fail(writer, "encode");
  return std::move(writer.file);
}

}  // namespace tessera::media
