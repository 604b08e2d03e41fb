#include "fuzz/known.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::fuzz {

using ir::Type;
using Kind = Known::Kind;

namespace {

// Whether multiples of the grain up to the bound are all there is between two numbers.
bool fits(Type type, double bound, double grain) { return bound / grain <= (type == Type::f32 ? 0x1p24 : 0x1p53); }

Kind worse(const Known& a, const Known& b) { return std::max(a.kind, b.kind); }

void inherit(Known& result, const Known& a) {
  result.may_be_nan = result.may_be_nan || a.may_be_nan;
  result.may_be_infinite = result.may_be_infinite || a.may_be_infinite;
  result.is_zero_sign_sure = result.is_zero_sign_sure && a.is_zero_sign_sure;
}

// Exact where there are bits enough, else rounded; above all numbers there is infinity.
void settle(Type type, Known& result) {
  if (result.kind == Kind::exact && !fits(type, result.bound, result.grain)) result.kind = Kind::fixed;
  if (result.bound > greatest(type)) {
    result.bound = greatest(type);
    result.may_be_infinite = true;
  }
}

}  // namespace

double epsilon(Type type) {
  return type == Type::f32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}

double greatest(Type type) {
  switch (type) {
    case Type::f32:
      return std::numeric_limits<float>::max();
    case Type::f64:
      return std::numeric_limits<double>::max();
    case Type::s32:
      return 0x1p31;
    case Type::s64:
      return 0x1p63;
    case Type::u32:
      return 0x1p32;
    case Type::u8:
      return 255;
    case Type::boolean:
      return 1;
  }
  return 0;
}

Known known_integer(Type type, double bound) {
  Known result;
  result.bound = bound < greatest(type) ? bound : greatest(type);
  return result;
}

bool is_tame(const Known& a) { return !a.may_be_infinite && a.bound <= 1e6; }

bool is_loosened_by_sum(const Known& a, const Known& b) {
  return a.is_loose() || b.is_loose() || a.is_product || b.is_product;
}

Known sum(Type type, const Known& a, const Known& b) {
  if (!ir::is_float(type)) return known_integer(type, ir::is_signed(type) ? a.bound + b.bound : greatest(type));
  Known result{.kind = worse(a, b), .bound = a.bound + b.bound, .grain = std::min(a.grain, b.grain)};
  if (result.kind != Kind::exact && is_loosened_by_sum(a, b)) result.kind = Kind::loose;
  if (result.is_loose()) result.error = a.error + b.error + 2 * epsilon(type) * result.bound;
  inherit(result, a);
  inherit(result, b);
  result.may_be_nan = result.may_be_nan || (a.may_be_infinite && b.may_be_infinite);
  settle(type, result);
  return result;
}

Known product(Type type, const Known& a, const Known& b) {
  const double bound = a.bound * b.bound;
  if (!ir::is_float(type)) return known_integer(type, bound);
  Known result{.kind = worse(a, b), .bound = bound, .grain = a.grain * b.grain};
  if (result.is_loose()) {
    result.error = a.bound * b.error + b.bound * a.error + a.error * b.error + 2 * epsilon(type) * bound;
  }
  inherit(result, a);
  inherit(result, b);
  result.may_be_nan = result.may_be_nan || a.may_be_infinite || b.may_be_infinite;
  settle(type, result);
  result.is_product = result.kind != Kind::exact;
  return result;
}

Known quotient(Type type, const Known& a, const Known& b) {
  Known result{.kind = Kind::fixed, .bound = greatest(type), .may_be_nan = true, .may_be_infinite = true};
  inherit(result, a);
  inherit(result, b);
  return result;
}

Known either(const Known& a, const Known& b) {
  Known result = a;
  result.kind = worse(a, b);
  result.bound = std::max(a.bound, b.bound);
  result.grain = std::min(a.grain, b.grain);
  result.error = std::max(a.error, b.error);
  result.is_product = a.is_product || b.is_product;
  inherit(result, b);
  return result;
}

Known fused(Type type, const Known& a, const Known& b, const Known& c) {
  Known product_of = product(type, a, b);
  product_of.is_product = true;
  Known result = sum(type, product_of, c);
  // An exact product that is rounded with the sum is the same fused or not.
  if (product_of.kind == Kind::exact && c.kind == Kind::exact) return result;
  if (!result.is_loose() && ir::is_float(type)) {
    result.kind = Kind::loose;
    result.error = 2 * epsilon(type) * result.bound;
  }
  return result;
}

Known summed(Type type, const Known& a, double count) {
  const double bound = a.bound * count;
  if (!ir::is_float(type)) return known_integer(type, bound);
  Known result = a;
  result.bound = bound;
  result.is_zero_sign_sure = false;
  result.is_product = false;
  result.may_be_nan = a.may_be_nan || a.may_be_infinite;
  if (a.kind == Kind::exact && fits(type, bound, a.grain)) return result;
  result.kind = Kind::loose;
  result.error = count * a.error + (count + 1) * epsilon(type) * bound;
  return result;
}

Known dotted(Type type, const Known& a, const Known& b, const Known& c, double count) {
  const Known all = summed(type, product(type, a, b), count);
  Known result = sum(type, all, c);
  if (result.kind == Kind::fixed) {
    result.kind = Kind::loose;
    result.error = (count + 1) * epsilon(type) * result.bound;
  }
  return result;
}

Known function(Type type, const Known& a, double slope, double bound) {
  Known result{.kind = Kind::loose, .bound = bound};
  result.error = slope * a.error + 16 * epsilon(type) * bound;
  inherit(result, a);
  result.may_be_infinite = false;
  return result;
}

Known converted(Type from, Type to, const Known& a) {
  if (!ir::is_float(to)) {
    const bool is_any = a.may_be_infinite || to == Type::boolean;
    return known_integer(to, is_any ? greatest(to) : a.bound + 1);
  }
  if (!ir::is_float(from)) {
    Known result{.bound = a.bound, .grain = 1};
    settle(to, result);
    return result;
  }
  Known result = a;
  if (result.is_loose()) result.error += epsilon(to) * a.bound;
  result.is_product = a.is_product && a.kind != Kind::exact;
  settle(to, result);
  return result;
}

Known rounded(Type type, const Known& a) {
  Known result = a;
  result.bound += 1;
  result.grain = 1;
  result.is_product = false;
  result.kind = Kind::exact;
  settle(type, result);
  return result;
}

}  // namespace tessera::fuzz
