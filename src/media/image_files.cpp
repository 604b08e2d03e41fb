#include <tessera/buffer.hpp>
#include <tessera/image.hpp>

#include "core/failure.hpp"
#include "core/text.hpp"
#include "media/codec.hpp"
#include "media/files.hpp"
#include "media/orientation.hpp"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

namespace fs = std::filesystem;
using core::text;

namespace media {

void check_size(std::int64_t height, std::int64_t width, std::size_t file_bytes, std::int64_t densest,
                const LoadImageOptions& options) {
  const std::int64_t pixels = height * width;  // both fit 32 bits
  const auto refuse = [&](const auto&... why) {
    throw Error(Errc::io_error, text("it claims ", height, " x ", width, " pixels, ", why...));
  };
  if (pixels > options.max_pixels)
    refuse("at most ", options.max_pixels, " are allowed (LoadImageOptions::max_pixels)");
  if (static_cast<std::size_t>(pixels / densest) > file_bytes) refuse("but has only ", file_bytes, " bytes");
}

namespace {

// Calls f and adds the call and the file to the errors it throws.
template <class F>
auto in_context(const std::string& context, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& error) {
    throw Error(error.code(), text(context, error.what()));
  } catch (const fs::filesystem_error& error) {
    throw Error(Errc::io_error, text(context, error.code().message()));
  } catch (const std::bad_alloc&) {
    throw Error(Errc::out_of_memory, text(context, "no memory"));
  }
}
// No path is longer than PATH_MAX.
std::string context(std::string_view call, const fs::path& path) {
  return text("[", call, "] ", core::shortened(path.string(), PATH_MAX), ": ");
}

struct Signature {
  std::size_t at;  // offset in the file
  std::string_view bytes;
  std::string_view name;
  std::optional<ImageFormat> format;
};

using namespace std::string_view_literals;
// The supported formats, and others that often carry their extensions.
constexpr Signature signatures[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "PNG", ImageFormat::png},
    {0, "\xff\xd8\xff"sv, "JPEG", ImageFormat::jpeg},
    {0, "GIF8"sv, "GIF", {}},
    {0, "BM"sv, "BMP", {}},
    {8, "WEBP"sv, "WebP", {}},
    {0, "II*\0"sv, "TIFF", {}},
    {0, "MM\0*"sv, "TIFF", {}},
    {4, "ftypavif"sv, "AVIF", {}},
    {4, "ftypheic"sv, "HEIC", {}},
};

ImageFormat format_of(std::span<const std::byte> start) {
  if (start.empty()) throw Error(Errc::io_error, "it is empty");
  for (const auto& [at, bytes, name, format] : signatures) {
    if (start.size() < at + bytes.size() || std::memcmp(start.data() + at, bytes.data(), bytes.size()) != 0) continue;
    if (format) return *format;
    throw Error(Errc::io_error, text("it is ", name, "; only PNG and JPEG are supported"));
  }
  throw Error(Errc::io_error, "it is neither PNG nor JPEG");
}

// The "grayscale" kernel on the host.
Image to_gray(const Image& image) {
  Image gray(Shape{image.height(), image.width()});
  const std::uint8_t* from = image.data();
  for (std::uint8_t& to : gray.bytes()) {
    to = static_cast<std::uint8_t>((from[0] * 9798 + from[1] * 19235 + from[2] * 3735 + 16384) >> 15);
    from += image.channels();
  }
  return gray;
}

void check(const LoadImageOptions& options) {
  if (options.channels > Channels::as_file) {
    throw Error(Errc::invalid_argument,
                text("there is no Channels with the number ", static_cast<unsigned>(options.channels)));
  }
  if (options.max_pixels < 1) {
    throw Error(Errc::invalid_argument, text("max_pixels must be positive, got ", options.max_pixels));
  }
}
void check(const SaveImageOptions& options) {
  if (options.quality < 1 || options.quality > 100) {
    throw Error(Errc::invalid_argument, text("quality must be 1 to 100, got ", options.quality));
  }
}

Image decode(std::span<const std::byte> file, const LoadImageOptions& options) {
  Decoded decoded = format_of(file) == ImageFormat::png ? decode_png(file, options) : decode_jpeg(file, options);
  if (options.channels == Channels::gray && decoded.image.channels() != 1) decoded.image = to_gray(decoded.image);
  return upright(std::move(decoded.image), options.upright ? decoded.orientation : 1);
}

// At most 8 bytes per pixel, plus some for text, thumbnails and so on.
std::uintmax_t largest_file(const LoadImageOptions& options) {
  constexpr std::uintmax_t others = std::uintmax_t{1} << 28, bound = std::uintmax_t{1} << 56;
  return std::min(static_cast<std::uintmax_t>(options.max_pixels), bound) * 8 + others;
}

std::vector<std::byte> encode(const Image& image, ImageFormat format, const SaveImageOptions& options) {
  check(options);
  if (image.bytes().empty()) {
    throw Error(Errc::invalid_argument, text("the image has no pixels: ", to_string(image.shape())));
  }
  return format == ImageFormat::png ? encode_png(image) : encode_jpeg(image, options.quality);
}

ImageFormat format_by_name(const fs::path& path) {
  constexpr std::string_view known = ".png, .jpg or .jpeg";
  std::string extension = path.extension().string();
  if (extension.empty()) {
    throw Error(Errc::invalid_argument, text("the name must end in ", known, ", which selects the format"));
  }
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (extension == ".png") return ImageFormat::png;
  if (extension == ".jpg" || extension == ".jpeg") return ImageFormat::jpeg;
  throw Error(Errc::invalid_argument,
              text("unknown extension ", core::in_quotes(path.extension().string()), ", not ", known));
}

void expect_image(const Buffer& buffer) {
  if (!buffer) throw Error(Errc::invalid_argument, "the buffer is an empty handle");
  const Shape& shape = buffer.shape();
  const std::string given = to_string(buffer.dtype(), shape);
  if (buffer.dtype() != u8) throw Error(Errc::dtype_mismatch, text("the buffer must be u8, got ", given));
  const bool has_channels = shape.rank() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4);
  if (shape.rank() == 2 || has_channels) return;
  throw Error(Errc::shape_mismatch, text("the buffer must be u8 [height,width], [height,width,1], [height,width,3] or "
                                         "[height,width,4], got ",
                                         given));
}

// Keeps the chain of causes, so that the reason why a command failed is not lost.
Image read(const Buffer& buffer, const std::string& context) {
  try {
    return Image(buffer.shape(), buffer.read<std::uint8_t>());
  } catch (const Error& error) {
    throw Error(core::make_failure(context + "the buffer cannot be read", error.failure()));
  }
}

}  // namespace

}  // namespace media

Image decode_image(std::span<const std::byte> file, const LoadImageOptions& options) {
  return media::in_context("[decode_image] ", [&] {
    media::check(options);
    return media::decode(file, options);
  });
}

std::vector<std::byte> encode_image(const Image& image, ImageFormat format, const SaveImageOptions& options) {
  return media::in_context("[encode_image] ", [&] { return media::encode(image, format, options); });
}

Image load_image(const fs::path& path, const LoadImageOptions& options) {
  return media::in_context(media::context("load_image", path), [&] {
    media::check(options);
    return media::decode(media::read_file(path, media::largest_file(options), media::format_of), options);
  });
}

void save_image(const fs::path& path, const Image& image, const SaveImageOptions& options) {
  media::in_context(media::context("save_image", path),
                    [&] { media::write_file(path, media::encode(image, media::format_by_name(path), options)); });
}

void save_image(const fs::path& path, const Buffer& buffer, const SaveImageOptions& options) {
  const std::string context = media::context("save_image", path);
  media::in_context(context, [&] {
    media::format_by_name(path);
    media::check(options);
    media::expect_image(buffer);
  });
  save_image(path, media::read(buffer, context), options);
}

}  // namespace tessera
