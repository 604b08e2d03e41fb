#include "driver/cpu/gemm/engine_table.hpp"

namespace tessera::driver::cpu {

constinit const Engine avx512_engine = table("avx512");

}  // namespace tessera::driver::cpu
