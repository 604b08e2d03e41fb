#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "ir/rules.hpp"
#include "tile/context.hpp"

#include <numeric>
#include <utility>

// The operations of the tile language.
namespace tessera::tile {

using core::text;
using ir::Code;

namespace {

Tile unary(Code code, const Tile& x) { return Access::tile(builder().unary(code, id_of(x))); }

Tile binary(Code code, const Tile& a, const Tile& b) {
  const ir::Type type = common_type({&a, &b});
  const ir::Id x = Access::id(a, type);
  const ir::Id y = Access::id(b, type);
  return Access::tile(builder().binary(code, x, y));
}

// For functions of floats, where a plain number means a float: exp(1).
Tile float_unary(Code code, const Tile& x) {
  const bool is_number = Access::is_number(x) && Access::type(x) != ir::Type::boolean;
  return Access::tile(builder().unary(code, is_number ? Access::id(x, ir::Type::f32) : id_of(x)));
}

std::string shape_text(ir::Id id) { return ir::shape_text(builder().program(), builder()[id].shape); }

Tile reduce(Code code, const Tile& x, int axis) {
  const ir::Id id = id_of(x);
  axis = checked_axis(axis, builder().rank(id), text("a tile of shape ", shape_text(id)));
  return Access::tile(builder().reduce(code, id, axis));
}

}  // namespace

int Tile::rank() const { return Access::is_number(*this) ? 0 : builder().rank(id_of(*this)); }

Tile Tile::dim(int axis) const {
  const ir::Id id = id_of(*this);
  axis = checked_axis(axis, builder().rank(id), text("a tile of shape ", shape_text(id)));
  return Access::tile(builder()[id].shape[static_cast<std::size_t>(axis)]);
}

Tile operator+(const Tile& a, const Tile& b) { return binary(Code::add, a, b); }
Tile operator-(const Tile& a, const Tile& b) { return binary(Code::sub, a, b); }
Tile operator*(const Tile& a, const Tile& b) { return binary(Code::mul, a, b); }
Tile operator/(const Tile& a, const Tile& b) { return binary(Code::div, a, b); }
Tile operator%(const Tile& a, const Tile& b) { return binary(Code::rem, a, b); }
Tile operator-(const Tile& a) { return unary(Code::neg, a); }
Tile operator&(const Tile& a, const Tile& b) { return binary(Code::bit_and, a, b); }
Tile operator|(const Tile& a, const Tile& b) { return binary(Code::bit_or, a, b); }
Tile operator^(const Tile& a, const Tile& b) { return binary(Code::bit_xor, a, b); }
Tile operator<<(const Tile& a, const Tile& b) { return binary(Code::shl, a, b); }
Tile operator>>(const Tile& a, const Tile& b) { return binary(Code::shr, a, b); }

Tile operator~(const Tile& a) {
  if (Access::type(a) == ir::Type::boolean) fail("~ is for integers; negate a bool with !");
  return unary(Code::bit_not, a);
}

Tile operator!(const Tile& a) {
  if (Access::type(a) != ir::Type::boolean)
    fail(text("! needs a bool, got ", to_string(Access::type(a)), "; compare it with 0"));
  return unary(Code::bit_not, a);
}

Tile operator==(const Tile& a, const Tile& b) { return binary(Code::eq, a, b); }
Tile operator!=(const Tile& a, const Tile& b) { return binary(Code::ne, a, b); }
Tile operator<(const Tile& a, const Tile& b) { return binary(Code::lt, a, b); }
Tile operator<=(const Tile& a, const Tile& b) { return binary(Code::le, a, b); }
Tile operator>(const Tile& a, const Tile& b) { return binary(Code::gt, a, b); }
Tile operator>=(const Tile& a, const Tile& b) { return binary(Code::ge, a, b); }

Tile select(const Tile& condition, const Tile& yes, const Tile& no) {
  const ir::Type type = common_type({&yes, &no});
  const ir::Id truth = id_of(condition);
  const ir::Id a = Access::id(yes, type);
  const ir::Id b = Access::id(no, type);
  return Access::tile(builder().select(truth, a, b));
}

Tile exp(const Tile& x) { return float_unary(Code::exp, x); }
Tile log(const Tile& x) { return float_unary(Code::log, x); }
Tile sqrt(const Tile& x) { return float_unary(Code::sqrt, x); }
Tile rsqrt(const Tile& x) { return float_unary(Code::rsqrt, x); }
Tile sin(const Tile& x) { return float_unary(Code::sin, x); }
Tile cos(const Tile& x) { return float_unary(Code::cos, x); }
Tile tanh(const Tile& x) { return float_unary(Code::tanh, x); }
Tile erf(const Tile& x) { return float_unary(Code::erf, x); }
Tile floor(const Tile& x) { return float_unary(Code::floor, x); }
Tile ceil(const Tile& x) { return float_unary(Code::ceil, x); }
Tile round(const Tile& x) { return float_unary(Code::round, x); }
Tile abs(const Tile& x) { return unary(Code::abs, x); }
Tile pow(const Tile& x, const Tile& y) { return binary(Code::pow, x, y); }
Tile min(const Tile& a, const Tile& b) { return binary(Code::min, a, b); }
Tile max(const Tile& a, const Tile& b) { return binary(Code::max, a, b); }

Tile fma(const Tile& a, const Tile& b, const Tile& c) {
  const ir::Type type = common_type({&a, &b, &c});
  const ir::Id x = Access::id(a, type);
  const ir::Id y = Access::id(b, type);
  const ir::Id z = Access::id(c, type);
  return Access::tile(builder().fma(x, y, z));
}

Tile cast(const Tile& x, DType to) { return Access::tile(builder().convert(Code::convert, ir::type_of(to), id_of(x))); }
Tile round_cast(const Tile& x, DType to) {
  return Access::tile(builder().convert(Code::nearest, ir::type_of(to), id_of(x)));
}

Tile constant(DType type, const Tile& number) {
  if (!Access::is_number(number)) fail("constant() takes a number; use cast<T>() to convert a tile");
  return Access::tile(Access::id(number, ir::type_of(type)));
}

Tile iota(const Indices& shape, int axis) {
  const ir::Extents extents = index_ids(shape);
  axis = checked_axis(axis, static_cast<int>(extents.size()),
                      text("the shape ", ir::shape_text(builder().program(), extents)));
  return Access::tile(builder().iota(extents, axis));
}

Tile broadcast(const Tile& x, const Indices& shape) {
  const ir::Id id = id_of(x);
  return Access::tile(builder().broadcast(id, index_ids(shape)));
}

Tile reshape(const Tile& x, const Indices& shape) {
  const ir::Id id = id_of(x);
  return Access::tile(builder().reshape(id, index_ids(shape)));
}

Tile transpose(const Tile& x) {
  const int rank = x.rank();
  if (rank < 2) fail(text("transpose of a tile of shape ", shape_text(id_of(x)), ": it needs two axes"));
  std::vector<int> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return transpose(x, axes);
}

Tile transpose(const Tile& x, const std::vector<int>& axes) {
  const ir::Id id = id_of(x);
  std::vector<std::int64_t> list;
  list.reserve(axes.size());
  for (const int axis : axes)
    list.push_back(checked_axis(axis, builder().rank(id), text("a tile of shape ", shape_text(id))));
  return Access::tile(builder().transpose(id, list));
}

Tile slice(const Tile& x, const Indices& start, const Indices& shape) {
  const ir::Id id = id_of(x);
  const std::vector<ir::Id> from = index_ids(start);
  return Access::tile(builder().slice(id, from, index_ids(shape)));
}

Tile reduce_sum(const Tile& x, int axis) { return reduce(Code::reduce_sum, x, axis); }
Tile reduce_product(const Tile& x, int axis) { return reduce(Code::reduce_product, x, axis); }
Tile reduce_max(const Tile& x, int axis) { return reduce(Code::reduce_max, x, axis); }
Tile reduce_min(const Tile& x, int axis) { return reduce(Code::reduce_min, x, axis); }
Tile argmax(const Tile& x, int axis) { return reduce(Code::argmax, x, axis); }

Tile mma(const Tile& a, const Tile& b, const Tile& sum) {
  const ir::Id x = id_of(a);
  const ir::Id y = id_of(b);
  return Access::tile(builder().mma(x, y, id_of(sum)));
}

Index ceil_div(const Index& a, const Index& b) {
  const ir::Id x = index_id(a);
  const ir::Id y = index_id(b);
  ir::Builder& make = builder();
  const ir::Id round_up = make.binary(Code::sub, y, make.index(1));
  return Access::tile(make.binary(Code::div, make.binary(Code::add, x, round_up), y));
}

namespace detail {

Tile scalar(int number) {
  const auto count = static_cast<int>(builder().program().scalars.size());
  if (number < 0 || number >= count) fail(text("there is no scalar ", number, ": the kernel has ", count));
  return Access::tile(builder().scalar(number));
}

std::vector<Tile> loop(const Index& count, const std::vector<Tile>& initial,
                       const std::function<std::vector<Tile>(const Index&, const std::vector<Tile>&)>& body) {
  const ir::Id times = index_id(count);
  std::vector<ir::Id> first;
  first.reserve(initial.size());
  for (const Tile& tile : initial) first.push_back(id_of(tile));
  const auto to_tiles = [](std::span<const ir::Id> ids) {
    std::vector<Tile> tiles;
    tiles.reserve(ids.size());
    for (const ir::Id id : ids) tiles.push_back(Access::tile(id));
    return tiles;
  };

  builder().begin_loop(times, first);
  const std::vector<ir::Id> arguments = builder().arguments();
  const std::vector<Tile> returned = body(Access::tile(arguments[0]), to_tiles(std::span(arguments).subspan(1)));
  if (returned.size() != first.size())
    fail(text("a loop carries ", first.size(), " tiles but its body returns ", returned.size()));
  std::vector<ir::Id> next;
  next.reserve(returned.size());
  for (std::size_t i = 0; i < returned.size(); ++i) next.push_back(Access::id(returned[i], builder()[first[i]].type));
  return to_tiles(builder().end_loop(next));
}

}  // namespace detail

}  // namespace tessera::tile
