#include "cases/our_kernels.hpp"

#include "cases/tiny.hpp"

namespace bench {

namespace {

namespace tile = tessera::tile;

const auto fused = tile::kernel("bench_add_relu_scale", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y,
                                                           tile::Scalar<float, "factor"> factor) {
  z.store(max(tile::load_like(x, z) + tile::load_like(y, z), 0.0F) * factor);
});

}  // namespace

Call our_add_relu_scale(const tessera::Device& device, const tessera::Buffer& a, const tessera::Buffer& b,
                        const tessera::Buffer& output, float factor) {
  return [=] { device.run(fused, {a, b}, output, {{"factor", factor}}); };
}

Call our_matmul(const tessera::Buffer& a, const tessera::Buffer& b, const tessera::Buffer& c) {
  return [=] { device().run("matmul", {a, b}, c); };
}

Call our_softmax(const tessera::Buffer& input, const tessera::Buffer& output) {
  return [=] { device().run("softmax", {input}, output, {{"axis", 1}}); };
}

Call our_row_sums(const tessera::Buffer& input, const tessera::Buffer& output) {
  return [=] { device().run("reduce_sum", {input}, output, {{"axis", 1}}); };
}

Call our_sum_of_all(const tessera::Buffer& input, const tessera::Buffer& output) {
  return [=] { device().run("reduce_sum", {input}, output, {{"axis", 0}}); };
}

Call our_gaussian_blur(const tessera::Buffer& input, const tessera::Buffer& output, int radius, double sigma) {
  return [=] { device().run("gaussian_blur", {input}, output, {{"radius", radius}, {"sigma", sigma}}); };
}

Call our_resize(const tessera::Buffer& input, const tessera::Buffer& output) {
  return [=] { device().run("resize", {input}, output); };
}

Call our_look_up(const tessera::Buffer& input, const tessera::Buffer& table, const tessera::Buffer& output) {
  return [=] { device().run("lut_apply", {input, table}, output); };
}

Call our_saturation(const tessera::Buffer& input, const tessera::Buffer& output, float amount) {
  return [=] { device().run("saturation", {input}, output, {{"amount", amount}}); };
}

}  // namespace bench
