// Choosing values and extents, and what is stored in the end.
#include "fuzz/generator.hpp"

#include <algorithm>

namespace tessera::fuzz {

using ir::Code;
using ir::Type;

namespace {

constexpr double most_cost = 20'000;
constexpr double most_points = 4096;

}  // namespace

std::optional<Value> Generator::pick(const Test& test) {
  std::vector<const Value*> fitting;
  for (const Value& value : pool_) {
    if (test(value)) fitting.push_back(&value);
  }
  if (fitting.empty()) return std::nullopt;
  // Mostly one of the last few: then programs grow long and not wide.
  const std::size_t last = choices_.one_in(3) ? fitting.size() : std::min<std::size_t>(fitting.size(), 4);
  return *fitting[fitting.size() - 1 - choices_.below(last)];
}

std::optional<Value> Generator::pick_of_type(Type type, const Shape& meets, bool may_be_loose) {
  return pick([&](const Value& value) {
    return value.type == type && (may_be_loose || !value.known.is_loose()) && meet(value.shape, meets).has_value();
  });
}

// Another of its type that meets it; a constant if there is none.
Value Generator::operand_like(const Value& a, bool may_be_loose) {
  if (!choices_.one_in(4)) {
    if (const auto found = pick_of_type(a.type, a.shape, may_be_loose)) return *found;
  }
  const int number = static_cast<int>(choices_.below(9));
  if (a.type == Type::boolean) return constant(a.type, number % 2);
  const bool is_negative = ir::is_signed(a.type) && choices_.one_in(2);
  return constant(a.type, (is_negative ? -1.0 : 1.0) * (ir::is_float(a.type) ? number / 2.0 : number));
}

Value& Generator::keep(Value value) { return pool_.emplace_back(std::move(value)); }

std::optional<Shape> Generator::meet(const Shape& a, const Shape& b) const {
  if (a.size() < b.size()) return meet(b, a);
  Shape shape = a;
  for (std::size_t i = 0; i < b.size(); ++i) {
    Extent& extent = shape[a.size() - b.size() + i];
    if (is_same(extent, b[i]) || b[i].is_one) continue;
    if (!extent.is_one) return std::nullopt;
    extent = b[i];
  }
  return shape;
}

bool Generator::broadcasts_to(const Shape& from, const Shape& to) const {
  const auto both = meet(from, to);
  return both && both->size() == to.size() &&
         std::ranges::equal(*both, to, [&](const Extent& a, const Extent& b) { return is_same(a, b); });
}

ir::Extents Generator::ids(const Shape& shape) const {
  ir::Extents result;
  for (const Extent& extent : shape) result.push_back(extent.id);
  return result;
}

// Large values and long programs take long.
bool Generator::affords(const Shape& shape, double times) {
  double points = 1;
  for (const Extent& extent : shape) points *= static_cast<double>(std::max<std::int64_t>(extent.most, 1));
  const double cost = points * times * times_;
  if (points * times > most_points || cost_ + cost > most_cost) return false;
  cost_ += cost;
  return true;
}

// Made to fit the tile: what is too much of it is reduced or cut off.
std::optional<Value> Generator::fitted(Value a) {
  const Type type = buffers_[0].type;
  if (a.type == Type::boolean) a = *converted_to(a, type);
  if (a.known.is_loose() && !ir::is_float(type)) return std::nullopt;
  while (a.rank() > tile_.size()) {
    a = *reduced(Code::reduce_max, a, 0);
    a.shape.erase(a.shape.begin());
    a.id = builder_->reshape(a.id, ids(a.shape));
  }
  const std::size_t missing = tile_.size() - a.rank();
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    const Extent& wanted = tile_[missing + axis];
    if (a.shape[axis].is_one || is_same(a.shape[axis], wanted)) continue;
    if (choices_.one_in(2)) {
      a = *reduced(Code::reduce_max, a, axis);
      continue;
    }
    a.shape[axis] = wanted;
    a.id = builder_->slice(a.id, ir::Extents(a.rank(), builder_->index(0)), ids(a.shape));
  }
  return converted_to(a, type, choices_.one_in(2) ? Code::nearest : Code::convert);
}

// The last value, and sometimes others with it.
Value Generator::final_value() {
  std::optional<Value> result;
  const std::uint32_t count = 1 + choices_.below(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto chosen = pick([](const Value&) { return true; });
    const auto value = chosen ? fitted(*chosen) : std::nullopt;
    if (!value) continue;
    result = result ? sum_of(Code::add, *result, *value) : *value;
  }
  return result ? *result : constant(buffers_[0].type, 1);
}

}  // namespace tessera::fuzz
