#include "driver/cpu/gemm/gemm.hpp"

#include "driver/cpu/gemm/engine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::driver::cpu {

namespace {

// A piece has at least 2^19 products, about 10 µs in f32: enough to be worth handing to another thread (1 µs), and few
// enough that two threads share 128 by 128 by 128 (with one piece: half the speed). And at most 2^30 products, 10 to
// 20 ms, so that a cancelled command stops soon.
constexpr double min_products = double{1 << 19};
constexpr double max_products = double{1 << 30};
// Pieces per worker: several, so that a worker that starts late or is interrupted leaves some to the others. For a
// single product just one, since each piece reads all of a (512 by 512 by 512 on two cores with AVX-512: 370 GFLOP/s in
// 2 pieces, 360 in 4). For a long product as many as for batches (1024 by 1024 by 1024 in 8: 350 GFLOP/s, in 16: 342).
constexpr std::int64_t pieces_per_worker = 4;
constexpr double products_of_long_piece = double{1 << 26};

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Up to this many elements of a, every piece may read all of it from the L2 or L3 cache.
constexpr double max_unpacked = double{1 << 18};

// The desired number of pieces: this many per worker, more if they would be too long.
double wanted_pieces(double products, unsigned workers, std::int64_t per_worker) {
  const double worthwhile = std::min(products / min_products, double(workers) * double(per_worker));
  const double more = std::min(products / products_of_long_piece, double(workers) * pieces_per_worker);
  return std::max({1.0, worthwhile, more, products / max_products});
}

}  // namespace

Cut cut_batches(std::int64_t batches, double batch_products, unsigned workers) {
  if (batches == 0) return {};
  const double all = wanted_pieces(batch_products * double(batches), workers, pieces_per_worker);
  const double wanted = std::min(double(batches), all);
  Cut cut;
  cut.batches = std::max<std::int64_t>(1, std::int64_t(double(batches) / wanted));
  cut.pieces = quotient_up(batches, cut.batches);
  return cut;
}

Cut cut(const Engine::Routines& routines, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
        bool is_a_in_rows, unsigned workers) {
  if (batches == 0 || m == 0 || n == 0) return {};
  const double batch_products = double(m) * double(n) * double(std::max<std::int64_t>(k, 1));
  Cut cut = cut_batches(batches, batch_products, workers);
  cut.rows = m;
  cut.columns = n;
  const double wanted = std::ceil(wanted_pieces(batch_products * double(batches), workers, 1) / double(batches));
  if (wanted <= 1) return cut;
  // Each part of the rows packs all of b, each part of the columns reads all of a: choose the split with the least of
  // both. A small a is read in place, so splitting the columns alone packs nothing twice (256 by 256 by 256: 190
  // GFLOP/s on two cores, 166 if split 3 by 3).
  const std::int64_t row_tiles = quotient_up(m, routines.rows);
  const std::int64_t column_tiles = quotient_up(n, routines.columns);
  std::int64_t row_parts = 1;
  if (!is_a_in_rows || double(m) * double(k) > max_unpacked || wanted > double(column_tiles)) {
    // Powers of two keep the workers' shares even. Reading a once per column part costs about half of packing it (1024
    // by 1024 by 1024 in 2 by 8: 88.5 GFLOP/s on a core, in 4 by 4: 87.5).
    const double a_cost = is_a_in_rows ? 0.5 : 1;
    const auto packed = [&](std::int64_t rows) {
      return double(rows) * double(n) + wanted / double(rows) * double(m) * a_cost;
    };
    while (2 * row_parts <= row_tiles && packed(2 * row_parts) < packed(row_parts)) row_parts *= 2;
  }
  const auto column_parts = std::int64_t(std::clamp(wanted / double(row_parts), 1.0, double(column_tiles)));
  cut.columns = quotient_up(column_tiles, column_parts) * routines.columns;
  cut.column_parts = quotient_up(n, cut.columns);
  // With too few columns for that, split the rows further.
  const auto more_parts = std::int64_t(std::clamp(wanted / double(cut.column_parts), 1.0, double(row_tiles)));
  cut.rows = quotient_up(row_tiles, more_parts) * routines.rows;
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

namespace {

// Transposes a product of one column to one row if the result is contiguous; otherwise returns it unchanged.
Gemm row_first(Gemm gemm) {
  if (gemm.n != 1 || gemm.m == 1 || gemm.c_row != 1) return gemm;
  std::swap(gemm.m, gemm.n);
  std::swap(gemm.a, gemm.b);
  std::swap(gemm.a.row, gemm.a.column);
  std::swap(gemm.b.row, gemm.b.column);
  gemm.c_row = gemm.n;
  return gemm;
}

const Engine::Routines& routines(const Gemm& gemm) { return engine().routines[static_cast<std::size_t>(gemm.dtype)]; }

void run_part(const Gemm& gemm, const Part& part) {
  const std::int64_t size = static_cast<std::int64_t>(size_of(gemm.dtype));
  const auto multiply = gemm.m == 1 ? routines(gemm).multiply_row : routines(gemm).multiply;
  for (std::int64_t batch = part.first; batch < part.last; ++batch) {
    Block block{part.rows, part.columns, gemm.k, gemm.a, gemm.c, gemm.c_row};
    Matrix b = gemm.b;
    block.a.data += (batch * gemm.a.batch + part.row * gemm.a.row) * size;
    b.data += (batch * gemm.b.batch + part.column * gemm.b.column) * size;
    block.c += (batch * gemm.c_batch + part.row * gemm.c_row + part.column) * size;
    multiply(block, b);
  }
}

}  // namespace

Cut cut(const Gemm& gemm, unsigned workers) {
  const Gemm turned = row_first(gemm);
  return cut(routines(gemm), turned.batches, turned.m, turned.n, turned.k, turned.a.column == 1, workers);
}

void run_piece(const Gemm& gemm, const Cut& cut, std::int64_t piece) {
  if (gemm.batches == 0 || gemm.m == 0 || gemm.n == 0) return;
  const Gemm turned = row_first(gemm);
  run_part(turned, Part(cut, turned.batches, turned.m, turned.n, piece));
}

void for_each_part(const Gemm& gemm, const Cut& cut, std::int64_t piece,
                   const std::function<void(const ResultPart&)>& f) {
  if (gemm.batches == 0 || gemm.m == 0 || gemm.n == 0) return;
  const Part part(cut, gemm.batches, gemm.m, gemm.n, piece);
  for (std::int64_t batch = part.first; batch < part.last; ++batch) {
    f({batch, part.row, part.rows, part.column, part.columns});
  }
}

}  // namespace tessera::driver::cpu
