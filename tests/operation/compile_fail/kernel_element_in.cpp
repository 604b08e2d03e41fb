// The element types of a kernel and its tensors must match.
// Error: the kernel's tile::In<T> takes a tensor of the same element type
#include <tessera/operation.hpp>

using namespace tessera;

const auto add = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});

void use() {
#ifdef FIXED
  add(zeros<float>({4}), ones<float>({4}), ones<float>({4})).sync();
#else
  add(zeros<float>({4}), ones<double>({4}), ones<float>({4})).sync();
#endif
}
