// The program in the README.
// Expect: ^-2 -1 0 10 20 completed
#include <tessera/tessera.hpp>

#include <iostream>

int main() {
  tessera::Device device = tessera::Device::best();
  tessera::Buffer in = device.buffer<float>({-2, -1, 0, 1, 2}, {5});
  tessera::Buffer out = device.zeros({5}, tessera::f32);

  tessera::Command leaky = device.submit("relu", {in}, out, {{"slope", 0.1}});  // returns at once
  device.submit("scale", {out}, out, {{"factor", 10}});                         // runs after it: they share a buffer

  for (float value : out.read<float>()) std::cout << value << ' ';  // waits for both
  std::cout << to_string(leaky.poll()) << '\n';
}
