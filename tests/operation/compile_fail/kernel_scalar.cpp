// A scalar of a kernel is a number, not a tensor.
// Error: the kernel's tile::Scalar takes a number
#include <tessera/operation.hpp>

using namespace tessera;

const auto scale = tile::kernel("scale", [](tile::Out<float> z, tile::In<float> x, tile::Scalar<float, "a"> a) {
  z.store(a * tile::load_like(x, z));
});

void use() {
#ifdef FIXED
  scale(zeros<float>({4}), ones<float>({4}), 3.0F).sync();
#else
  scale(zeros<float>({4}), ones<float>({4}), ones<float>({1})).sync();
#endif
}
