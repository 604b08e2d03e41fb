#include "driver/cpu/gemm/engine_table.hpp"

namespace tessera::driver::cpu {

constinit const Engine portable_engine = table("portable");

}  // namespace tessera::driver::cpu
