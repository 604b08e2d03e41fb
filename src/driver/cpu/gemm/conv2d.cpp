#include "driver/cpu/gemm/conv2d.hpp"
