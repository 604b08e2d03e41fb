#include <tessera/params.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <utility>

namespace tessera {

Value::Value(const char* text) {
  if (!text) throw Error(Errc::invalid_argument, "a string parameter is a null pointer");
  data_ = std::string(text);
}

void Value::throw_type(const char* wanted) const {
  throw Error(Errc::invalid_parameter,
              core::text("expected ", wanted, ", got ", type_name(*this), ", ", core::shortened(to_string(*this))));
}

void Value::throw_overflow() { throw Error(Errc::overflow, "an integer parameter does not fit 64 signed bits"); }

std::string to_string(const Value& value) {
  if (value.is_bool()) return value.boolean() ? "true" : "false";
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_number()) {
    char digits[32];  // the shortest text that reads back as the same number
    return {digits, std::to_chars(std::begin(digits), std::end(digits), value.number()).ptr};
  }
  if (value.is_string()) return core::text('"', value.string(), '"');
  if (value.is_parameter()) return core::text("'", value.parameter_name(), "'");
  std::string text = "[";
  for (const Value& item : value.items()) {
    if (text.size() > 1) text += ", ";
    text += to_string(item);
  }
  return text + ']';
}

std::string_view type_name(const Value& value) noexcept {
  if (value.is_bool()) return "a bool";
  if (value.is_integer()) return "an integer";
  if (value.is_number()) return "a number";
  if (value.is_parameter()) return "a parameter of a pipeline";
  return value.is_string() ? "a string" : "a list";
}

Params::Params(const Params& other) : Params() {
  for (const Param& param : other) add(param);
}

Params::Params(Params&& other) noexcept { take(other); }

Params& Params::operator=(Params other) noexcept {
  std::destroy_at(this);
  std::construct_at(this);
  take(other);
  return *this;
}

Params::~Params() {
  std::destroy_n(items_, size_);
  if (items_ != inline_items()) std::allocator<Param>().deallocate(items_, capacity_);
}

// This must be empty.
void Params::take(Params& other) noexcept {
  if (other.items_ != other.inline_items()) {
    items_ = std::exchange(other.items_, other.inline_items());
    capacity_ = std::exchange(other.capacity_, inline_capacity);
  } else {
    std::uninitialized_move_n(other.items_, other.size_, items_);
    std::destroy_n(other.items_, other.size_);
  }
  size_ = std::exchange(other.size_, 0);
}

void Params::add(Param param) {
  if (find(param.name)) {
    throw Error(Errc::invalid_parameter, core::text("parameter ", core::in_quotes(param.name), " is given twice"));
  }
  if (size_ == capacity_) {
    Param* grown = std::allocator<Param>().allocate(capacity_ * 2);
    std::uninitialized_move_n(items_, size_, grown);
    std::destroy_n(items_, size_);
    if (items_ != inline_items()) std::allocator<Param>().deallocate(items_, capacity_);
    items_ = grown;
    capacity_ *= 2;
  }
  std::construct_at(items_ + size_, std::move(param));
  ++size_;
}

Params& Params::set(std::string_view name, Value value) {
  if (const Value* found = find(name)) {
    *const_cast<Value*>(found) = std::move(value);
  } else {
    add(Param(name, std::move(value)));
  }
  return *this;
}

const Value* Params::find(std::string_view name) const noexcept {
  const Param* found = std::ranges::find(begin(), end(), name, &Param::name);
  return found == end() ? nullptr : &found->value;
}

}  // namespace tessera
