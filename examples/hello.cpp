// Prints the version of the library.
// Expect: ^tessera [0-9]+\.[0-9]+\.[0-9]+
#include <tessera/tessera.hpp>

#include <iostream>

int main() { std::cout << "tessera " << tessera::version() << '\n'; }
