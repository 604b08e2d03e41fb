// A tensor has one owner: an operation takes ownership of it.
// Error: an owned tensor can be used once: pass std::move(tensor), or share it
#include <tessera/operation.hpp>

using namespace tessera;

const auto add = tile::kernel("add", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
  z.store(tile::load_like(x, z) + tile::load_like(y, z));
});

void use(Tensor<float>& t) {
#ifdef FIXED
  add(std::move(t), ones<float>({4}), ones<float>({4})).sync();
#else
  add(t, ones<float>({4}), ones<float>({4})).sync();
#endif
}
