// Errors: a refused call, a failing command, how the failure spreads, and how a buffer recovers.
// Expect: did you mean 'elementwise_add'.*because .scale. command 2.*at fault: device.*other: 1 2 3.*healed: 8 10 12
#include <tessera/tessera.hpp>

#include <iostream>
#include <optional>
#include <vector>

using tessera::Buffer;
using tessera::Error;

namespace {

void print(const char* name, const Buffer& buffer) {
  std::cout << name << ':';
  for (const float value : buffer.read<float>()) std::cout << ' ' << value;
  std::cout << '\n';
}

}  // namespace

int main() {
  // A device that works, except that its second command fails.
  tessera::Device device = tessera::Device::simulated({.faults = {{.command = 2}}});
  Buffer in = device.buffer<float>({1, 2, 3});
  Buffer doubled = device.zeros({3});
  Buffer clipped = device.zeros({3});
  Buffer sum = device.zeros({3});
  Buffer other = device.zeros({3});

  // A wrong call is refused before anything runs.
  try {
    device.run("elementwise_ad", {in, in}, sum);
  } catch (const Error& error) {
    std::cout << "refused: " << to_string(error.code()) << ": " << error.what() << '\n';
  }

  device.submit("copy", {in}, other);                         // command 1
  device.submit("scale", {in}, doubled, {{"factor", 2}});     // command 2 fails, and poisons `doubled`
  device.submit("relu", {doubled}, clipped);                  // command 3 cannot use that, nor can
  device.submit("elementwise_add", {clipped, doubled}, sum);  // command 4. There is no need to check each:

  // the failure shows up where its consequences are read, with the chain of causes.
  try {
    sum.read<float>();
  } catch (const Error& error) {
    std::cout << "failed: " << to_string(error.code()) << '\n' << "  " << error.message() << '\n';
    for (std::optional<Error> cause = error.cause(); cause; cause = cause->cause()) {
      std::cout << "  because " << cause->message() << '\n';
    }
    std::cout << "at fault: " << to_string(tessera::fault(error.code())) << '\n';
  }
  print("other", other);  // independent results are unaffected

  // Overwriting a poisoned buffer clears the poison; so does a command that writes it.
  doubled.write(std::vector<float>{4, 5, 6});
  device.run("copy", {doubled}, clipped);
  device.run("elementwise_add", {clipped, doubled}, sum);
  print("healed", sum);
}
