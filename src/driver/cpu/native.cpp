#include "core/platform.hpp"
#include "driver/cpu/executable.hpp"
#include "driver/cpu/gemm/conv2d.hpp"
#include "driver/cpu/gemm/gemm.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace tessera::driver::cpu {

namespace {

// Cached: asking the system reads files, which takes some 10 µs and made the pieces of a 256-matmul a quarter slower.
unsigned workers() {
  static const unsigned count = core::usable_cores();
  return count;
}

// Element-wise operations after a routine, run row by row while the rows are still in the caches.
class Epilogue {
 public:
  explicit Epilogue(const ir::Program& program) : program_(program), code_(compile::compile(*program.idiom.epilogue)) {}

  // A row may have just 64 elements, so everything possible is done once per part.
  void run(const compile::Arguments& arguments, const ResultPart& part) const {
    const std::vector<ir::Buffer>& buffers = program_.idiom.epilogue->buffers;
    Rows rows;
    add(arguments, 0, part, part.columns, rows);
    for (std::size_t i = 1; i < buffers.size(); ++i) {
      add(arguments, program_.idiom.epilogue_inputs[i - 1], part, buffers[i].dims[0] == 1 ? 1 : part.columns, rows);
    }
    std::int64_t count = part.rows;
    if (rows.are_contiguous) {
      for (std::int64_t& extent : rows.dims) extent *= extent == 1 ? 1 : count;
      count = 1;
    }
    const compile::Arguments of_row{rows.addresses.data(), rows.dims.data(), arguments.scalars};
    const std::int64_t tiles = code_->tiles(of_row, 1);
    for (std::int64_t row = 0; row < count; ++row) {
      code_->run(of_row, 0, tiles);
      for (std::size_t i = 0; i < rows.steps.size(); ++i) rows.addresses[i] += rows.steps[i];
    }
  }

 private:
  // The part's rows in each buffer of the epilogue.
  struct Rows {
    std::vector<std::byte*> addresses;  // of the first row
    std::vector<std::int64_t> steps;    // bytes from one row to the next
    std::vector<std::int64_t> dims;
    bool are_contiguous = true;  // in all buffers
  };

  // A buffer is [batch, row, columns…]; extents of 1 are repeated.
  void add(const compile::Arguments& arguments, int number, const ResultPart& part, std::int64_t length,
           Rows& rows) const {
    const std::int64_t* dims = arguments.dims;
    for (int i = 0; i < number; ++i) dims += program_.buffers[static_cast<std::size_t>(i)].rank();
    const ir::Buffer& buffer = program_.buffers[static_cast<std::size_t>(number)];
    const int rank = program_.buffers[0].rank();
    const auto extent = [&](int axis) {
      const int own = axis - (rank - buffer.rank());
      return own < 0 ? 1 : dims[own];
    };
    std::int64_t columns = 1;
    for (int axis = 2; axis < rank; ++axis) columns *= extent(axis);
    const std::int64_t size = ir::bits_of(buffer.type) / 8, step = extent(1) == 1 ? 0 : columns;
    const std::int64_t first =
        (extent(0) == 1 ? 0 : part.batch) * extent(1) * columns + part.row * step + (columns == 1 ? 0 : part.column);
    rows.addresses.push_back(arguments.buffers[number] + first * size);
    rows.steps.push_back(step * size);
    rows.dims.push_back(length);
    rows.are_contiguous = rows.are_contiguous && (length == 1 ? step == 0 : step == length);
  }

  const ir::Program& program_;
  std::shared_ptr<const compile::Compiled> code_;
};

// A routine that splits its own work: each tile is a piece.
template <class Work>
class Native final : public compile::Compiled {
 public:
  explicit Native(const ir::Program& program) : program_(program) {
    if (program_.idiom.epilogue) epilogue_.emplace(program_);
  }

  std::int64_t tiles(const compile::Arguments& arguments, std::size_t) const override {
    return cut(work(arguments), workers()).pieces;
  }
  bool is_cut() const noexcept override { return true; }
  void run(const compile::Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    const Work done = work(arguments);
    const Cut pieces = cut(done, workers());
    for (std::int64_t piece = begin; piece < end; ++piece) {
      run_piece(done, pieces, piece);
      if (epilogue_)
        for_each_part(done, pieces, piece, [&](const ResultPart& part) { epilogue_->run(arguments, part); });
    }
  }

 private:
  Work work(const compile::Arguments& arguments) const;
  // The buffer of the routine's input.
  std::size_t number(std::size_t input) const {
    return program_.idiom.inputs.empty() ? input + 1 : static_cast<std::size_t>(program_.idiom.inputs[input]);
  }
  const std::byte* data(const compile::Arguments& arguments, std::size_t input) const {
    return arguments.buffers[number(input)];
  }
  const std::int64_t* dims(const compile::Arguments& arguments, std::size_t input) const {
    const std::int64_t* found = arguments.dims;
    for (std::size_t i = 0; i < number(input); ++i) found += program_.buffers[i].rank();
    return found;
  }

  const ir::Program program_;
  std::optional<Epilogue> epilogue_;
};

// a [batch or 1,m,k], b [batch or 1,k,n], output [batch,m,n]; the idiom's numbers say whether a and b have a batch.
template <>
Gemm Native<Gemm>::work(const compile::Arguments& arguments) const {
  const std::int64_t* output = arguments.dims;
  const std::int64_t m = output[1], n = output[2], k = dims(arguments, 0)[2];
  const bool has_many_a = program_.idiom.numbers[0] != 0, has_many_b = program_.idiom.numbers[1] != 0;
  return {.dtype = static_cast<DType>(program_.buffers[0].type),
          .batches = output[0],
          .m = m,
          .n = n,
          .k = k,
          .a = {data(arguments, 0), k, 1, has_many_a ? m * k : 0},
          .b = {data(arguments, 1), n, 1, has_many_b ? k * n : 0},
          .c = arguments.buffers[0],
          .c_row = n,
          .c_batch = m * n};
}

// Output [N,O,OH,OW], x [N,C,H,W], weights [O,C/groups,KH,KW], optional bias [O]; numbers as in
// kernels/builtin/windows.cpp.
template <>
Conv2d Native<Conv2d>::work(const compile::Arguments& arguments) const {
  const std::int64_t *x = dims(arguments, 0), *weights = dims(arguments, 1);
  const std::vector<std::int64_t>& of = program_.idiom.numbers;
  return {.dtype = static_cast<DType>(program_.buffers[0].type),
          .images = x[0],
          .channels = x[1],
          .outputs = weights[0],
          .groups = of[6],
          .h = {.size = x[2], .kernel = weights[2], .stride = of[0], .padding = of[2], .dilation = of[4]},
          .w = {.size = x[3], .kernel = weights[3], .stride = of[1], .padding = of[3], .dilation = of[5]},
          .x = data(arguments, 0),
          .weights = data(arguments, 1),
          .bias = of[7] != 0 ? data(arguments, 2) : nullptr,
          .y = arguments.buffers[0]};
}

}  // namespace

std::shared_ptr<const compile::Compiled> native(const ir::Program& program) {
  if (program.idiom.name == "matmul") return std::make_shared<Native<Gemm>>(program);
  if (program.idiom.name == "conv2d") return std::make_shared<Native<Conv2d>>(program);
  return nullptr;
}

}  // namespace tessera::driver::cpu
