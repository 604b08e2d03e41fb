// Tracing: which command ran when, on which thread, and what it waited for.
// Expect: wrote example_trace.json: 200 commands.*ui.perfetto.dev
#include <tessera/tessera.hpp>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

int main() {
  const char* file = "example_trace.json";
  tessera::Device device = tessera::Device::best();
  const tessera::Buffer in = device.buffer<float>(std::vector<float>(100'000, 1.5F));

  tessera::trace::start(file);  // TESSERA_TRACE=file.json in the environment does the same for the whole process
  for (int chain = 0; chain < 4; ++chain) {  // four chains, each in order, in parallel
    const tessera::Buffer out = device.empty(in.shape());
    device.submit("copy", {in}, out);
    for (int i = 1; i < 50; ++i) device.submit("elementwise_mul", {out, in}, out);
  }
  device.synchronize();
  tessera::trace::stop();

  std::ifstream trace(file);
  int commands = 0;
  for (std::string line; std::getline(trace, line);) commands += line.find("\"cat\":\"command\"") != line.npos;
  std::cout << "wrote " << file << ": " << commands << " commands\n"
            << "to view it, open https://ui.perfetto.dev (or chrome://tracing) and drop the file there\n";
}
