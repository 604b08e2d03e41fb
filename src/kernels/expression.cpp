#include "kernels/expression.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <numbers>

namespace tessera::kernels {

using core::text;

namespace {

struct Function {
  std::string_view name;
  int arguments;
  Operation operation;
};
constexpr Function functions[] = {
    {"exp", 1, Operation::exp},      {"log", 1, Operation::log},         {"log10", 1, Operation::log10},
    {"sqrt", 1, Operation::sqrt},    {"rsqrt", 1, Operation::rsqrt},     {"sin", 1, Operation::sin},
    {"cos", 1, Operation::cos},      {"tanh", 1, Operation::tanh},       {"erf", 1, Operation::erf},
    {"abs", 1, Operation::abs},      {"floor", 1, Operation::floor},     {"ceil", 1, Operation::ceil},
    {"round", 1, Operation::round},  {"sigmoid", 1, Operation::sigmoid}, {"relu", 1, Operation::relu},
    {"min", 2, Operation::min},      {"max", 2, Operation::max},         {"pow", 2, Operation::pow},
    {"power", 2, Operation::pow},    {"fma", 3, Operation::fma},         {"select", 3, Operation::select},
    {"where", 3, Operation::select}, {"clamp", 3, Operation::clamp},     {"clip", 3, Operation::clamp},
};

struct Constant {
  std::string_view name;
  double value;
};
constexpr Constant constants[] = {{"pi", std::numbers::pi}, {"e", std::numbers::e}};

struct Symbol {
  std::string_view text;
  Operation operation;
};
constexpr Symbol disjunctions[] = {{"||", Operation::logical_or}};
constexpr Symbol conjunctions[] = {{"&&", Operation::logical_and}};
constexpr Symbol comparisons[] = {{"<=", Operation::le}, {">=", Operation::ge}, {"==", Operation::eq},
                                  {"!=", Operation::ne}, {"<", Operation::lt},  {">", Operation::gt}};
constexpr Symbol sums[] = {{"+", Operation::add}, {"-", Operation::sub}};
constexpr Symbol products[] = {{"*", Operation::mul}, {"/", Operation::div}, {"%", Operation::rem}};
// Longest first.
constexpr std::string_view symbols[] = {"**", "<=", ">=", "==", "!=", "&&", "||", "<", ">", "!",
                                        "+",  "-",  "*",  "/",  "%",  "(",  ")",  ",", "?", ":"};

constexpr int max_depth = 200;  // the parser is recursive

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// In UTF-8 all bytes of a character but its first start with the bits 10, and there are at most three of them.
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
std::string_view first_character(std::string_view text) {
  constexpr std::size_t longest = 4;
  std::size_t size = 1;
  while (size < std::min(text.size(), longest) && continues_character(text[size])) ++size;
  return text.substr(0, size);
}

// What to write instead of an operator that this language does not have.
std::string_view instead_of(char c) {
  switch (c) {
    case '^':
      return "; for a power write x ** y";
    case '&':
      return "; for \"and\" write x && y";
    case '|':
      return "; for \"or\" write x || y";
    case '=':
      return "; to compare write x == y";
    default:
      return "";
  }
}

class Parser {
 public:
  Parser(std::string_view kernel, std::string_view source, std::span<const std::string> inputs,
         std::span<const std::string> params)
      : kernel_(kernel), source_(source), inputs_(inputs), params_(params) {
    advance();
  }

  Expression run() {
    expression();
    if (!token_.empty()) fail_expected("an operator");
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view what) const;
  [[noreturn]] void fail_expected(std::string_view what) const {
    fail(at_, text("expected ", what, ", got ", token_.empty() ? "the end" : core::in_quotes(token_)));
  }

  void advance();
  bool accept(std::string_view symbol) {
    if (token_ != symbol) return false;
    advance();
    return true;
  }
  void expect(std::string_view symbol) {
    if (!accept(symbol)) fail_expected(text("'", symbol, "'"));
  }

  void expression();
  void disjunction() { chain(disjunctions, &Parser::conjunction); }
  void conjunction() { chain(conjunctions, &Parser::comparison); }
  void comparison();
  void sum() { chain(sums, &Parser::product); }
  void product() { chain(products, &Parser::unary); }
  void unary();
  void negation();
  bool accept_min_s64();
  void power();
  void primary();
  void number();
  void name();
  void call(const Function& function);

  void chain(std::span<const Symbol> operators, void (Parser::*part)());
  void operation(Operation operation);
  [[noreturn]] void fail_unknown(std::string_view name, std::size_t at, bool is_called) const;

  std::string_view kernel_;
  std::string_view source_;
  std::span<const std::string> inputs_;
  std::span<const std::string> params_;
  std::string_view token_;  // empty: the end
  std::size_t at_ = 0;      // its position
  int depth_ = 0;
  Expression result_;
};

// Shows the offending line with a mark below the position; of a long line, what is around the position.
void Parser::fail(std::size_t at, std::string_view what) const {
  constexpr std::size_t most_beside = 40;
  const std::size_t before = source_.substr(0, at).rfind('\n');
  const std::size_t line = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t line_end = std::min(source_.find('\n', line), source_.size());
  std::size_t begin = std::max(line, at - std::min(at, most_beside));
  std::size_t end = std::min(line_end, at + most_beside);
  while (begin < at && continues_character(source_[begin])) ++begin;
  while (end > at && end < line_end && continues_character(source_[end])) --end;
  std::string shown(source_.substr(begin, end - begin));
  const auto column = std::ranges::count_if(source_.substr(begin, at - begin), std::not_fn(continues_character));
  const std::size_t indent = static_cast<std::size_t>(column) + (begin > line ? 1 : 0);
  std::ranges::replace(shown, '\t', ' ');
  throw Error(Errc::invalid_kernel,
              text("[", kernel_, "] at character ", at, ": ", what, "\n  ", begin > line ? "…" : "", shown,
                   end < line_end ? "…" : "", "\n  ", std::string(indent, ' '), "^"));
}

void Parser::advance() {
  at_ += token_.size();
  while (at_ < source_.size() && is_space(source_[at_])) ++at_;
  const std::string_view rest = source_.substr(at_);
  token_ = {};
  if (rest.empty()) return;
  if (is_digit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && is_digit(rest[1]))) {
    double ignored = 0;
    const char* end = std::from_chars(rest.data(), rest.data() + rest.size(), ignored).ptr;
    token_ = rest.substr(0, static_cast<std::size_t>(end - rest.data()));
  } else if (is_letter(rest[0])) {
    const auto end = std::ranges::find_if_not(rest, [](char c) { return is_letter(c) || is_digit(c); });
    token_ = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  } else {
    const auto symbol = std::ranges::find_if(symbols, [&](std::string_view s) { return rest.starts_with(s); });
    if (symbol == std::end(symbols))
      fail(at_, text("unexpected character '", first_character(rest), "'", instead_of(rest[0])));
    token_ = rest.substr(0, symbol->size());
  }
}

void Parser::operation(Operation operation) {
  result_.items.push_back({.kind = Expression::Item::Kind::operation, .operation = operation});
  if (operation >= Operation::exp) result_.is_for_integers = false;
}

void Parser::expression() {
  if (++depth_ > max_depth) fail(at_, "nested too deeply");
  disjunction();
  if (accept("?")) {
    expression();
    expect(":");
    expression();
    operation(Operation::select);
  }
  --depth_;
}

void Parser::comparison() {
  const auto find = [&] { return std::ranges::find(comparisons, token_, &Symbol::text); };
  sum();
  const auto symbol = find();
  if (symbol == std::end(comparisons)) return;
  advance();
  sum();
  operation(symbol->operation);
  if (find() != std::end(comparisons)) fail(at_, "comparisons do not chain; use parentheses");
}

void Parser::chain(std::span<const Symbol> operators, void (Parser::*part)()) {
  (this->*part)();
  for (;;) {
    const auto symbol = std::ranges::find(operators, token_, &Symbol::text);
    if (symbol == operators.end()) return;
    advance();
    (this->*part)();
    operation(symbol->operation);
  }
}

void Parser::unary() {
  if (token_ != "-" && token_ != "!") return power();
  if (++depth_ > max_depth) fail(at_, "nested too deeply");
  if (accept("-")) {
    negation();
  } else {
    expect("!");
    unary();
    operation(Operation::logical_not);
  }
  --depth_;
}

void Parser::negation() {
  if (accept_min_s64()) return;
  const std::size_t begin = result_.items.size();
  unary();
  // -1 becomes one number, so that it is seen not to fit unsigned types.
  Expression::Item& first = result_.items[begin];
  const bool is_number = begin + 1 == result_.items.size() && first.kind == Expression::Item::Kind::number;
  if (!is_number || first.integer == std::numeric_limits<std::int64_t>::min()) return operation(Operation::neg);
  first.number = -first.number;
  first.integer = -first.integer;
}

// -2^63, which fits s64 only with its sign. A power binds tighter than the sign.
bool Parser::accept_min_s64() {
  constexpr std::string_view digits = "9223372036854775808";
  if (token_ != digits) return false;
  const std::size_t next = source_.find_first_not_of(" \t\n\r", at_ + digits.size());
  if (next != std::string_view::npos && source_.substr(next).starts_with("**")) return false;
  result_.items.push_back({.kind = Expression::Item::Kind::number,
                           .number = -0x1p63,
                           .integer = std::numeric_limits<std::int64_t>::min(),
                           .is_integer = true});
  advance();
  return true;
}

void Parser::power() {
  primary();
  if (!accept("**")) return;
  if (++depth_ > max_depth) fail(at_, "nested too deeply");
  unary();
  --depth_;
  operation(Operation::pow);
}

void Parser::primary() {
  if (accept("(")) {
    expression();
    expect(")");
  } else if (!token_.empty() && is_letter(token_[0])) {
    name();
  } else if (!token_.empty() && (is_digit(token_[0]) || token_[0] == '.')) {
    number();
  } else {
    fail_expected("a value");
  }
}

void Parser::number() {
  double value = 0;
  if (std::from_chars(token_.data(), token_.data() + token_.size(), value).ec != std::errc())
    fail(at_, text("the number ", core::shortened(token_), " is too large or too small"));
  // 2.0 does not count as an integer: x / 2.0 means half of x.
  std::int64_t integer = 0;
  const auto [end, error] = std::from_chars(token_.data(), token_.data() + token_.size(), integer);
  const bool is_integer = end == token_.data() + token_.size() && error == std::errc();
  result_.is_for_integers = result_.is_for_integers && is_integer;
  result_.items.push_back(
      {.kind = Expression::Item::Kind::number, .number = value, .integer = integer, .is_integer = is_integer});
  advance();
}

void Parser::name() {
  const std::string_view name = token_;
  const std::size_t at = at_;
  advance();
  const auto function = std::ranges::find(functions, name, &Function::name);
  if (token_ == "(") {
    if (function == std::end(functions)) fail_unknown(name, at, true);
    return call(*function);
  }
  const auto index_in = [&](std::span<const std::string> names) {
    return static_cast<int>(std::ranges::find(names, name) - names.begin());
  };
  using Kind = Expression::Item::Kind;
  if (const int input = index_in(inputs_); input < static_cast<int>(inputs_.size())) {
    result_.items.push_back({.kind = Kind::input, .index = input});
  } else if (const int param = index_in(params_); param < static_cast<int>(params_.size())) {
    result_.items.push_back({.kind = Kind::param, .index = param});
  } else if (const auto* constant = std::ranges::find(constants, name, &Constant::name);
             constant != std::end(constants)) {
    result_.items.push_back({.kind = Kind::number, .number = constant->value});
    result_.is_for_integers = false;
  } else if (function != std::end(functions)) {
    fail_expected(text("'(' after the function ", name));
  } else {
    fail_unknown(name, at, false);
  }
}

void Parser::fail_unknown(std::string_view name, std::size_t at, bool is_called) const {
  std::vector<std::string_view> names;
  for (const Function& function : functions) names.push_back(function.name);
  if (!is_called) {
    names.insert(names.end(), inputs_.begin(), inputs_.end());
    names.insert(names.end(), params_.begin(), params_.end());
    for (const Constant& constant : constants) names.push_back(constant.name);
  }
  const bool is_value =
      std::ranges::find(inputs_, name) != inputs_.end() || std::ranges::find(params_, name) != params_.end();
  if (is_called && is_value) fail(at, text(core::in_quotes(name), " is not a function; to multiply, write *"));
  std::string hint = core::suggestion(name, names);
  if (hint.empty() && is_called) {
    hint = "; the functions are ";
    for (const Function& function : functions) hint += text(&function == functions ? "" : ", ", function.name);
  }
  fail(at, text("unknown name ", core::in_quotes(name), hint));
}

void Parser::call(const Function& function) {
  const std::size_t at = at_;
  expect("(");
  int given = 0;
  if (token_ != ")") {
    do {
      expression();
      ++given;
    } while (accept(","));
  }
  if (token_ != ")") fail_expected("')' or ','");
  if (given != function.arguments)
    fail(at, text(function.name, " takes ", function.arguments, function.arguments == 1 ? " argument" : " arguments",
                  ", got ", given));
  advance();
  operation(function.operation);
}

}  // namespace

bool is_identifier(std::string_view name) noexcept {
  return !name.empty() && is_letter(name[0]) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c); });
}

Expression parse(std::string_view kernel, std::string_view source, std::span<const std::string> inputs,
                 std::span<const std::string> params) {
  return Parser(kernel, source, inputs, params).run();
}

}  // namespace tessera::kernels
