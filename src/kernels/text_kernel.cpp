// Kernels written as text: an element-wise expression of the inputs.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/expression.hpp"
#include "kernels/kernel.hpp"
#include "tile/trace.hpp"

#include <algorithm>
#include <memory>
#include <numbers>
#include <set>
#include <utility>

namespace tessera::kernels {

using core::text;
using tile::Tile;

namespace {

struct TextKernel {
  Expression expression;
  std::vector<std::string> params;
  bool has_integer_defaults = true;  // of all parameters
};

// Evaluates an expression in a given type, with a stack of values.
class Evaluator {
 public:
  explicit Evaluator(DType type) : type_(type) {}

  Tile run(const Expression& expression) {
    for (const Expression::Item& item : expression.items) push(value_of(item));
    return pop_number();
  }

 private:
  struct Entry {
    Tile tile;
    bool is_boolean;
  };

  Entry value_of(const Expression::Item& item);
  Entry comparison(Operation operation);
  Entry logical(Operation operation);
  Tile arithmetic(Operation operation);
  Tile function(Operation operation);

  void push(Entry entry) { stack_.push_back(entry); }
  Entry pop() {
    const Entry top = stack_.back();
    stack_.pop_back();
    return top;
  }
  // A boolean used as a number is 0 or 1; a number used as a condition is true unless it is 0.
  Tile pop_number() {
    const Entry top = pop();
    return top.is_boolean ? cast(top.tile, type_) : top.tile;
  }
  Tile pop_condition() {
    const Entry top = pop();
    return top.is_boolean ? top.tile : top.tile != 0;
  }

  DType type_;
  std::vector<Entry> stack_;
};

Evaluator::Entry Evaluator::value_of(const Expression::Item& item) {
  using Kind = Expression::Item::Kind;
  switch (item.kind) {
    case Kind::number:
      return {item.is_integer ? tile::constant(type_, item.integer) : tile::constant(type_, item.number), false};
    case Kind::input:
      return {cast(tile::load_like(tile::Input(item.index), tile::Output()), type_), false};
    case Kind::param:
      return {tile::detail::scalar(item.index), false};
    default:
      break;
  }
  if (item.operation >= Operation::lt && item.operation <= Operation::ne) return comparison(item.operation);
  if (item.operation >= Operation::logical_and && item.operation <= Operation::logical_not)
    return logical(item.operation);
  return {item.operation >= Operation::select ? function(item.operation) : arithmetic(item.operation), false};
}

Evaluator::Entry Evaluator::comparison(Operation operation) {
  const Tile b = pop_number();
  const Tile a = pop_number();
  switch (operation) {
    case Operation::lt:
      return {a < b, true};
    case Operation::le:
      return {a <= b, true};
    case Operation::gt:
      return {a > b, true};
    case Operation::ge:
      return {a >= b, true};
    case Operation::eq:
      return {a == b, true};
    default:
      return {a != b, true};
  }
}

Evaluator::Entry Evaluator::logical(Operation operation) {
  const Tile b = pop_condition();
  if (operation == Operation::logical_not) return {!b, true};
  const Tile a = pop_condition();
  return {operation == Operation::logical_and ? a & b : a | b, true};
}

Tile Evaluator::arithmetic(Operation operation) {
  const Tile b = pop_number();
  if (operation == Operation::neg) return -b;
  const Tile a = pop_number();
  switch (operation) {
    case Operation::add:
      return a + b;
    case Operation::sub:
      return a - b;
    case Operation::mul:
      return a * b;
    case Operation::div:
      return a / b;
    case Operation::rem:
      return a % b;
    default:
      return pow(a, b);
  }
}

Tile unary_function(Operation operation, const Tile& x) {
  switch (operation) {
    case Operation::abs:
      return abs(x);
    case Operation::relu:
      return max(x, 0);
    case Operation::exp:
      return exp(x);
    case Operation::log:
      return log(x);
    case Operation::log10:
      return log(x) * std::numbers::log10e;
    case Operation::sqrt:
      return sqrt(x);
    case Operation::rsqrt:
      return rsqrt(x);
    case Operation::sin:
      return sin(x);
    case Operation::cos:
      return cos(x);
    case Operation::tanh:
      return tanh(x);
    case Operation::erf:
      return erf(x);
    case Operation::floor:
      return floor(x);
    case Operation::ceil:
      return ceil(x);
    case Operation::round:
      return round(x);
    default:
      return 1 / (1 + exp(-x));
  }
}

Tile Evaluator::function(Operation operation) {
  const Tile last = pop_number();
  if (operation == Operation::min) return min(pop_number(), last);
  if (operation == Operation::max) return max(pop_number(), last);
  if (operation != Operation::select && operation != Operation::fma && operation != Operation::clamp)
    return unary_function(operation, last);
  const Tile middle = pop_number();
  if (operation == Operation::select) return tile::select(pop_condition(), middle, last);
  const Tile first = pop_number();
  return operation == Operation::fma ? fma(first, middle, last) : min(max(first, middle), last);
}

bool holds(DType dtype, std::int64_t number) {
  switch (dtype) {
    case DType::s32:
      return std::in_range<std::int32_t>(number);
    case DType::u32:
      return std::in_range<std::uint32_t>(number);
    case DType::u8:
      return std::in_range<std::uint8_t>(number);
    default:
      return true;
  }
}

// On integer buffers: the integer type if the expression and all of its numbers allow it, else f64. A parameter with a
// default such as 2.0 is always real: the result must not jump when its value happens to be an integer.
DType evaluation_type(const TextKernel& kernel, const Call& call) {
  const Expression& expression = kernel.expression;
  const DType dtype = call.output.dtype;
  if (is_float(dtype)) return dtype;
  const bool allows = expression.is_for_integers && kernel.has_integer_defaults &&
                      std::ranges::all_of(expression.items, [&](const auto& item) {
                        return item.kind != Expression::Item::Kind::number || holds(dtype, item.integer);
                      });
  const bool fits = std::ranges::all_of(
      call.arguments, [&](const Argument& argument) { return argument.is_integer && holds(dtype, argument.integer); });
  return allows && fits ? dtype : DType::f64;
}

Lowering lower_text_kernel(const std::shared_ptr<const TextKernel>& kernel, const Call& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) check_dtype(call, i, call.output.dtype);
  const DType type = evaluation_type(*kernel, call);
  Lowering lowering = pointwise_lowering(call, [kernel, type] {
    const tile::Output z;
    z.store(tile::round_cast(Evaluator(type).run(kernel->expression), z.dtype()));
  });
  lowering.variant = to_string(type);
  lowering.only_scalars_vary = is_float(call.output.dtype);
  for (std::size_t i = 0; i < kernel->params.size(); ++i)
    lowering.scalars.push_back({kernel->params[i], type, call.arguments[i]});
  return lowering;
}

void check_names(std::string_view kernel, std::span<const std::string> inputs, std::span<const std::string> params) {
  std::set<std::string_view> known;
  const auto check = [&](const std::string& name) {
    if (!is_identifier(name))
      throw Error(Errc::invalid_kernel, text("[", kernel, "] ", core::in_quotes(name),
                                             " is not a valid name: a letter, then letters and digits"));
    if (name.size() > tile::longest_name)
      throw Error(Errc::invalid_kernel, text("[", kernel, "] the name ", core::in_quotes(name),
                                             " is too long: at most ", tile::longest_name, " letters"));
    if (!known.insert(name).second)
      throw Error(Errc::invalid_kernel, text("[", kernel, "] the name '", name, "' is used twice"));
  };
  std::ranges::for_each(inputs, check);
  std::ranges::for_each(params, check);
}

}  // namespace

Kernel from_text(std::string_view name, std::vector<std::string> inputs, std::string_view expression,
                 const Params& params) {
  auto kernel = std::make_shared<TextKernel>();
  Kernel made;
  for (const Param& param : params) {
    if (!param.value.is_number())
      throw Error(Errc::invalid_kernel,
                  text("[", core::shortened(name), "] the default of ", core::in_quotes(param.name),
                       " must be a number, got ", core::shortened(to_string(param.value))));
    kernel->params.push_back(param.name);
    kernel->has_integer_defaults = kernel->has_integer_defaults && param.value.is_integer();
    ParamSpec spec;
    spec.name = param.name;
    spec.default_value = param.value;
    made.params.push_back(std::move(spec));
  }
  tile::check_kernel_name(name);
  check_names(name, inputs, kernel->params);
  kernel->expression = parse(name, expression, inputs, kernel->params);
  made.name = name;
  made.inputs = std::move(inputs);
  made.dtypes.assign(std::begin(all_dtypes), std::end(all_dtypes));
  made.documentation = expression;
  made.lower = [kernel = std::shared_ptr<const TextKernel>(std::move(kernel))](const Call& call) {
    return lower_text_kernel(kernel, call);
  };
  return made;
}

}  // namespace tessera::kernels
