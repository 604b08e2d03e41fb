// Commands by number: for bindings, and wherever only an integer can be stored.
// Expect: ^poll: completed, 2 4 6.*cancel: true, now cancelled.*wait: shape_mismatch.*there is no command 1000
// Differs: there is no command 1000 on
#include <tessera/tessera.hpp>

#include <iostream>
#include <thread>

using tessera::Buffer;
using tessera::CommandId;
using tessera::Device;

int main() {
  const Device device = Device::best();
  const Buffer in = device.buffer<float>({1, 2, 3});
  Buffer out = device.zeros({3});

  // Dropping the handle neither cancels the command nor leaks. The number is enough.
  const CommandId id = device.submit("scale", {in}, out, {{"factor", 2}}).id();
  while (!is_terminal(device.poll(id))) std::this_thread::yield();
  std::cout << "poll: " << to_string(device.poll(id)) << ',';
  for (const float value : out.read<float>()) std::cout << ' ' << value;
  std::cout << '\n';

  {
    const auto held = out.map<float>();  // so that the command cannot start yet
    const CommandId unwanted = device.submit("copy", {in}, out).id();
    const bool stopped = device.cancel(unwanted);
    std::cout << std::boolalpha << "cancel: " << stopped << ", now " << to_string(device.poll(unwanted)) << '\n';
  }

  // A failure can be queried until 65,536 later commands have finished.
  const CommandId wrong = device.submit("copy", {in}, device.zeros({4})).id();
  try {
    device.wait(wrong);
  } catch (const tessera::Error& error) {
    std::cout << "wait: " << to_string(error.code()) << ": " << error.what() << '\n';
  }

  try {
    device.poll(1000);
  } catch (const tessera::Error& error) {
    std::cout << to_string(error.code()) << ": " << error.what() << '\n';
  }
}
