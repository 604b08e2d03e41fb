// apply() consumes the operation, so it needs std::move.
// Error: this consumes the operation: write std::move(operation).apply(
#include <tessera/operation.hpp>

using namespace tessera;

const auto add = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});

void use(DeviceOperation<std::tuple<Tensor<float>, Tensor<float>, Tensor<float>>>& all) {
#ifdef FIXED
  std::move(all).apply(add).sync();
#else
  all.apply(add).sync();
#endif
}
