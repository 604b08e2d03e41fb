// What a random program is about: buffers, tiles, scalars, extents.
#include "fuzz/generator.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tessera::fuzz {

using ir::Code;
using ir::Type;

namespace {

const std::vector<std::int64_t> some_extents = {1, 2, 3, 5, 8, 17, 33, 2, 3, 5, 0};
constexpr std::int64_t most_elements = 1024;

}  // namespace

Generator::Generator(Choices& choices, const std::vector<Type>& types) : choices_(choices) { sample_.types = types; }

std::vector<std::int64_t> Generator::random_dims(std::size_t rank) {
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t extent = choices_.from(some_extents);
    dims.push_back(elements * extent > most_elements ? 1 : extent);
    elements *= std::max<std::int64_t>(dims.back(), 1);
  }
  return dims;
}

// Like the output, broadcast to it, or anything.
void Generator::declare_input() {
  const std::vector<std::int64_t>& output = sample_.dims[0];
  std::vector<std::int64_t> dims = output;
  const std::uint32_t kind = choices_.below(3);
  if (kind == 1) {
    dims.erase(dims.begin(), dims.begin() + choices_.below(dims.size() + 1));
    for (std::int64_t& dim : dims) dim = choices_.one_in(2) ? 1 : dim;
  } else if (kind == 2) {
    dims = random_dims(choices_.below(5));
  }
  ir::Buffer buffer{.name = std::string(1, static_cast<char>('a' + buffers_.size() - 1)),
                    .type = choices_.from(sample_.types),
                    .dims = {}};
  for (const std::int64_t dim : dims) buffer.dims.push_back(dim == 1 || choices_.one_in(2) ? dim : -1);
  buffers_.push_back(buffer);
  sample_.dims.push_back(dims);
  sample_.fills.push_back(static_cast<Fill>(choices_.below(3)));
}

void Generator::declare_tile() {
  if (!choices_.one_in(3)) return;
  std::int64_t tiles = 1;
  for (const std::int64_t dim : sample_.dims[0]) {
    std::int64_t extent = choices_.from(std::vector<std::int64_t>{std::max<std::int64_t>(dim, 1), 1, 2, 3, 4, 7, 16});
    if (tiles * ((dim + extent - 1) / extent) > 40) extent = dim;
    tiles *= std::max<std::int64_t>((dim + extent - 1) / extent, 1);
    tile_extents_.push_back(extent);
  }
  times_ = static_cast<double>(tiles);
}

void Generator::declare_scalars() {
  const std::uint32_t count = choices_.below(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    // Every device takes small scalars of s64.
    const Type type = choices_.one_in(5) ? Type::s64 : choices_.from(sample_.types);
    scalars_.push_back({.name = "s" + std::to_string(i), .type = type});
    const double number = choices_.below(8);
    sample_.scalars.push_back(ir::is_float(scalars_.back().type) ? std::bit_cast<std::uint64_t>(number / 2)
                                                                 : static_cast<std::uint64_t>(number));
  }
}

void Generator::declare() {
  sample_.dims.push_back(random_dims(choices_.below(5)));
  sample_.fills.push_back(Fill::small);
  ir::Buffer output{.name = "z", .type = choices_.from(sample_.types), .dims = {}};
  for (const std::int64_t dim : sample_.dims[0]) output.dims.push_back(choices_.one_in(2) ? dim : -1);
  buffers_.push_back(output);
  const std::uint32_t inputs = choices_.below(4);
  for (std::uint32_t i = 0; i < inputs; ++i) declare_input();
  declare_tile();
  declare_scalars();
}

// All in the outermost region, where everything sees them and equal ones are one.
void Generator::make_extents() {
  one_ = builder_->index(1);
  extents_ = {one()};
  const std::vector<std::int64_t> numbers = {2, 5, 3, 8};
  const std::size_t count = choices_.below(numbers.size() + 1);
  for (std::size_t i = 0; i < count; ++i)
    extents_.push_back({builder_->index(numbers[i]), numbers[i], false, numbers[i]});
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Shape& shape = dims_.emplace_back();
    for (std::size_t axis = 0; axis < buffers_[i].dims.size(); ++axis) {
      const ir::Id id = builder_->dim(static_cast<int>(i), static_cast<int>(axis));
      shape.push_back({id, sample_.dims[i][axis], id == one_, sample_.dims[i][axis]});
      extents_.push_back(shape.back());
    }
  }
  for (std::size_t axis = 0; axis < buffers_[0].dims.size(); ++axis) {
    const std::int64_t extent = tile_extents_.empty() ? sample_.dims[0][axis] : tile_extents_[axis];
    tile_.push_back({builder_->tile_dim(static_cast<int>(axis)), extent, false, extent});
    extents_.push_back(tile_.back());
  }
  extents_.push_back({builder_->index(0), 0, false, 0});
  for (std::uint32_t left = choices_.below(5); left > 0; --left) add_extent();
}

// An extent computed from others. It may be negative, and counts as 0 then.
void Generator::add_extent() {
  const Extent a = choices_.from(extents_), b = choices_.from(extents_);
  const std::int64_t number = 1 + choices_.below(12);
  const Extent other{.id = builder_->index(number), .most = number, .value = number};
  switch (choices_.below(9)) {
    case 0:
      add_extent(Code::add, a, other, a.value + number);
      break;
    case 1:
      add_extent(Code::sub, a, other, a.value - number);
      break;
    case 2:
      add_extent(Code::add, a, {.id = builder_->index(-number)}, a.value - number);
      break;
    case 3:  // as many positions as a window of b has in a
      add_extent(Code::sub, a, b, a.value - b.value);
      add_extent(Code::add, extents_.back(), one(), extents_.back().value + 1);
      break;
    case 4:
      add_extent(Code::mul, a, b, a.value * b.value);
      break;
    case 5:
      add_extent(Code::div, a, other, a.value / number);
      break;
    case 6:
      add_extent(Code::rem, a, other, a.value % number);
      break;
    case 7:
      add_extent(Code::min, a, other, std::min(a.value, number));
      break;
    default:
      add_extent(Code::max, a, other, std::max(a.value, number));
  }
}

void Generator::add_extent(Code code, const Extent& a, const Extent& b, std::int64_t value) {
  constexpr std::int64_t largest = 100;
  if (std::abs(value) > largest) return;
  const ir::Id id = builder_->binary(code, a.id, b.id);
  if (value < 0 && id == builder_->index(value)) return;  // a negative constant is refused
  extents_.push_back({id, std::max<std::int64_t>(value, 0), id == one_, value});
  // As a number it would make most programs too wide for devices without s64.
  if (std::ranges::find(sample_.types, Type::s64) != sample_.types.end())
    keep({id, Type::s64, {}, known_integer(Type::s64, static_cast<double>(largest))});
}

// A tile that does not fit in memory: the interpreter and the compiled program must refuse it alike.
void Generator::add_huge_tile() {
  std::vector<Extent> any;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    for (std::size_t axis = 0; axis < buffers_[i].dims.size(); ++axis) {
      if (buffers_[i].dims[axis] < 0) any.push_back(dims_[i][axis]);
    }
  }
  if (any.empty()) return;
  Extent extent = choices_.from(any);
  const auto bits = choices_.from(std::vector<int>{40, 34, 61, 63});
  extent.id = builder_->binary(Code::mul, extent.id, builder_->index(std::int64_t{1} << (bits - 1)));
  extent.id = builder_->binary(Code::mul, extent.id, builder_->index(2));
  const Value all = broadcast_to(constant(sample_.types.front(), 1), {extent});
  if (const auto value = reduced(Code::reduce_max, all, 0)) keep(*value);
}

Sample Generator::make() {
  declare();
  builder_.emplace("fuzz", buffers_, scalars_, tile_extents_);
  make_extents();
  for (std::size_t i = 1; i < buffers_.size(); ++i) add_load_like();
  while (step()) {
  }
  if (choices_.one_in(40)) add_huge_tile();
  const Value stored = final_value();
  sample_.stored = stored.known;
  sample_.program = std::move(*builder_).store(stored.id);
  sample_.choices = choices_.made();
  return std::move(sample_);
}

}  // namespace tessera::fuzz
