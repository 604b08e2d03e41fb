// SAXPY with operations: the scalar is passed in the position of the kernel's parameter, and the host is free
// meanwhile.
//
// Expect: ^z\[0\] = 5, z\[1\] = 8, z\[999\] = 3002, meanwhile the primes below 20000: 2262
#include <tessera/tessera.hpp>

#include <iostream>
#include <memory>
#include <vector>

using namespace tessera;

namespace {

const auto saxpy =
    tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
      z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
    });

int primes_below(int end) {
  int count = 0;
  for (int n = 2; n < end; ++n) {
    bool is_prime = true;
    for (int d = 2; d * d <= n && is_prime; ++d) is_prime = n % d != 0;
    count += is_prime ? 1 : 0;
  }
  return count;
}

Task<void> program() {
  std::shared_ptr<const Tensor<float>> x = co_await arange<float>(1000, 1).shared();
  std::shared_ptr<const Tensor<float>> y = co_await full<float>({1000}, 2).shared();

  // A kernel is called like a function and yields its output. spawn starts it without waiting.
  Spawned<std::vector<float>> running = spawn(saxpy(empty<float>({1000}), x, y, 3.0F).to_host());
  const int primes = primes_below(20000);
  const std::vector<float> z = co_await std::move(running);

  std::cout << "z[0] = " << z[0] << ", z[1] = " << z[1] << ", z[999] = " << z[999];
  std::cout << ", meanwhile the primes below 20000: " << primes << '\n';
}

}  // namespace

int main() { sync_wait(program()); }
