#include <tessera/tessera.hpp>

#include <iostream>

int main() { std::cout << "built against tessera " << tessera::version() << '\n'; }
