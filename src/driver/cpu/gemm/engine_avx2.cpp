#include "driver/cpu/gemm/engine_table.hpp"

namespace tessera::driver::cpu {

constinit const Engine avx2_engine = table("avx2");

}  // namespace tessera::driver::cpu
