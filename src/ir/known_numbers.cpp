#include "ir/known_numbers.hpp"

#include "ir/arithmetic.hpp"
#include "ir/rules.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>

namespace tessera::ir {

namespace {

template <class T>
T element(std::uint64_t bits) {
  if constexpr (Float<T>)
    return static_cast<T>(std::bit_cast<double>(bits));
  else
    return static_cast<T>(bits);
}

template <class T>
std::uint64_t bits_of_element(T element) {
  if constexpr (Float<T>)
    return std::bit_cast<std::uint64_t>(static_cast<double>(element));
  else
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(element));
}

// Whether a op b, both s64, does not fit.
bool overflows(Code code, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (code) {
    case Code::add:
      return __builtin_add_overflow(a, b, &result);
    case Code::sub:
      return __builtin_sub_overflow(a, b, &result);
    case Code::mul:
      return __builtin_mul_overflow(a, b, &result);
    default:
      return false;
  }
}

std::uint64_t converted(Code code, Type from, Type to, std::uint64_t bits) {
  return with_type(from, [&]<class From>(From) {
    return with_type(to, [&]<class To>(To) {
      auto x = element<From>(bits);
      if constexpr (Float<From>) {  // two conditions: clang instantiates the body of one that depends on both types
        if constexpr (!Float<To>) {
          if (code == Code::nearest) x = std::round(x);
        }
      }
      return bits_of_element(arithmetic::saturate<To>(x));
    });
  });
}

std::uint64_t unary(Code code, Type type, std::uint64_t a) {
  std::uint64_t result = 0;
  with_type(type,
            [&]<class T>(T) { with_unary<T>(code, [&](auto f) { result = bits_of_element(f(element<T>(a))); }); });
  return result;
}

std::uint64_t binary(Code code, Type type, std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  with_type(type, [&]<class T>(T) {
    with_binary<T>(code, [&](auto f) { result = bits_of_element(f(element<T>(a), element<T>(b))); });
  });
  return result;
}

bool is_known_leaf(Code code) {
  return code == Code::constant || code == Code::dim || code == Code::tile_dim || code == Code::scalar;
}

}  // namespace

std::vector<bool> known_at_launch(const Program& program) {
  std::vector<bool> is_known(program.ops.size());
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    const auto knows = [&](Id operand) { return is_known[static_cast<std::size_t>(operand)]; };
    is_known[id] = op.shape.empty() &&
                   (is_known_leaf(op.code) || (is_pointwise(op.code) && std::ranges::all_of(op.operands, knows)));
  }
  return is_known;
}

KnownNumbers::Step KnownNumbers::step_of(const Program& program, const Op& op) {
  Step step{.code = op.code, .type = op.type, .from = op.type, .index = op.index};
  if (!op.operands.empty()) step.from = program[op.operands.back()].type;
  if (op.code == Code::constant) {
    step.bits = is_float(op.type) ? std::bit_cast<std::uint64_t>(op.number) : static_cast<std::uint64_t>(op.integer);
  } else if (op.code == Code::tile_dim) {
    step.index = op.axis;
  } else if (op.code == Code::dim) {
    step.index = op.axis;
    for (int i = 0; i < op.index; ++i) step.index += program.buffers[static_cast<std::size_t>(i)].rank();
  }
  return step;
}

KnownNumbers::KnownNumbers(const Program& program, std::span<const Id> wanted) {
  std::vector<bool> is_needed(program.ops.size());
  for (const Id id : wanted) is_needed[static_cast<std::size_t>(id)] = true;
  for (std::size_t id = program.ops.size(); id-- > 0;) {
    if (!is_needed[id]) continue;
    for (const Id operand : program.ops[id].operands) is_needed[static_cast<std::size_t>(operand)] = true;
  }
  std::vector<int> step_by_id(program.ops.size());
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (!is_needed[id]) continue;
    const Op& op = program.ops[id];
    Step step = step_of(program, op);
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      step.operands[i] = step_by_id[static_cast<std::size_t>(op.operands[i])];
    }
    step_by_id[id] = static_cast<int>(steps_.size());
    steps_.push_back(step);
  }
  for (const Id id : wanted) wanted_.push_back(step_by_id[static_cast<std::size_t>(id)]);
}

std::uint64_t KnownNumbers::leaf(const Step& step, const Facts& facts) {
  const auto at = static_cast<std::size_t>(step.index);
  switch (step.code) {
    case Code::dim:
      return bits_of_element(facts.dims[at]);
    case Code::tile_dim:  // the output's extents come first
      return bits_of_element(facts.tile[at] == 0 ? facts.dims[at] : facts.tile[at]);
    case Code::scalar:
      return with_type(step.type, [&]<class T>(T) { return bits_of_element(element<T>(facts.scalars[at])); });
    default:
      return step.bits;
  }
}

KnownNumbers::Result KnownNumbers::computed(const Step& step, std::span<const Result> done) {
  const auto operand = [&](std::size_t i) { return done[static_cast<std::size_t>(step.operands[i])]; };
  const Result a = operand(0);
  switch (step.code) {
    case Code::convert:
    case Code::nearest:
      return {converted(step.code, step.from, step.type, a.bits), a.has_overflowed};
    case Code::select:
      return a.bits != 0 ? operand(1) : operand(2);
    case Code::fma: {
      const Result b = operand(1), c = operand(2);
      const std::uint64_t product = binary(Code::mul, step.type, a.bits, b.bits);
      const bool has_overflowed = step.type == Type::s64 &&
                                  (overflows(Code::mul, element<std::int64_t>(a.bits), element<std::int64_t>(b.bits)) ||
                                   overflows(Code::add, element<std::int64_t>(product), element<std::int64_t>(c.bits)));
      return {binary(Code::add, step.type, product, c.bits),
              has_overflowed || a.has_overflowed || b.has_overflowed || c.has_overflowed};
    }
    default:
      break;
  }
  if (is_unary(step.code)) return {unary(step.code, step.type, a.bits), a.has_overflowed};
  const Result b = operand(1);
  const bool has_overflowed =
      step.type == Type::s64 && overflows(step.code, element<std::int64_t>(a.bits), element<std::int64_t>(b.bits));
  return {binary(step.code, step.from, a.bits, b.bits), has_overflowed || a.has_overflowed || b.has_overflowed};
}

KnownNumbers::Numbers KnownNumbers::evaluate(const Facts& facts) const {
  core::InlineVector<Result, 32> done;
  for (const Step& step : steps_) {
    done.push_back(is_known_leaf(step.code) ? Result{leaf(step, facts), false}
                                            : computed(step, {done.data(), done.size()}));
  }
  Numbers numbers;
  for (const int step : wanted_) {
    const Result& result = done[static_cast<std::size_t>(step)];
    const bool is_integer = !is_float(steps_[static_cast<std::size_t>(step)].type);
    numbers.push_back({is_integer ? element<std::int64_t>(result.bits) : 0, result.has_overflowed});
  }
  return numbers;
}

}  // namespace tessera::ir
