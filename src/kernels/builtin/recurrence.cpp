#include "kernels/builtin/recurrence.hpp"

#include "kernels/builtin/common.hpp"
#include "kernels/builtin/image.hpp"
#include "tile/trace.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera::kernels {

using tile::Index;
using tile::Tile;

namespace {

constexpr int block_shift = 4, block = 1 << block_shift;

using Matrix = Recurrence::Matrix;
using Vector = Recurrence::Vector;

constexpr Matrix identity = {{{1, 0}, {0, 1}}};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result{};
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t c = 0; c < 2; ++c) result[r][c] = a[r][0] * b[0][c] + a[r][1] * b[1][c];
  }
  return result;
}
Vector product(const Matrix& a, const Vector& v) {
  return {a[0][0] * v[0] + a[0][1] * v[1], a[1][0] * v[0] + a[1][1] * v[1]};
}
Vector product(const Vector& v, const Matrix& a) {
  return {v[0] * a[0][0] + v[1] * a[1][0], v[0] * a[0][1] + v[1] * a[1][1]};
}

std::vector<Matrix> powers(const Matrix& a) {
  std::vector<Matrix> all = {identity};
  for (int i = 0; i < block; ++i) all.push_back(product(all.back(), a));
  return all;
}

// The powers of an unstable filter overflow. Finite, they still turn silence into silence.
Lowering::Scalar coefficient(double number) {
  constexpr double most = std::numeric_limits<float>::max();
  return number_scalar("coefficient", std::isnan(number) ? most : std::clamp(number, -most, most));
}

// How often the distance of the scan over groups can double.
constexpr int most_rounds = 24;

// Where the scalars of a recurrence are, in the order of Recurrence::scalars().
struct Scalars {
  int first;
  int states;

  Tile response(int delay) const { return tile::detail::scalar(first + delay); }
  Tile output(int state, int delay) const { return at(1, state, delay); }
  Tile input(int state, int delay) const { return at(1 + states, state, delay); }
  // Of the matrix from a block to the one `delay` blocks later.
  Tile block_step(int delay, int to, int from) const { return matrix(0, delay, to, from); }
  // Of the matrix from a group of blocks to the one 2^round groups later.
  Tile group_step(int round, int to, int from) const { return matrix(block, round, to, from); }
  Tile rounds() const { return matrix(block + most_rounds, 0, 0, 0); }

 private:
  Tile at(int table, int state, int delay) const {
    return tile::detail::scalar(first + (table + state) * block + delay);
  }
  Tile matrix(int before, int number, int to, int from) const {
    const int tables = (1 + 2 * states) * block;
    return tile::detail::scalar(first + tables + ((before + number) * states + to) * states + from);
  }
};

// table(i), where i is 0…count - 1. Selected, not stored and read: that would be one more stage with a barrier, and
// PoCL takes seconds to compile each.
Tile looked_up(int count, const std::function<Tile(int)>& table, const Tile& i) {
  Tile found = table(count - 1);
  for (int k = count - 2; k >= 0; --k) found = tile::select(i == k, table(k), found);
  return found;
}

// Multiplied, not shifted: devices without 64-bit integers take products of indices for indices.
Tile last_of(const Tile& blocks) { return blocks * block + (block - 1); }
Tile place_in_block(const Tile& index) { return index & (block - 1); }
Tile block_of(const Tile& index) { return index >> block_shift; }
Index blocks_for(const Index& count) { return (count + (block - 1)) >> block_shift; }
Tile counted(const Index& count) { return tile::iota({1, count}, 1); }

// The program of a recurrence for a channel.
class Program {
 public:
  Program(Recurrence::Kind kind, Scalars scalars) : kind_(kind), scalars_(scalars) {}

  Tile combined(const Tile& a, const Tile& b) const { return kind_ == Recurrence::Kind::max ? tile::max(a, b) : a + b; }

  using States = std::vector<Tile>;  // of blocks or groups, each [1,count]

  static Tile element(const States& states, int state, const Tile& at) {
    return tile::gather(states[static_cast<std::size_t>(state)], {0, at});
  }

  // The states at the beginning of each block of 16 samples.
  States beginnings(const Recurrence::Samples& x, const Index& samples) const {
    const Index blocks = blocks_for(samples), groups = blocks_for(blocks);
    const States of_blocks = effects(x, blocks);
    const States first = scanned(joined(of_blocks, groups), groups);
    const Tile k = counted(blocks), i = place_in_block(k);
    return each_state([&](int state) {
      Tile sum = tile::constant(0.0f);
      for (int from = 0; from < scalars_.states; ++from) {
        const Tile factor = looked_up(block, [&](int m) { return scalars_.block_step(m, state, from); }, i);
        sum = combined(sum, factor * element(first, from, block_of(k)));
      }
      for (int m = 0; m < block - 1; ++m) {
        const Tile part = stepped(m, state, [&](int from) { return element(of_blocks, from, k - (m + 1)); });
        sum = combined(sum, tile::select(i > m, part, tile::constant(0.0f)));
      }
      return sum;
    });
  }

 private:
  template <class F>
  States each_state(const F& f) const {
    States all;
    for (int state = 0; state < scalars_.states; ++state) all.push_back(f(state));
    return all;
  }

  // What the samples of each block add to the state.
  States effects(const Recurrence::Samples& x, const Index& blocks) const {
    return each_state([&](int state) {
      const Tile last = last_of(counted(blocks));
      Tile sum = x(last) * scalars_.input(state, 0);
      for (int m = 1; m < block; ++m) sum = combined(sum, x(last - m) * scalars_.input(state, m));
      return sum;
    });
  }

  // Row `to` of the matrix for `delay` blocks times a vector.
  template <class F>
  Tile stepped(int delay, int to, const F& vector) const {
    Tile sum = vector(0) * scalars_.block_step(delay, to, 0);
    for (int from = 1; from < scalars_.states; ++from) {
      sum = combined(sum, vector(from) * scalars_.block_step(delay, to, from));
    }
    return sum;
  }

  // The effects of each group of 16 blocks.
  States joined(const States& of_blocks, const Index& groups) const {
    const Tile last = last_of(counted(groups));
    return each_state([&](int state) {
      const auto part = [&](int m) {
        return stepped(m, state, [&](int from) { return element(of_blocks, from, last - m); });
      };
      Tile sum = part(0);
      for (int m = 1; m < block; ++m) sum = combined(sum, part(m));
      return sum;
    });
  }

  // The states at the beginning of each group, from the effects of the groups. At first each group looks at the one
  // before it; in each round twice as many come together.
  States scanned(const States& of_groups, const Index& groups) const {
    const Tile k = counted(groups);
    const States before = each_state([&](int state) { return element(of_groups, state, k - 1); });
    const Index rounds = tile::cast<std::int64_t>(scalars_.rounds());
    return tile::detail::loop(rounds, before, [&](const Index& round, const States& states) {
      const Tile distance = tile::constant<std::int32_t>(1) << tile::cast<std::int32_t>(round);
      const Tile from_where = tile::cast<std::int64_t>(tile::cast<std::int32_t>(k) - distance);
      return each_state([&](int to) {
        Tile sum = states[static_cast<std::size_t>(to)];
        for (int from = 0; from < scalars_.states; ++from) {
          const Tile factor = looked_up(most_rounds, [&](int r) { return scalars_.group_step(r, to, from); }, round);
          sum = combined(sum, factor * element(states, from, from_where));
        }
        return sum;
      });
    });
  }

  Recurrence::Kind kind_;
  Scalars scalars_;
};

}  // namespace

int Recurrence::scalar_count() const {
  return (1 + 2 * states_) * block + (block + most_rounds) * states_ * states_ + 1;
}

std::vector<Lowering::Scalar> Recurrence::scalars(std::int64_t samples) const {
  std::vector<Lowering::Scalar> all;
  const std::vector<Matrix> power = powers(a_);
  const auto states = static_cast<std::size_t>(states_);
  all.push_back(coefficient(d_));
  for (std::size_t i = 0; i + 1 < block; ++i) {
    const Vector input = product(power[i], b_);
    all.push_back(coefficient(c_[0] * input[0] + c_[1] * input[1]));
  }
  for (std::size_t state = 0; state < states; ++state) {
    for (std::size_t i = 0; i < block; ++i) all.push_back(coefficient(product(c_, power[i])[state]));
  }
  for (std::size_t state = 0; state < states; ++state) {
    for (std::size_t i = 0; i < block; ++i) all.push_back(coefficient(product(power[i], b_)[state]));
  }
  const auto add_matrix = [&](const Matrix& matrix) {
    for (std::size_t to = 0; to < states; ++to) {
      for (std::size_t from = 0; from < states; ++from) all.push_back(coefficient(matrix[to][from]));
    }
  };
  const std::vector<Matrix> steps = powers(power[block]);
  for (std::size_t i = 0; i < block; ++i) add_matrix(steps[i]);
  Matrix step = steps[block];
  for (int round = 0; round < most_rounds; ++round) {
    add_matrix(step);
    step = product(step, step);
  }
  const std::int64_t groups = (samples + block * block - 1) / (block * block);
  all.push_back(
      whole_scalar("rounds", s32, std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(groups, 1) - 1))));
  return all;
}

Tile Recurrence::body(const tile::Output& z, const Samples& x, int first_scalar) const {
  const Scalars scalars{first_scalar, states_};
  const Program program(kind_, scalars);
  const Tile t = z.index(1), i = place_in_block(t);
  Tile sum = x(t) * scalars.response(0);
  for (int j = 1; j < block; ++j) {
    const Tile part = x(t - j) * scalars.response(j);
    sum = program.combined(sum, tile::select(i >= j, part, tile::constant(0.0f)));
  }
  const Program::States states = program.beginnings(x, z.tile_dim(1));
  for (int state = 0; state < states_; ++state) {
    const Tile factor = looked_up(block, [&](int m) { return scalars.output(state, m); }, i);
    sum = program.combined(sum, factor * Program::element(states, state, block_of(t)));
  }
  return sum;
}

}  // namespace tessera::kernels
