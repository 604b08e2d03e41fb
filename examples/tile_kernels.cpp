// Your own kernels, written as tile programs: passed directly, or called by name.
// Expect: saxpy 7, softmax 0.25, gemm 12, box3 1
#include <tessera/tessera.hpp>

#include <iostream>

using namespace tessera;

const auto saxpy =
    tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
      z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
    });

const auto softmax_rows = tile::kernel("softmax_rows", [](tile::Out<float> z, tile::In<float> x) {
  auto t = tile::load_like(x, z);  // automatic tiling never splits a reduced axis: rows stay whole
  auto e = exp(t - reduce_max(t, 1));
  z.store(e / reduce_sum(e, 1));
});

const auto gemm = tile::kernel("gemm", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  constexpr int k_tile = 16;
  auto product = tile::loop(tile::ceil_div(x.dim(1), k_tile), tile::zeros_like(z), [&](tile::Index k, auto sum) {
    auto a = x.load({z.tile_dim(0), k_tile}, {z.block(0), k});  // tile extents, tile coordinates; reads zero outside
    auto b = y.load({k_tile, z.tile_dim(1)}, {k, z.block(1)});
    return tile::mma(a, b, sum);
  });
  z.store(product);
});

const auto box3 = tile::kernel("box3", [](tile::Out<float> z, tile::In<float> x) {
  auto sum = tile::zeros_like(z);
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) sum = sum + tile::load_shifted(x, z, {dy, dx}, tile::Border::clamp);
  }
  z.store(sum / 9.0f);
});

int main() {
  const Device device = Device::best();
  const auto filled = [&](const Shape& shape, double value) {
    Buffer buffer = device.empty(shape, f32);
    device.run("fill", {}, buffer, {{"value", value}});
    return buffer;
  };
  const Buffer ones = filled({4, 4}, 1), threes = filled({4, 4}, 3), z = device.zeros({4, 4}, f32);

  register_kernel(saxpy);  // now callable by name, like a built-in kernel
  device.run("saxpy", {threes, ones}, z, {{"a", 2.0}});
  std::cout << "saxpy " << z.read<float>()[15];
  device.run(softmax_rows, {ones}, z);
  std::cout << ", softmax " << z.read<float>()[15];
  device.submit(gemm, {ones, threes}, z).wait();
  std::cout << ", gemm " << z.read<float>()[15];
  device.run(box3, {ones}, z);
  std::cout << ", box3 " << z.read<float>()[15] << '\n';
}
