#include <tessera/params.hpp>

#include "core/text.hpp"

#include <algorithm>

namespace tessera {

namespace {

template <class T>
const T& get_as(const auto& data, const Value& value, std::string_view wanted) {
  if (const T* held = std::get_if<T>(&data)) return *held;
  throw Error(Errc::invalid_parameter,
              core::text("expected ", wanted, ", got ", type_name(value), ", ", to_string(value)));
}

}  // namespace

bool Value::boolean() const { return get_as<bool>(data_, *this, "a bool"); }
std::int64_t Value::integer() const { return get_as<std::int64_t>(data_, *this, "an integer"); }
double Value::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*integer);
  return get_as<double>(data_, *this, "a number");
}
const std::string& Value::string() const { return get_as<std::string>(data_, *this, "a string"); }
const Value::List& Value::list() const { return get_as<List>(data_, *this, "a list"); }

void Value::throw_overflow() { throw Error(Errc::overflow, "an integer parameter does not fit 64 signed bits"); }

std::string to_string(const Value& value) {
  if (value.is_bool()) return value.boolean() ? "true" : "false";
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_number()) return core::text(value.number());
  if (value.is_string()) return core::text('"', value.string(), '"');
  std::string text = "[";
  for (const Value& item : value.list()) {
    if (text.size() > 1) text += ", ";
    text += to_string(item);
  }
  return text + ']';
}

std::string_view type_name(const Value& value) noexcept {
  if (value.is_bool()) return "a bool";
  if (value.is_integer()) return "an integer";
  if (value.is_number()) return "a number";
  return value.is_string() ? "a string" : "a list";
}

void Params::add(Param param) {
  if (find(param.name)) {
    throw Error(Errc::invalid_parameter, core::text("parameter '", param.name, "' is given twice"));
  }
  items_.push_back(std::move(param));
}

Params& Params::set(std::string_view name, Value value) {
  const auto found = std::ranges::find(items_, name, &Param::name);
  if (found != items_.end()) {
    found->value = std::move(value);
  } else {
    items_.emplace_back(name, std::move(value));
  }
  return *this;
}

const Value* Params::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(items_, name, &Param::name);
  return found == items_.end() ? nullptr : &found->value;
}

}  // namespace tessera
