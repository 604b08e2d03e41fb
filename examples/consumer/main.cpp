// A user's program: submit, do something else, wait, read. Prints: tessera <version>: 11 22 33
#include <tessera/tessera.hpp>

#include <iostream>

int main() {
  tessera::Device device = tessera::Device::best();
  tessera::Buffer a = device.buffer<float>({1, 2, 3});
  tessera::Buffer b = device.buffer<float>({10, 20, 30});
  tessera::Buffer sum = device.zeros({3});

  tessera::Command command = device.submit("elementwise_add", {a, b}, sum);
  std::cout << "tessera " << tessera::version() << ':';
  command.wait();
  for (float value : sum.read<float>()) std::cout << ' ' << value;
  std::cout << '\n';
}
