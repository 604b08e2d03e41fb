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

// How many pieces there should be.
double wanted_pieces(double products, unsigned workers) {
  const double worthwhile = std::min(products / min_products, double(workers) * pieces_per_worker);
  return std::max({1.0, worthwhile, products / max_products});
}

}  // namespace

Cut cut_batches(std::int64_t batches, double batch_products, unsigned workers) {
  const double wanted = std::min(double(batches), wanted_pieces(batch_products * double(batches), workers));
  Cut cut;
  cut.batches = std::max<std::int64_t>(1, std::int64_t(double(batches) / wanted));
  cut.pieces = std::max<std::int64_t>(1, quotient_up(batches, cut.batches));
  return cut;
}

Cut cut(const Engine::Routines& routines, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
        unsigned workers) {
  if (batches == 0 || m == 0 || n == 0) return {};
  const double batch_products = double(m) * double(n) * double(std::max<std::int64_t>(k, 1));
  Cut cut = cut_batches(batches, batch_products, workers);
  cut.rows = m;
  cut.columns = n;
  const double wanted = std::ceil(wanted_pieces(batch_products * double(batches), workers) / double(batches));
  if (wanted <= 1) return cut;
  // Each part of the rows packs all of b, each part of the columns all of a: the cut with the least to pack.
  const std::int64_t row_tiles = quotient_up(m, routines.rows);
  const std::int64_t column_tiles = quotient_up(n, routines.columns);
  const double row_parts = std::sqrt(wanted * double(m) / double(n));
  const double column_parts = wanted / std::clamp(std::round(row_parts), 1.0, double(row_tiles));
  const auto tiles = [](std::int64_t all, double parts) {
    return std::max<std::int64_t>(1, std::int64_t(std::ceil(double(all) / parts)));
  };
  cut.columns = tiles(column_tiles, std::max(1.0, column_parts)) * routines.columns;
  cut.column_parts = quotient_up(n, cut.columns);
  cut.rows = tiles(row_tiles, std::max(1.0, wanted / double(cut.column_parts))) * routines.rows;
  cut.row_parts = quotient_up(m, cut.rows);
  cut.pieces = batches * cut.row_parts * cut.column_parts;
  return cut;
}

Part::Part(const Cut& cut, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t piece) {
  const std::int64_t parts = cut.row_parts * cut.column_parts;
  first = piece / parts * cut.batches;
  last = std::min(first + cut.batches, batches);
  row = piece % parts / cut.column_parts * cut.rows;
  rows = std::min(cut.rows, m - row);
  column = piece % cut.column_parts * cut.columns;
  columns = std::min(cut.columns, n - column);
}

Cut cut(const Gemm& gemm, unsigned workers) {
  return cut(engine().routines[static_cast<std::size_t>(gemm.dtype)], gemm.batches, gemm.m, gemm.n, gemm.k, workers);
}

void run_piece(const Gemm& gemm, const Cut& cut, std::int64_t piece) {
  if (gemm.batches == 0 || gemm.m == 0 || gemm.n == 0) return;
  const std::int64_t size = static_cast<std::int64_t>(size_of(gemm.dtype));
  const Part part(cut, gemm.batches, gemm.m, gemm.n, piece);
  for (std::int64_t batch = part.first; batch < part.last; ++batch) {
    Block block{part.rows, part.columns, gemm.k, gemm.a, gemm.c, gemm.c_row};
    Matrix b = gemm.b;
    block.a.data += (batch * gemm.a.batch + part.row * gemm.a.row) * size;
    b.data += (batch * gemm.b.batch + part.column * gemm.b.column) * size;
    block.c += (batch * gemm.c_batch + part.row * gemm.c_row + part.column) * size;
    engine().routines[static_cast<std::size_t>(gemm.dtype)].multiply(block, b);
  }
}

}  // namespace tessera::driver::cpu
