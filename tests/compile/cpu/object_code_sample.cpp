// Compiled, never linked: object_code_test loads the object file. It has what compilers put into one: constants, tables
// of addresses and of jumps, data, calls within and without.

#include <cstddef>
#include <cstring>

extern "C" {

int counter = 40;  // NOLINT: to be reached through the table of addresses

int count() { return ++counter; }

float polynomial(float x) { return (0.25F * x + 0.5F) * x + 0.125F; }

__attribute__((noinline)) int twice(int x) { return x * 2 + counter * 0; }

int thrice(int x) { return twice(x) + x; }

void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void clear(void* to, std::size_t bytes) { std::memset(to, 0, bytes); }
void slide(void* to, const void* from, std::size_t bytes) { std::memmove(to, from, bytes); }

const char* word(unsigned number) {
  static const char* const words[] = {"zero", "one", "two", "three"};
  return number < 4 ? words[number] : nullptr;
}

// Enough different things for a table of jumps.
int choose(int which, int x) {
  switch (which) {
    case 0:
      return x + count();
    case 1:
      return thrice(x) - 3;
    case 2:
      return x / 7;
    case 3:
      return twice(x) ^ 5;
    case 4:
      return static_cast<int>(polynomial(static_cast<float>(x)));
    case 5:
      return x << 3;
    case 6:
      return ~x;
    default:
      return 0;
  }
}
}
