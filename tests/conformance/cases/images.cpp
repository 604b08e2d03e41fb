#include "conformance/cases/cases.hpp"

namespace tessera::conformance {

namespace {

struct Size {
  std::int64_t height;
  std::int64_t width;
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all = {{1, 1}, {1, 9}, {9, 1}, {2, 3}, {17, 31}, {64, 67}, {0, 5}};
  return all;
}

// 0 channels: [H,W].
Shape image_shape(Size size, std::int64_t channels) {
  return channels == 0 ? Shape{size.height, size.width} : Shape{size.height, size.width, channels};
}

using Channels = std::vector<std::int64_t>;
const Channels any = {0, 1, 3, 4};
const Channels colors = {3, 4};

// The output is like the input.
void add_filter(Cases& to, const std::string& kernel, const Channels& channels, const std::vector<Params>& params) {
  for (const DType dtype : {u8, f32}) {
    for (const std::int64_t count : channels) {
      for (const Size size : sizes()) {
        for (const Params& given : params) {
          const Shape shape = image_shape(size, count);
          to.push_back({kernel, {{dtype, shape, Data::image}}, dtype, shape, given});
        }
      }
    }
  }
}

void add_filters(Cases& to) {
  add_filter(to, "gaussian_blur", any,
             {{},
              {{"radius", 0}},
              {{"radius", 2}},
              {{"radius", 3}, {"sigma", 0.8}},
              {{"radius", 12}},
              {{"radius", 5}, {"sigma", 9.5}},
              {{"radius", 2}, {"sigma", 0.1}},
              {{"sigma", 0.05}},
              {{"sigma", 1.75}}});
  add_filter(to, "sharpen", any,
             {{},
              {{"amount", 0.37}},
              {{"amount", -1.5}},
              {{"amount", 1.996}, {"radius", 5}, {"sigma", 2.5}},
              {{"amount", 4}, {"radius", 3}, {"sigma", 1.7}},
              {{"radius", 0}},
              {{"amount", 0}},
              {{"strength", 0.8}}});
  add_filter(to, "box_blur", any, {{}, {{"radius", 0}}, {{"radius", 2}}, {{"radius", 13}}});
  add_filter(to, "sobel", any, {{}});
  add_filter(to, "denoise", any,
             {{}, {{"radius", 1}}, {{"radius", 8}, {"sigma_space", 4.5}}, {{"sigma_color", 3.5}}, {{"strength", 0.3}}});
  // Windows larger than the image.
  for (const char* kernel : {"gaussian_blur", "box_blur"}) {
    for (const DType dtype : {u8, f32}) {
      to.push_back({kernel, {{dtype, {2, 3, 3}, Data::image}}, dtype, {2, 3, 3}, {{"radius", 64}}});
      to.push_back({kernel, {{dtype, {3, 40}, Data::image}}, dtype, {3, 40}, {{"radius", 17}}});
      to.push_back({kernel, {{dtype, {5, 71, 2}, Data::image}}, dtype, {5, 71, 2}, {{"radius", 100}}});
    }
  }
}

// Every filter with the borders that are not the default, on images that are smaller than the window too.
void add_borders(Cases& to) {
  struct Filter {
    const char* kernel;
    std::vector<Params> params;
  };
  const std::vector<Filter> filters = {
      {"gaussian_blur", {{{"radius", 4}}, {{"sigma", 0.9}}}},
      {"sharpen", {{{"amount", 0.5}, {"radius", 3}, {"sigma", 1.2}}, {{"amount", 2.5}}}},
      {"box_blur", {{{"radius", 3}}, {{"radius", 20}}}},
      {"sobel", {{}}},
      {"denoise", {{{"radius", 2}}}},
  };
  for (const Filter& filter : filters) {
    for (const Params& params : filter.params) {
      for (const char* border : {"reflect", "reflect_101", "wrap", "zero"}) {
        for (const DType dtype : {u8, f32}) {
          for (const Size size : {Size{1, 1}, Size{2, 3}, Size{1, 40}, Size{19, 33}}) {
            for (const std::int64_t channels : size.height < 19 ? Channels{0, 4} : Channels{0, 3, 4}) {
              const Shape shape = image_shape(size, channels);
              Params with_border = params;
              with_border.set("border", border);
              to.push_back({filter.kernel, {{dtype, shape, Data::image}}, dtype, shape, with_border});
            }
          }
        }
      }
    }
  }
}

// Weights that a program computes in a loop, far beyond the image.
void add_wide_borders(Cases& to) {
  for (const char* border : {"reflect", "reflect_101", "wrap", "zero"}) {
    for (const DType dtype : {u8, f32}) {
      const Params params = {{"radius", 70}, {"sigma", 20}, {"border", border}};
      to.push_back({"gaussian_blur", {{dtype, {2, 3, 3}, Data::image}}, dtype, {2, 3, 3}, params});
      to.push_back({"gaussian_blur", {{dtype, {3, 40}, Data::image}}, dtype, {3, 40}, params});
    }
  }
}

void add_colors(Cases& to) {
  add_filter(to, "brightness_contrast", any,
             {{}, {{"brightness", 0.2}}, {{"contrast", 1.7}}, {{"brightness", -0.3}, {"contrast", -0.5}}});
  add_filter(to, "saturation", colors, {{}, {{"amount", 0}}, {{"amount", 1.8}}, {{"amount", -0.4}}});
  add_filter(to, "sepia", colors, {{}, {{"amount", 0.4}}, {{"amount", 0}}});
  add_filter(to, "vignette", any, {{}, {{"strength", 1}, {"radius", 0.1}}, {{"radius", 1.2}}, {{"radius", 0}}});
  add_filter(to, "rgb_to_yuv", {3}, {{}});
  add_filter(to, "yuv_to_rgb", {3}, {{}});
}

void add_grayscale(Cases& to, DType dtype, Size size) {
  for (const std::int64_t channels : colors) {
    const Input x{dtype, image_shape(size, channels), Data::image};
    to.push_back({"grayscale", {x}, dtype, image_shape(size, 0)});
    to.push_back({"grayscale", {x}, dtype, image_shape(size, 1)});
    if (channels == 4) to.push_back({"grayscale", {x}, dtype, image_shape(size, 4)});
  }
}

void add_chroma_key(Cases& to, DType dtype, Size size) {
  const Value blue = dtype == u8 ? Value(10, 20, 200) : Value(0.1, 0.2, 0.8);
  for (const std::int64_t channels : colors) {
    const Input x{dtype, image_shape(size, channels), Data::image};
    for (const Params& params : std::vector<Params>{{},
                                                    {{"color", blue}},
                                                    {{"color", "#2080F1"}},
                                                    {{"color", "magenta"}},
                                                    {{"softness", 0}},
                                                    {{"threshold", 0.1}, {"softness", 0.6}}}) {
      to.push_back({"chroma_key", {x}, dtype, image_shape(size, 4), params});
    }
  }
}

void add_two_images(Cases& to, DType dtype, Size size) {
  for (const std::int64_t channels : colors) {
    const Input base{dtype, image_shape(size, channels), Data::image};
    const Input top{dtype, image_shape(size, 4), Data::image};
    for (const Params& params : std::vector<Params>{{}, {{"opacity", 0.35}}, {{"opacity", 0}}}) {
      to.push_back({"overlay_alpha", {base, top}, dtype, base.shape, params});
    }
  }
  for (const std::int64_t channels : any) {
    const Input x{dtype, image_shape(size, channels), Data::image};
    for (const Params& params : std::vector<Params>{{}, {{"amount", 0}}, {{"amount", 1}}, {{"amount", 0.3}}}) {
      to.push_back({"mix", {x, x}, dtype, x.shape, params});
    }
    for (const Params& params : std::vector<Params>{{},
                                                    {{"mode", "add"}},
                                                    {{"mode", "add"}, {"ratio", -1.25}},
                                                    {{"mode", "multiply"}, {"ratio", 1}},
                                                    {{"mode", "multiply"}, {"ratio", 0.3}}}) {
      to.push_back({"video_mix", {x, x}, dtype, x.shape, params});
    }
  }
}

// Overlays of another size than the base, partly or wholly outside of it.
void add_placed_overlays(Cases& to, DType dtype) {
  for (const std::int64_t channels : colors) {
    const Input base{dtype, {17, 31, channels}, Data::image};
    for (const Size size : {Size{17, 31}, Size{5, 9}, Size{40, 3}, Size{1, 1}, Size{0, 4}}) {
      const Input top{dtype, image_shape(size, 4), Data::image};
      for (const Params& params : std::vector<Params>{{},
                                                      {{"x", 7}, {"y", 3}, {"alpha", 0.6}},
                                                      {{"x", -2}, {"y", 15}},
                                                      {{"x", 30}, {"y", -4}, {"opacity", 0.25}},
                                                      {{"x", 31}},
                                                      {{"x", std::int64_t{-1} << 40}, {"y", std::int64_t{1} << 50}}}) {
        to.push_back({"overlay_alpha", {base, top}, dtype, base.shape, params});
      }
    }
  }
}

void add_lut(Cases& to, DType dtype, Size size) {
  for (const std::int64_t channels : any) {
    const Input x{u8, image_shape(size, channels), Data::image};
    to.push_back({"lut_apply", {x, {dtype, {256}, Data::special}}, dtype, x.shape});
    if (channels == 0) continue;
    to.push_back({"lut_apply", {x, {dtype, {256, channels}, Data::special}}, dtype, x.shape});
  }
}

void add_resize(Cases& to, DType dtype, Size size) {
  if (size.height == 0) return;
  for (const std::int64_t channels : any) {
    const Input x{dtype, image_shape(size, channels), Data::image};
    for (const char* method : {"bilinear", "nearest", "bicubic"}) {
      for (const Size out : {Size{1, 1}, Size{2, 5}, Size{17, 31}, Size{33, 20}, Size{40, 131}, Size{0, 4}}) {
        to.push_back({"resize", {x}, dtype, image_shape(out, channels), {{"method", method}}});
      }
    }
  }
  to.push_back({"resize", {{dtype, image_shape(size, 3), Data::image}}, dtype, {7, 5, 3}});
  for (const std::int64_t channels : any) {
    const Input x{dtype, image_shape(size, channels), Data::image};
    for (const Size out : {Size{2, 5}, Size{40, 29}}) {
      const Params params = {{"width", out.width}, {"height", out.height}};
      to.push_back({"bicubic_scale", {x}, dtype, image_shape(out, channels), params});
    }
    to.push_back({"bicubic_scale", {x}, dtype, image_shape({7, 3}, channels)});
  }
}

void add_crop(Cases& to) {
  for (const DType dtype : all_dtypes) {
    const Input gray{dtype, {17, 31}, Data::special};
    const Input color{dtype, {17, 31, 3}, Data::special};
    to.push_back({"crop", {gray}, dtype, {17, 31}});
    to.push_back({"crop", {gray}, dtype, {5, 7}, {{"top", 12}, {"left", 24}}});
    to.push_back({"crop", {gray}, dtype, {1, 1}, {{"top", 16}}});
    to.push_back({"crop", {gray}, dtype, {0, 4}, {{"top", 3}}});
    to.push_back({"crop", {color}, dtype, {9, 30, 3}, {{"top", 2}, {"left", 1}}});
    to.push_back({"crop", {gray}, dtype, {5, 7}, {{"top", 13}, {"left", 24}}, -1, Errc::invalid_parameter});
    const Params place = {{"x", 24}, {"y", 12}, {"width", 7}, {"height", 5}};
    to.push_back({"video_crop", {color}, dtype, {5, 7, 3}, place});
    to.push_back({"video_crop", {gray}, dtype, {5, 8}, place, -1, Errc::shape_mismatch});
  }
}

void add_preprocess(Cases& to, Size size) {
  if (size.height == 0) return;
  for (const std::int64_t channels : colors) {
    const Input x{u8, image_shape(size, channels), Data::image};
    to.push_back({"preprocess", {x}, f32, {1, 3, 11, 13}, {{"size", {11, 13}}}});
    to.push_back({"preprocess", {x}, f32, {1, 3, 40, 29}, {{"normalize", false}}});
    to.push_back({"preprocess", {x}, f32, {1, 3, 6, 70}, {{"mean", {0.1, 0.2, 0.3}}, {"std", {0.5, 2.0, 1.0}}}});
  }
}

}  // namespace

void add_image_cases(Cases& to) {
  add_filters(to);
  add_borders(to);
  add_wide_borders(to);
  add_colors(to);
  for (const Size size : sizes()) {
    for (const DType dtype : {u8, f32}) {
      add_grayscale(to, dtype, size);
      add_chroma_key(to, dtype, size);
      add_two_images(to, dtype, size);
      add_lut(to, dtype, size);
      add_resize(to, dtype, size);
    }
    add_preprocess(to, size);
  }
  for (const DType dtype : {u8, f32}) add_placed_overlays(to, dtype);
  add_crop(to);
}

}  // namespace tessera::conformance
