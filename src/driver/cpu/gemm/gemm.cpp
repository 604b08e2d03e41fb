#include "driver/cpu/gemm/gemm.hpp"

#include "driver/cpu/gemm/engine.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::driver::cpu {

namespace {

// A piece has at least 2^21 products, some 30 µs in f32: enough to be worth handing over (1 µs), little enough that two
// threads share a product of 256 by 256 well. And not more than 2^30 of them, some 10 to 20 ms: then a cancelled
// command ends soon.
constexpr double min_products = double{1 << 21};
constexpr double max_products = double{1 << 30};
// Pieces a worker: one that begins late or is interrupted leaves some to the others.
constexpr std::int64_t pieces_per_worker = 4;

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Cut cut(const Engine::Routines& routines, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
        unsigned workers) {
  if (batches == 0 || m == 0 || n == 0) return {};
  const double batch_products = double(m) * double(n) * double(std::max<std::int64_t>(k, 1));
  const double products = batch_products * double(batches);
  const double wanted_pieces =
      std::max(std::min(products / min_products, double(workers) * pieces_per_worker), products / max_products);
  Cut cut{m, n, 1, 1, 1, batches};
  const auto wanted = std::int64_t(std::ceil(wanted_pieces / double(batches)));
  if (wanted <= 1) {
    cut.batches = std::max<std::int64_t>(1, std::int64_t(double(batches) / wanted_pieces));
    cut.pieces = quotient_up(batches, cut.batches);
    return cut;
  }
  // Each part of the rows packs all of b, each part of the columns all of a: the cut with the least to pack.
  const std::int64_t row_tiles = quotient_up(m, routines.rows);
  const std::int64_t column_tiles = quotient_up(n, routines.columns);
  double least = -1;
  std::int64_t best_rows = 1;
  std::int64_t best_columns = 1;
  for (std::int64_t rows = 1; rows <= std::min(wanted, row_tiles); ++rows) {
    const std::int64_t columns = std::min(quotient_up(wanted, rows), column_tiles);
    const double packed = double(rows) * double(n) + double(columns) * double(m) ;
    if (least >= 0 && packed >= least) continue;
    least = packed;
    best_rows = rows;
    best_columns = columns;
  }
  cut.rows = quotient_up(row_tiles, best_rows) * routines.rows;
  cut.columns = quotient_up(column_tiles, best_columns) * routines.columns;
  cut.row_parts = quotient_up(m, cut.rows);
  cut.column_parts = quotient_up(n, cut.columns);
  cut.pieces = batches * cut.row_parts * cut.column_parts;
  return cut;
}

Cut cut(const Gemm& gemm, unsigned workers) {
  return cut(engine().routines[static_cast<std::size_t>(gemm.dtype)], gemm.batches, gemm.m, gemm.n, gemm.k, workers);
}

void run_piece(const Gemm& gemm, const Cut& cut, std::int64_t piece) {
  if (gemm.batches == 0 || gemm.m == 0 || gemm.n == 0) return;
  const std::int64_t size = static_cast<std::int64_t>(size_of(gemm.dtype));
  const std::int64_t parts = cut.row_parts * cut.column_parts;
  const std::int64_t first = piece / parts * cut.batches;
  const std::int64_t last = std::min(first + cut.batches, gemm.batches);
  const std::int64_t i = piece % parts / cut.column_parts * cut.rows;
  const std::int64_t j = piece % parts % cut.column_parts * cut.columns;
  for (std::int64_t batch = first; batch < last; ++batch) {
    Block block{std::min(cut.rows, gemm.m - i), std::min(cut.columns, gemm.n - j), gemm.k, gemm.a, gemm.c, gemm.c_row};
    Matrix b = gemm.b;
    block.a.data += (batch * gemm.a.batch + i * gemm.a.row) * size;
    b.data += (batch * gemm.b.batch + j * gemm.b.column) * size;
    block.c += (batch * gemm.c_batch + i * gemm.c_row + j) * size;
    engine().routines[static_cast<std::size_t>(gemm.dtype)].multiply(block, b);
  }
}

}  // namespace tessera::driver::cpu
