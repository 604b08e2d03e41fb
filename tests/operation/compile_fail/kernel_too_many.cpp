// A kernel takes a value for each of its parameters.
// Error: wrong number of values for the kernel: pass one for each of its parameters, in order
#include <tessera/operation.hpp>

using namespace tessera;

const auto add = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});

void use(const std::shared_ptr<const Tensor<float>>& x) {
#ifdef FIXED
  zip(zeros<float>({4}), x, x).apply(add).sync();
#else
  zip(zeros<float>({4}), x, x, x).apply(add).sync();
#endif
}
