// apply() needs the values of a zip.
// Error: apply() needs a tuple of values: write zip(output, inputs...).apply(kernel)
#include <tessera/operation.hpp>

using namespace tessera;

const auto add = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});

void use() {
#ifdef FIXED
  zip(zeros<float>({4}), ones<float>({4}), ones<float>({4})).apply(add).sync();
#else
  zeros<float>({4}).apply(add).sync();
#endif
}
