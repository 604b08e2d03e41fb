#include "driver/cpu/gemm/engine.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <new>

namespace tessera::driver::cpu {

namespace {

constexpr std::align_val_t page{4096};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete[](memory, page); }
};
struct Scratch {
  std::unique_ptr<std::byte[], Free> memory;
  std::size_t bytes = 0;
};

struct Engines {
  std::array<const Engine*, 3> list{&portable_engine};
  std::size_t count = 1;

  Engines() {
#ifdef TESSERA_X86_ENGINES
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
    list[count++] = &avx2_engine;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
      return;
    }
    list[count++] = &avx512_engine;
#endif
  }
};

const Engine*& chosen() {
  static const Engine* engine = engines().back();
  return engine;
}

}  // namespace

std::span<const Engine* const> engines() {
  static const Engines all;
  return {all.list.data(), all.count};
}

const Engine& engine() { return *chosen(); }
void use_engine(const Engine& engine) { chosen() = &engine; }

std::byte* scratch(std::size_t bytes) {
  thread_local Scratch scratch;
  if (scratch.bytes < bytes) {
    scratch = {};
    scratch.memory.reset(static_cast<std::byte*>(::operator new[](bytes, page)));
    scratch.bytes = bytes;
  }
  return scratch.memory.get();
}

}  // namespace tessera::driver::cpu
