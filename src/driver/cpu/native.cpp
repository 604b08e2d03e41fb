#include "driver/cpu/executable.hpp"
#include "driver/cpu/gemm/conv2d.hpp"
#include "driver/cpu/gemm/gemm.hpp"

#include <algorithm>
#include <thread>

namespace tessera::driver::cpu {

namespace {

// Asked once: the C library reads a file for each answer, which takes 7 µs; the pieces of a matmul of 256 took a quarter
// longer.
unsigned workers() {
  static const unsigned count = std::max(1U, std::thread::hardware_concurrency());
  return count;
}

// A routine whose work is cut into pieces by itself: a tile is a piece.
template <class Work>
class Native final : public compile::Compiled {
 public:
  explicit Native(const ir::Program& program) : program_(program) {}

  std::int64_t tiles(const compile::Arguments& arguments, std::size_t) const override {
    return cut(work(arguments), workers()).pieces;
  }
  bool is_cut() const noexcept override { return true; }
  void run(const compile::Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    const Work done = work(arguments);
    const Cut pieces = cut(done, workers());
    for (std::int64_t piece = begin; piece < end; ++piece) run_piece(done, pieces, piece);
  }

 private:
  Work work(const compile::Arguments& arguments) const;

  const ir::Program program_;
};

// a [batch or 1,m,k], b [batch or 1,k,n], output [batch,m,n]; the numbers say whether a and b have a batch.
template <>
Gemm Native<Gemm>::work(const compile::Arguments& arguments) const {
  const std::int64_t* output = arguments.dims;
  const std::int64_t m = output[1], n = output[2], k = arguments.dims[5];
  const bool has_many_a = program_.idiom.numbers[0] != 0, has_many_b = program_.idiom.numbers[1] != 0;
  return {.dtype = static_cast<DType>(program_.buffers[0].type),
          .batches = output[0],
          .m = m,
          .n = n,
          .k = k,
          .a = {arguments.buffers[1], k, 1, has_many_a ? m * k : 0},
          .b = {arguments.buffers[2], n, 1, has_many_b ? k * n : 0},
          .c = arguments.buffers[0],
          .c_row = n,
          .c_batch = m * n};
}

// Output [N,O,OH,OW], x [N,C,H,W], weights [O,C/groups,KH,KW], perhaps bias [O]; the numbers as in kernels/windows.cpp.
template <>
Conv2d Native<Conv2d>::work(const compile::Arguments& arguments) const {
  const std::int64_t *x = arguments.dims + 4, *weights = arguments.dims + 8;
  const std::vector<std::int64_t>& of = program_.idiom.numbers;
  return {.dtype = static_cast<DType>(program_.buffers[0].type),
          .images = x[0],
          .channels = x[1],
          .outputs = weights[0],
          .groups = of[6],
          .h = {.size = x[2], .kernel = weights[2], .stride = of[0], .padding = of[2], .dilation = of[4]},
          .w = {.size = x[3], .kernel = weights[3], .stride = of[1], .padding = of[3], .dilation = of[5]},
          .x = arguments.buffers[1],
          .weights = arguments.buffers[2],
          .bias = of[7] != 0 ? arguments.buffers[3] : nullptr,
          .y = arguments.buffers[0]};
}

}  // namespace

std::shared_ptr<const compile::Compiled> native(const ir::Program& program) {
  if (program.idiom.name == "matmul") return std::make_shared<Native<Gemm>>(program);
  if (program.idiom.name == "conv2d") return std::make_shared<Native<Conv2d>>(program);
  return nullptr;
}

}  // namespace tessera::driver::cpu
