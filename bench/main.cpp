#include <tessera/tessera.hpp>

#include <tbb/parallel_for.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  std::atomic<int> sum{0};
  tbb::parallel_for(0, 100, [&](int i) { sum += i; });
  std::cout << "tessera " << tessera::version() << "  sum " << sum << '\n';
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view{argv[i]} == "--json") std::ofstream{argv[i + 1]} << "{\"sum\": " << sum << "}\n";
  }
}
