// Prints the milliseconds of the first call of a kernel, and of the first call of another one. A separate program,
// because the libraries of the benchmark slow down loading the compiler.
#include <tessera/tessera.hpp>

#include <chrono>
#include <cstdio>

namespace {

namespace tile = tessera::tile;

const auto softsign = tile::kernel("first_call_softsign", [](tile::Out<float> z, tile::In<float> x) {
  auto t = tile::load_like(x, z);
  z.store(t / (abs(t) + 1.0F));
});

template <class Kernel>
double milliseconds(const tessera::Device& device, const Kernel& kernel) {
  const tessera::Buffer input = device.zeros({16});
  const tessera::Buffer output = device.zeros({16});
  const auto begin = std::chrono::steady_clock::now();
  device.run(kernel, {input}, output);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main() {
  const tessera::Device device = tessera::Device::open("cpu");
  tessera::define_kernel("first_call_swish", {"x"}, "x / (1 + exp(-x))");
  const double first = milliseconds(device, "first_call_swish");
  const double second = milliseconds(device, softsign);
  std::printf("%g %g\n", first, second);
}
