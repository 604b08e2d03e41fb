#include "kernels/kernel.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <iterator>

namespace tessera::kernels {

using core::text;

namespace {

using Kind = ParamSpec::Kind;

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::number:
      return "number";
    case Kind::integer:
      return "integer";
    case Kind::boolean:
      return "boolean";
    case Kind::string:
      return "string";
    case Kind::numbers:
      return "list of numbers";
    case Kind::integers:
      return "list of integers";
  }
  return "unknown";
}

// "a number", "an integer": worded like type_name() of values.
std::string_view described(Kind kind) {
  switch (kind) {
    case Kind::number:
      return "a number";
    case Kind::integer:
      return "an integer";
    case Kind::boolean:
      return "a bool";
    case Kind::string:
      return "a string";
    case Kind::numbers:
      return "a list of numbers";
    case Kind::integers:
      return "a list of integers";
  }
  return "unknown";
}

template <class Items>
std::string joined(const Items& items) {
  std::string all;
  for (const auto& item : items) all += text(all.empty() ? "" : ", ", item);
  return all;
}

// A number as the user writes it: 64, not 64.000000.
std::string written(double number) {
  return number == std::trunc(number) && std::abs(number) < 0x1p53 ? std::to_string(static_cast<std::int64_t>(number))
                                                                   : to_string(Value(number));
}

std::string range_of(const ParamSpec& spec) {
  if (spec.is_positive()) return "greater than 0";
  if (!spec.choices.empty()) return text("one of ", joined(spec.choices));
  if (std::isinf(spec.min) && std::isinf(spec.max)) return {};
  if (std::isinf(spec.max)) return text("at least ", written(spec.min));
  if (std::isinf(spec.min)) return text("at most ", written(spec.max));
  return written(spec.min) + ".." + written(spec.max);
}

bool is_whole(const Value& value) {
  if (value.is_integer()) return true;
  if (!value.is_number()) return false;
  const double number = value.number();
  // Not std::trunc, which without SSE4.1 is a library call.
  return number >= -0x1p63 && number < 0x1p63 && static_cast<double>(static_cast<std::int64_t>(number)) == number;
}

// Converts a value whatever its parameter's kind.
Argument to_argument(const Value& value) {
  Argument argument;
  argument.value = &value;
  if (value.is_integer()) {
    argument.integer = value.integer();
    argument.number = static_cast<double>(argument.integer);
    argument.is_integer = true;
  } else if (value.is_number()) {
    argument.number = value.number();
    argument.is_integer = is_whole(value);
    if (argument.is_integer) argument.integer = static_cast<std::int64_t>(argument.number);
  } else if (value.is_bool()) {
    argument.integer = value.boolean() ? 1 : 0;
    argument.number = static_cast<double>(argument.integer);
    argument.is_integer = true;
  }
  return argument;
}

bool is_of_kind(const Value& value, Kind kind) {
  const auto all = [&](auto&& is_right) {
    return value.is_list() ? std::ranges::all_of(value.items(), is_right) : is_right(value);
  };
  switch (kind) {
    case Kind::number:
      return value.is_number();
    case Kind::integer:
      return is_whole(value);
    case Kind::boolean:
      return value.is_bool();
    case Kind::string:
      return value.is_string();
    case Kind::numbers:
      return all([](const Value& item) { return item.is_number(); });
    case Kind::integers:
      return all(is_whole);
  }
  return false;
}

// The slow path of bind(), which handles plain numbers within their range itself.
void check_value(const Kernel& kernel, const ParamSpec& spec, const Value& value) {
  const auto wrong = [&](std::string_view wanted, std::string_view hint = {}) {
    throw Error(Errc::invalid_parameter,
                text("[", kernel.name, "] parameter '", spec.name, "' must be ", wanted, ", got ",
                     is_of_kind(value, spec.kind) ? "" : type_name(value), is_of_kind(value, spec.kind) ? "" : ", ",
                     core::shortened(to_string(value)), hint));
  };
  if (!is_of_kind(value, spec.kind)) wrong(described(spec.kind));
  if (value.is_string()) {
    if (spec.choices.empty() || std::ranges::count(spec.choices, value.string()) != 0) return;
    const std::vector<std::string_view> choices(spec.choices.begin(), spec.choices.end());
    wrong(range_of(spec), core::suggestion(value.string(), choices));
  }
  const auto is_allowed = [&](const Value& item) { return !item.is_number() || spec.allows(item.number()); };
  if (value.is_list() ? std::ranges::all_of(value.items(), is_allowed) : is_allowed(value)) return;
  if (spec.is_positive() && value.is_number() && value.number() > 0) wrong("finite");
  const bool has_both = !std::isinf(spec.min) && !std::isinf(spec.max) && !spec.is_positive();
  wrong(has_both ? text("between ", written(spec.min), " and ", written(spec.max)) : range_of(spec));
}

[[noreturn]] void throw_unknown(const Kernel& kernel, const Param& param) {
  std::vector<std::string_view> names;
  names.reserve(kernel.params.size());
  for (const ParamSpec& spec : kernel.params) names.push_back(spec.name);
  std::string hint = core::suggestion(param.name, names);
  if (hint.empty()) hint = names.empty() ? "; it takes none" : text("; it has ", core::shortened(joined(names)));
  throw Error(Errc::unknown_parameter,
              text("[", kernel.name, "] has no parameter ", core::in_quotes(param.name), hint));
}

}  // namespace

std::vector<double> Argument::numbers() const {
  if (!value->is_list()) return {value->number()};
  std::vector<double> all;
  for (const Value& item : value->items()) all.push_back(item.number());
  return all;
}

std::vector<std::int64_t> Argument::integers() const {
  if (!value->is_list()) return {to_argument(*value).integer};
  std::vector<std::int64_t> all;
  for (const Value& item : value->items()) all.push_back(to_argument(item).integer);
  return all;
}

const Argument& Call::operator[](std::string_view param) const {
  const auto found = std::ranges::find(kernel.params, param, &ParamSpec::name);
  if (found == kernel.params.end()) {
    throw Error(Errc::internal, text("[", kernel.name, "] has no parameter '", param, "', which its lowering uses"));
  }
  return arguments[static_cast<std::size_t>(found - kernel.params.begin())];
}

void Kernel::throw_count(std::size_t given) const {
  const std::size_t least = inputs.size() - optional_inputs;
  const std::string count = optional_inputs == 0 ? std::to_string(least) : text(least, " to ", inputs.size());
  throw Error(Errc::count_mismatch,
              text("[", name, "] takes ", count, count == "1" ? " input" : " inputs", ", got ", given));
}

void Kernel::set_defaults() {
  defaults.clear();
  for (const ParamSpec& spec : params) defaults.push_back(to_argument(spec.default_value));
}

Params ParamsView::named(const Kernel& kernel) const {
  if (params_) return *params_;
  Params made;
  for (std::size_t i = 0; i < values_.size(); ++i) made.set(kernel.params[i].name, values_[i]);
  return made;
}

void Kernel::bind(const ParamsView& given, Arguments& arguments) const {
  const auto checked = [this](const ParamSpec& spec, const Value& value) {
    Argument argument = to_argument(value);
    if (spec.kind != Kind::number || !value.is_number() || !spec.allows(argument.number)) [[unlikely]]
      check_value(*this, spec, value);
    argument.is_given = true;
    return argument;
  };
  if (!given.params()) {
    const std::span<const Value> values = given.values();
    for (std::size_t i = 0; i < values.size(); ++i) arguments.push_back(checked(params[i], values[i]));
    return;
  }
  arguments.assign(defaults.data(), defaults.size());
  for (const Param& param : *given.params()) {
    const auto spec = std::ranges::find(params, param.name, &ParamSpec::name);
    if (spec == params.end()) [[unlikely]]
      throw_unknown(*this, param);
    arguments[static_cast<std::size_t>(spec - params.begin())] = checked(*spec, param.value);
  }
  if (given.params()->size() == params.size()) return;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].is_required && !arguments[i].is_given) {
      throw Error(Errc::invalid_parameter,
                  text("[", name, "] needs the parameter '", params[i].name, "', ", described(params[i].kind)));
    }
  }
}

KernelInfo Kernel::info() const {
  KernelInfo info{name, inputs, optional_inputs, {}, dtypes, documentation, aliases};
  std::ranges::copy_if(nicknames, std::back_inserter(info.aliases),
                       [&](const std::string& nickname) { return &find(nickname) == this; });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) info.inputs[i] = text("input ", i);
  }
  for (const ParamSpec& spec : params) {
    info.params.push_back({spec.name, std::string(name_of(spec.kind)), range_of(spec), spec.is_required,
                           spec.default_value, spec.documentation});
  }
  return info;
}

}  // namespace tessera::kernels

namespace tessera {

std::string to_string(const KernelInfo& kernel) {
  std::string line = kernel.name + "(";
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const bool is_optional = i + kernel.optional_inputs >= kernel.inputs.size();
    line += core::text(i == 0 ? "" : ", ", is_optional ? "[" : "", kernel.inputs[i], is_optional ? "]" : "");
  }
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const ParamInfo& param = kernel.params[i];
    line += core::text(i != 0 ? ", " : kernel.inputs.empty() ? "" : "; ", param.name, ": ", param.type);
    if (!param.range.empty()) line += core::text(" ", param.range);
    if (!param.is_required) line += core::text(" = ", to_string(param.default_value));
  }
  line += ")";
  if (kernel.dtypes.size() < std::size(all_dtypes)) {
    for (const DType& dtype : kernel.dtypes) {
      line += core::text(&dtype == kernel.dtypes.data() ? " for " : ", ", to_string(dtype));
    }
  }
  line += "  " + kernel.documentation;
  for (const std::string& alias : kernel.aliases) line += (&alias == kernel.aliases.data() ? "; also " : ", ") + alias;
  return line;
}

}  // namespace tessera
