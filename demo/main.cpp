#include <tessera/tessera.hpp>

#include <iostream>

int main() { std::cout << "tessera " << tessera::version() << '\n'; }
