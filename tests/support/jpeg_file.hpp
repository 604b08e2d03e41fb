#pragma once

#include <tessera/image.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <string>
#include <vector>

// JPEG files written and read by libjpeg itself, which ends the process if it cannot.
namespace tessera::test {

// Any kind of JPEG: samples in the order of pixels and channels, of which there are as many as the colours have.
struct JpegFile {
  int width, height;
  J_COLOR_SPACE samples_are = JCS_RGB;
  std::vector<std::uint8_t> samples = {};
  J_COLOR_SPACE colors = JCS_YCbCr;  // in the file
  bool is_progressive = false, is_arithmetic = false;
  bool has_adobe_marker = true;  // of CMYK
  int quality = 95;
  std::string exif = {};  // the TIFF header and what follows

  std::vector<std::byte> bytes() const {
    jpeg_compress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    unsigned char* memory = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &memory, &size);
    jpeg.image_width = static_cast<JDIMENSION>(width);
    jpeg.image_height = static_cast<JDIMENSION>(height);
    jpeg.in_color_space = samples_are;
    jpeg.input_components = samples_are == JCS_GRAYSCALE ? 1 : samples_are == JCS_CMYK ? 4 : 3;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, colors);
    jpeg_set_quality(&jpeg, quality, TRUE);
    if (is_progressive) jpeg_simple_progression(&jpeg);
    jpeg.arith_code = is_arithmetic;
    if (!has_adobe_marker) jpeg.write_Adobe_marker = FALSE;
    for (int i = 0; i < jpeg.num_components; ++i) jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    if (!exif.empty()) {
      const std::string marker = std::string("Exif\0\0", 6) + exif;
      jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                        static_cast<unsigned>(marker.size()));
    }
    while (jpeg.next_scanline < jpeg.image_height) {
      const std::size_t row = static_cast<std::size_t>(width * jpeg.input_components);
      auto* from = const_cast<JSAMPROW>(samples.data() + jpeg.next_scanline * row);
      jpeg_write_scanlines(&jpeg, &from, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    const auto* begin = reinterpret_cast<const std::byte*>(memory);
    std::vector<std::byte> file(begin, begin + size);
    std::free(memory);
    return file;
  }
};

// Gray or RGB, as the file is.
inline Image read_jpeg(const std::vector<std::byte>& file) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg_start_decompress(&jpeg);
  Image image(Shape{jpeg.output_height, jpeg.output_width, jpeg.output_components});
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW to = image.at(jpeg.output_scanline, 0).data();
    jpeg_read_scanlines(&jpeg, &to, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return image;
}

}  // namespace tessera::test
