// The steps of a random program that look at other points: moves, reductions, products, loops.
#include "fuzz/generator.hpp"

#include <algorithm>
#include <numeric>

namespace tessera::fuzz {

using ir::Code;
using ir::Type;

void Generator::add_broadcast() {
  const auto a = pick([](const Value& value) { return value.rank() < 4; });
  if (!a) return;
  Shape shape = a->shape;
  for (Extent& extent : shape) {
    if (extent.is_one && choices_.one_in(2)) extent = choices_.from(extents_);
  }
  if (choices_.one_in(2)) shape.insert(shape.begin(), choices_.from(extents_));
  if (affords(shape)) keep(broadcast_to(*a, shape));
}

// Puts an axis of extent 1 in, takes one out, or merges two.
void Generator::add_reshape() {
  const auto a = pick([](const Value&) { return true; });
  if (!a || !affords(a->shape)) return;
  Shape shape = a->shape;
  const std::size_t at = choices_.below(shape.size() + 1);
  const std::uint32_t kind = choices_.below(3);
  if (kind == 0 && shape.size() < 5) {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), one());
  } else if (kind == 1 && at < shape.size() && shape[at].is_one) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (at + 1 < shape.size() && shape[at].most * shape[at + 1].most > 0) {  // 0 swallows the other factor
    const ir::Id merged = builder_->binary(Code::mul, shape[at].id, shape[at + 1].id);
    const bool is_one = shape[at].is_one && shape[at + 1].is_one;
    const std::int64_t product = shape[at].most * shape[at + 1].most;
    shape[at] = {is_one ? one_ : merged, product, is_one, product};
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  keep({builder_->reshape(a->id, ids(shape)), a->type, shape, a->known});
}

void Generator::add_transpose() {
  const auto a = pick([](const Value& value) { return value.rank() >= 2; });
  if (!a || !affords(a->shape)) return;
  std::vector<std::int64_t> axes(a->rank());
  std::iota(axes.begin(), axes.end(), 0);
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) std::swap(axes[i], axes[i + choices_.below(axes.size() - i)]);
  Shape shape;
  for (const std::int64_t axis : axes) shape.push_back(a->shape[static_cast<std::size_t>(axis)]);
  keep({builder_->transpose(a->id, axes), a->type, shape, a->known});
}

// From anywhere, of any extent: what is outside is zero.
void Generator::add_slice() {
  const auto a = pick([](const Value& value) { return value.rank() >= 1; });
  if (!a) return;
  std::vector<ir::Id> start;
  Shape shape = a->shape;
  for (Extent& extent : shape) {
    const auto at =
        choices_.one_in(4) ? pick([](const Value& v) { return v.type == Type::s64 && v.rank() == 0; }) : std::nullopt;
    start.push_back(at ? at->id : builder_->index(static_cast<std::int64_t>(choices_.below(6)) - 2));
    if (choices_.one_in(2)) extent = choices_.from(extents_);
  }
  if (!affords(shape)) return;
  Known known = a->known;
  known.is_product = false;
  keep({builder_->slice(a->id, start, ids(shape)), a->type, shape, known});
}

void Generator::add_reduction() {
  static const std::vector<Code> codes = {Code::reduce_sum, Code::reduce_max, Code::reduce_min, Code::reduce_product,
                                          Code::argmax};
  const auto a = pick([](const Value& value) { return value.rank() >= 1 && value.type != Type::boolean; });
  if (!a || !affords(a->shape)) return;
  if (const auto value = reduced(choices_.from(codes), *a, choices_.below(a->rank()))) keep(*value);
}

Value Generator::transposed(Value a) {
  std::vector<std::int64_t> axes(a.rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[a.rank() - 1], axes[a.rank() - 2]);
  std::swap(a.shape[a.rank() - 1], a.shape[a.rank() - 2]);
  a.id = builder_->transpose(a.id, axes);
  return a;
}

void Generator::add_mma() {
  const auto batch = [](const Value& value) { return Shape(value.shape.begin(), value.shape.end() - 2); };
  const auto left = pick([](const Value& value) { return value.rank() >= 2 && value.type != Type::boolean; });
  if (!left) return;
  const auto right = pick([&](const Value& value) {
    return value.type == left->type && value.rank() >= 2 &&
           is_same(value.shape[value.rank() - 2], left->shape.back()) && meet(batch(value), batch(*left)).has_value();
  });
  Value a = *left;
  Value b = right ? *right : transposed(a);  // which always fits
  Shape shape = *meet(batch(a), batch(b));
  shape.push_back(a.shape[a.rank() - 2]);
  shape.push_back(b.shape.back());
  const auto depth = static_cast<double>(a.shape.back().most);
  if (!affords(shape, depth + 1)) return;
  const auto fits = [&](const Value& value) { return value.type == a.type && broadcasts_to(value.shape, shape); };
  const auto start = choices_.one_in(2) ? pick(fits) : std::nullopt;
  Value c = start ? *start : constant(a.type, 0);
  if (ir::is_float(a.type) && dotted(a.type, a.known, b.known, c.known, depth).is_loose()) {
    a = tame(a);
    b = tame(b);
    c = tame(c);
  }
  const Known known =
      ir::is_float(a.type) ? dotted(a.type, a.known, b.known, c.known, depth) : known_integer(a.type, greatest(a.type));
  keep({builder_->mma(a.id, b.id, broadcast_to(c, shape).id), a.type, shape, known});
}

Value Generator::loop_count() {
  const Value few = constant(Type::s64, choices_.below(4));
  if (!choices_.one_in(3)) return few;
  const auto any = pick([](const Value& value) { return value.type == Type::s64 && value.rank() == 0; });
  Value count = any ? *any : few;
  if (choices_.one_in(2)) count.id = choices_.from(extents_).id;
  return binary(Code::min, count, constant(Type::s64, 3), known_integer(Type::s64, 3));
}

std::vector<Generator::Carried> Generator::pick_carried() {
  std::vector<Carried> carried;
  const std::uint32_t count = 1 + choices_.below(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_sum = choices_.one_in(2);
    const auto initial =
        pick([&](const Value& value) { return is_sum ? value.type != Type::boolean : !value.known.is_loose(); });
    if (initial) carried.push_back({*initial, is_sum});
  }
  return carried;
}

// What a carried value becomes that the whole body sees.
Value Generator::next_free(const Value& argument) {
  const auto next = pick([&](const Value& value) {
    return value.type == argument.type && !value.known.is_loose() && broadcasts_to(value.shape, argument.shape);
  });
  return next ? broadcast_to(*next, argument.shape) : argument;
}

// argument + something, of which `added` is known.
Value Generator::next_sum(const Value& argument, Known& added) {
  auto term = pick(
      [&](const Value& value) { return value.type == argument.type && broadcasts_to(value.shape, argument.shape); });
  if (!term) term = constant(argument.type, 1);
  if (ir::is_float(argument.type) && (term->known.kind != Known::Kind::exact)) term = tame(*term);
  added = term->known;
  return binary(Code::add, argument, *term, argument.known);
}

// Inside, carried values are seen as any number, or not at all if they are sums: then the error of the whole is known.
void Generator::add_loop() {
  if (depth_ == 2) return;
  const Value count = loop_count();
  std::vector<Carried> carried = pick_carried();
  if (carried.empty()) return;
  std::vector<ir::Id> initial;
  for (Carried& one_of : carried) {
    if (!affords(one_of.initial.shape, 4)) return;
    if (one_of.is_sum && ir::is_float(one_of.initial.type)) one_of.initial = tame(one_of.initial);
    initial.push_back(one_of.initial.id);
  }
  const double rounds = std::max(count.known.bound, 1.0);
  const std::vector<Value> outside = pool_;
  builder_->begin_loop(count.id, initial);
  times_ *= rounds;
  ++depth_;
  const std::vector<ir::Id> arguments = builder_->arguments();
  keep({arguments[0], Type::s64, {}, known_integer(Type::s64, rounds)});
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (carried[i].is_sum) continue;
    const Type type = carried[i].initial.type;
    Known known = known_of(type, Fill::special);
    known.is_product = ir::is_float(type);
    known.is_zero_sign_sure = false;
    keep({arguments[i + 1], type, carried[i].initial.shape, known});
  }
  for (std::uint32_t left = choices_.below(7); left > 0 && step(); --left) {
  }
  std::vector<ir::Id> next;
  std::vector<Value> results;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    Value result = carried[i].initial;
    result.id = arguments[i + 1];
    if (carried[i].is_sum) {
      Known added;
      next.push_back(next_sum(result, added).id);
      const Known all = summed(result.type, added, rounds);
      result.known = sum(result.type, all, carried[i].initial.known);
      const bool is_exact = result.known.kind == Known::Kind::exact;
      if (ir::is_float(result.type) && !is_exact) {
        result.known.kind = Known::Kind::loose;
        result.known.error += 2 * (rounds + 1) * epsilon(result.type) * result.known.bound;
      }
    } else {
      next.push_back(next_free(result).id);
      Known known = known_of(result.type, Fill::special);
      known.is_product = ir::is_float(result.type);
      known.is_zero_sign_sure = false;
      result.known = known;
    }
    results.push_back(result);
  }
  const std::vector<ir::Id> ended = builder_->end_loop(next);
  times_ /= rounds;
  --depth_;
  pool_ = outside;
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].id = ended[i];
    keep(results[i]);
  }
}

}  // namespace tessera::fuzz
