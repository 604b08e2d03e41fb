// zip: creates four shared tensors with one co_await.
// Expect: ^ones: sum 10000.*zeros: sum 0.*randn: mean -?0\.0.*arange: last 9999
#include <tessera/tessera.hpp>

#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

using namespace tessera;

namespace {

using Shared = std::shared_ptr<const Tensor<float>>;

double sum(const std::vector<float>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

Task<void> program() {
  // One operation made of four, which may run in parallel.
  auto [a, b, c, d] = co_await zip(ones<float>({100, 100}).shared(), zeros<float>({100, 100}).shared(),
                                   randn<float>({100, 100}, 0.0F, 1.0F, 7).shared(), arange<float>(10000).shared());

  // And back to the host, again with one co_await.
  std::vector<DeviceOperation<std::vector<float>>> copies;
  for (const Shared& tensor : {a, b, c, d}) copies.push_back(value(tensor).to_host());
  const std::vector<std::vector<float>> host = co_await when_all(std::move(copies));

  std::cout << "ones: sum " << sum(host[0]) << '\n';
  std::cout << "zeros: sum " << sum(host[1]) << '\n';
  std::cout << "randn: mean " << sum(host[2]) / 10000 << '\n';
  std::cout << "arange: last " << host[3].back() << '\n';
}

}  // namespace

int main() { sync_wait(program()); }
