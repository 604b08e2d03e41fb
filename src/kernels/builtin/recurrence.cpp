#include "kernels/builtin/recurrence.hpp"

#include "core/text.hpp"
#include "kernels/builtin/image.hpp"
#include "tile/trace.hpp"

#include <algorithm>
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

// Where the scalars of a recurrence are, in the order of Recurrence::scalars().
struct Scalars {
  int first;
  int states;

  Tile response(int delay) const { return tile::detail::scalar(first + delay); }
  Tile output(int state, int delay) const { return at(1, state, delay); }
  Tile input(int state, int delay) const { return at(1 + states, state, delay); }
  // Of the matrix from one block of a level to the one `delay` blocks later. Levels count from 1.
  Tile step(int level, int delay, int to, int from) const {
    const int before = (1 + 2 * states) * block + (level - 1) * block * states * states;
    return tile::detail::scalar(first + before + (delay * states + to) * states + from);
  }

 private:
  Tile at(int table, int state, int delay) const {
    return tile::detail::scalar(first + (table + state) * block + delay);
  }
};

// table(i), where i is 0…15.
Tile looked_up(const std::function<Tile(int)>& table, const Tile& i) {
  const Tile number = tile::iota({block}, 0);
  Tile all = table(block - 1);
  for (int k = block - 2; k >= 0; --k) all = tile::select(number == k, table(k), all);
  return tile::gather(all, {i});
}

Tile place_in_block(const Tile& index) { return index & (block - 1); }
Tile block_of(const Tile& index) { return index >> block_shift; }
Index blocks_for(const Index& count) { return (count + (block - 1)) >> block_shift; }
Tile counted(const Index& count) { return tile::iota({1, count}, 1); }

// The program of a recurrence for a channel.
class Levels {
 public:
  Levels(Recurrence::Kind kind, Scalars scalars) : kind_(kind), scalars_(scalars) {}

  Tile combined(const Tile& a, const Tile& b) const { return kind_ == Recurrence::Kind::max ? tile::max(a, b) : a + b; }

  using States = std::vector<Tile>;  // of the blocks of a level, each [1,blocks]

  // What the samples of each block add to the state.
  States effects(const Recurrence::Samples& x, const Index& blocks) const {
    return each_state([&](int state) {
      const Tile last = (counted(blocks) << block_shift) + (block - 1);
      Tile sum = x(last) * scalars_.input(state, 0);
      for (int m = 1; m < block; ++m) sum = combined(sum, x(last - m) * scalars_.input(state, m));
      return sum;
    });
  }

  // The states at the beginning of each block of a level, from the effects of the blocks.
  States beginnings(const States& effects, const Index& blocks, int level, int levels) const {
    const Index above = blocks_for(blocks);
    const bool is_top = level + 1 == levels;
    const States first = is_top ? States() : beginnings(joined(effects, above, level), above, level + 1, levels);
    const Tile k = counted(blocks), i = place_in_block(k);
    return each_state([&](int state) {
      Tile sum = tile::constant(0.0f);
      for (int m = 0; m < block - 1; ++m) {
        const Tile part = stepped(level, m, state, [&](int from) { return element(effects, from, k - (m + 1)); });
        sum = combined(sum, tile::select(i > m, part, tile::constant(0.0f)));
      }
      for (int from = 0; from < scalars_.states && !is_top; ++from) {
        const Tile factor = looked_up([&](int m) { return scalars_.step(level, m, state, from); }, i);
        sum = combined(sum, factor * element(first, from, block_of(k)));
      }
      return sum;
    });
  }

  static Tile element(const States& states, int state, const Tile& at) {
    return tile::gather(states[static_cast<std::size_t>(state)], {0, at});
  }

 private:
  template <class F>
  States each_state(const F& f) const {
    States all;
    for (int state = 0; state < scalars_.states; ++state) all.push_back(f(state));
    return all;
  }

  // Row `to` of the matrix for `delay` blocks times a vector.
  template <class F>
  Tile stepped(int level, int delay, int to, const F& vector) const {
    Tile sum = vector(0) * scalars_.step(level, delay, to, 0);
    for (int from = 1; from < scalars_.states; ++from) {
      sum = combined(sum, vector(from) * scalars_.step(level, delay, to, from));
    }
    return sum;
  }

  // The effects of 16 blocks together.
  States joined(const States& effects, const Index& blocks, int level) const {
    const Tile last = (counted(blocks) << block_shift) + (block - 1);
    return each_state([&](int state) {
      const auto part = [&](int m) {
        return stepped(level, m, state, [&](int from) { return element(effects, from, last - m); });
      };
      Tile sum = part(0);
      for (int m = 1; m < block; ++m) sum = combined(sum, part(m));
      return sum;
    });
  }

  Recurrence::Kind kind_;
  Scalars scalars_;
};

}  // namespace

int Recurrence::levels_of(std::int64_t samples) {
  int levels = 1;
  for (std::int64_t count = (samples + block - 1) >> block_shift; count > 1; ++levels) {
    count = (count + block - 1) >> block_shift;
  }
  return levels;
}

int Recurrence::scalar_count(std::int64_t samples) const {
  return (1 + 2 * states_) * block + (levels_of(samples) - 1) * block * states_ * states_;
}

std::string Recurrence::variant(std::int64_t samples) const { return core::text("levels ", levels_of(samples)); }

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
  Matrix step = power[block];
  for (int level = 1; level < levels_of(samples); ++level) {
    const std::vector<Matrix> steps = powers(step);
    for (std::size_t i = 0; i < block; ++i) {
      for (std::size_t to = 0; to < states; ++to) {
        for (std::size_t from = 0; from < states; ++from) all.push_back(coefficient(steps[i][to][from]));
      }
    }
    step = steps[block];
  }
  return all;
}

Tile Recurrence::body(const tile::Output& z, const Samples& x, int levels, int first_scalar) const {
  const Scalars scalars{first_scalar, states_};
  const Levels program(kind_, scalars);
  const Tile t = z.index(1), i = place_in_block(t);
  Tile sum = x(t) * scalars.response(0);
  for (int j = 1; j < block; ++j) {
    const Tile part = x(t - j) * scalars.response(j);
    sum = program.combined(sum, tile::select(i >= j, part, tile::constant(0.0f)));
  }
  if (levels == 1) return sum;
  const Index blocks = blocks_for(z.tile_dim(1));
  const Levels::States states = program.beginnings(program.effects(x, blocks), blocks, 1, levels);
  for (int state = 0; state < states_; ++state) {
    const Tile factor = looked_up([&](int m) { return scalars.output(state, m); }, i);
    sum = program.combined(sum, factor * Levels::element(states, state, block_of(t)));
  }
  return sum;
}

}  // namespace tessera::kernels
