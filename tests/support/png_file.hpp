#pragma once

#include <tessera/image.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>

// PNG files written and read by hand after the standard, to compare with.
namespace tessera::test {

using File = std::vector<std::byte>;

inline void append(File& file, std::string_view text) {
  for (const char c : text) file.push_back(static_cast<std::byte>(c));
}
inline std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift & 255));
  return text;
}

inline void append_chunk(File& file, std::string_view name, std::string_view data) {
  append(file, big_endian(static_cast<std::uint32_t>(data.size())));
  std::string rest = std::string(name).append(data);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(rest.data()), static_cast<uInt>(rest.size()));
  append(file, rest.append(big_endian(static_cast<std::uint32_t>(crc))));
}

// Any kind of PNG.
struct PngFile {
  enum Colors : std::uint8_t { gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgba = 6 };

  int width, height, depth = 8;
  Colors colors = gray;
  std::vector<int> samples = {};  // in the order of pixels and channels
  bool is_interlaced = false;
  std::string plte = {}, trns = {}, exif = {};
  std::vector<std::pair<std::string, std::string>> others = {};  // chunks

  int channels() const { return colors == rgb ? 3 : colors == gray_alpha ? 2 : colors == rgba ? 4 : 1; }

  File bytes() const {
    File file;
    append(file, "\x89PNG\r\n\x1a\n");
    std::string header = big_endian(static_cast<std::uint32_t>(width)) + big_endian(static_cast<std::uint32_t>(height));
    header += {static_cast<char>(depth), static_cast<char>(colors), 0, 0, static_cast<char>(is_interlaced)};
    append_chunk(file, "IHDR", header);
    for (const auto& [name, data] : others) append_chunk(file, name, data);
    if (!plte.empty()) append_chunk(file, "PLTE", plte);
    if (!trns.empty()) append_chunk(file, "tRNS", trns);
    if (!exif.empty()) append_chunk(file, "eXIf", exif);
    append_chunk(file, "IDAT", deflated());
    append_chunk(file, "IEND", "");
    return file;
  }

 private:
  // Every dx-th pixel of every dy-th row, packed.
  void append_rows(std::string& data, int x0, int y0, int dx, int dy) const {
    if (x0 >= width) return;
    for (int y = y0; y < height; y += dy) {
      data.push_back(0);  // no filter
      int filled = 0;
      for (int x = x0; x < width; x += dx) {
        for (int c = 0; c < channels(); ++c) {
          const int sample = samples.at(static_cast<std::size_t>((y * width + x) * channels() + c));
          if (depth == 16) data.push_back(static_cast<char>(sample >> 8));
          if (depth >= 8) {
            data.push_back(static_cast<char>(sample & 255));
            continue;
          }
          if (filled == 0) data.push_back(0);
          filled = (filled + depth) % 8;
          data.back() = static_cast<char>(data.back() | sample << (8 - filled) % 8);
        }
      }
    }
  }

  std::string deflated() const {
    std::string data;
    if (is_interlaced) {
      append_rows(data, 0, 0, 8, 8);
      append_rows(data, 4, 0, 8, 8);
      append_rows(data, 0, 4, 4, 8);
      append_rows(data, 2, 0, 4, 4);
      append_rows(data, 0, 2, 2, 4);
      append_rows(data, 1, 0, 2, 2);
      append_rows(data, 0, 1, 1, 2);
    } else {
      append_rows(data, 0, 0, 1, 1);
    }
    // Stored blocks, of at most 65,535 bytes each.
    std::string stored = "\x78\x01";
    for (std::size_t at = 0; at < data.size(); at += 65535) {
      const std::string block = data.substr(at, 65535);
      const auto size = static_cast<unsigned>(block.size());
      stored.push_back(static_cast<char>(at + block.size() == data.size()));
      for (const unsigned number : {size, ~size}) {
        stored += {static_cast<char>(number & 255), static_cast<char>(number >> 8 & 255)};
      }
      stored += block;
    }
    const auto check = adler32(1, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    return stored + big_endian(static_cast<std::uint32_t>(check));
  }
};

// The picture in a PNG of 8 bits that is neither interlaced nor has a palette; throws std::runtime_error for others.
inline Image read_png(const File& file) {
  const auto expect = [](bool holds) {
    if (!holds) throw std::runtime_error("not the PNG that was expected");
  };
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(file.at(at)); };
  const auto number = [&](std::size_t at) {
    return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
  };
  const std::size_t width = number(16), height = number(20), colors = byte(25);
  const std::size_t channels = colors == 0 ? 1 : colors == 2 ? 3 : 4;
  expect(byte(24) == 8 && (colors == 0 || colors == 2 || colors == 6) && byte(28) == 0);

  std::vector<Bytef> packed;
  std::string name;
  for (std::size_t at = 8; name != "IEND"; at += 12 + number(at)) {
    name.clear();
    for (std::size_t i = 4; i < 8; ++i) name.push_back(static_cast<char>(byte(at + i)));
    const std::size_t size = number(at);
    const auto* data = reinterpret_cast<const Bytef*>(file.data() + at + 8);
    expect(crc32(crc32(0, data - 4, 4), data, static_cast<uInt>(size)) == number(at + 8 + size) || size == 0);
    if (name == "IDAT") packed.insert(packed.end(), data, data + size);
  }

  const std::size_t row = width * channels;
  std::vector<Bytef> filtered((row + 1) * height);
  uLongf size = filtered.size();
  expect(uncompress(filtered.data(), &size, packed.data(), packed.size()) == Z_OK && size == filtered.size());
  std::vector<std::uint8_t> pixels(row * height);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < row; ++x) {
      const auto at = [&](bool left, bool up) {
        return (left && x < channels) || (up && y == 0) ? 0 : int{pixels[(y - up) * row + x - (left ? channels : 0)]};
      };
      const int a = at(true, false), b = at(false, true), c = at(true, true);
      const int pa = std::abs(b - c), pb = std::abs(a - c), pc = std::abs(a + b - 2 * c);
      const int guesses[] = {0, a, b, (a + b) / 2, pa <= pb && pa <= pc ? a : pb <= pc ? b : c};
      expect(filtered[y * (row + 1)] <= 4);
      pixels[y * row + x] =
          static_cast<std::uint8_t>(filtered[y * (row + 1) + 1 + x] + guesses[filtered[y * (row + 1)]]);
    }
  }
  return Image(channels == 1 ? Shape{height, width} : Shape{height, width, channels}, std::move(pixels));
}

}  // namespace tessera::test
