#pragma once

#include <tessera/dtype.hpp>
#include <tessera/error.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::core {

using Json = nlohmann::ordered_json;

// Parses untrusted text: throws Errc::invalid_argument, with the position, for what is no JSON, nests more than 32
// deep, or has an object with two members of the same name or more than 1,024 of them. The messages begin with [call].
Json parse_json(std::string_view json, std::string_view call);

// What the parser says, without its own code and position.
std::string reason_of(const Json::exception& error);

Json to_json(const Value& value);

// Reads JSON, and names the path in error messages: "stages[0].inputs".
class JsonReader {
 public:
  JsonReader(const Json& document, std::string_view call) : json_(document), call_(call) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Errc::invalid_argument,
                text("[", call_, "] ", parent_ ? shortened(path()) : "the document", ": ", what));
  }

  // Refuses other keys: a misspelled key must not count as a missing one.
  void expect_keys(std::initializer_list<std::string_view> keys) const {
    if (!json_.is_object()) fail("expected an object");
    for (const auto& member : json_.items()) {
      if (std::ranges::find(keys, member.key()) != keys.end()) continue;
      fail(text(in_quotes(member.key()), " is unknown", suggestion(member.key(), {keys.begin(), keys.size()})));
    }
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  JsonReader operator[](const char* key) const {
    if (!json_.is_object()) fail("expected an object");
    if (!json_.contains(key)) fail(text("'", key, "' is missing"));
    return {json_[key], *this, key};
  }
  // Calls read(JsonReader) for each item of a list, or read(name, JsonReader) for each member of an object.
  template <class Read>
  void each(Read&& read) const {
    if (!json_.is_array()) fail("expected a list");
    for (std::size_t i = 0; i < json_.size(); ++i) read(JsonReader(json_[i], *this, {}, i));
  }
  template <class Read>
  void each_member(Read&& read) const {
    if (!json_.is_object()) fail("expected an object");
    for (const auto& [name, member] : json_.items()) read(name, JsonReader(member, *this, name));
  }

  std::string string() const {
    if (!json_.is_string()) fail("expected a string");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) fail("expected true or false");
    return json_.get<bool>();
  }
  bool is_integer() const {
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    return json_.is_number_integer() && (!json_.is_number_unsigned() || json_.get<std::uint64_t>() <= most);
  }
  std::int64_t integer() const {
    if (!is_integer()) fail("expected an integer");
    return json_.get<std::int64_t>();
  }

  Value value() const {
    if (json_.is_boolean()) return json_.get<bool>();
    if (is_integer()) return json_.get<std::int64_t>();
    if (json_.is_number()) return json_.get<double>();
    if (json_.is_string()) return json_.get<std::string>();
    if (has("param")) return Value::parameter((*this)["param"].string());
    if (has("number")) return (*this)["number"].special_number();
    if (!json_.is_array()) fail("expected a parameter value");
    Value::List items;
    each([&](const JsonReader& item) { items.push_back(item.value()); });
    return items;
  }

  Shape shape() const {
    std::vector<std::int64_t> dims;
    each([&](const JsonReader& dim) { dims.push_back(dim.integer()); });
    try {
      return Shape(std::span<const std::int64_t>(dims));
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  DType dtype() const {
    try {
      return dtype_from_string(string());
    } catch (const Error& error) {
      fail(error.what());
    }
  }

 private:
  // A part of what the parent, which outlives it, reads: a member, or an item if it has no name.
  JsonReader(const Json& json, const JsonReader& parent, std::string_view name, std::size_t index = 0)
      : json_(json), call_(parent.call_), parent_(&parent), name_(name), index_(index) {}

  // Made only for messages: making it for every value took most of the time.
  std::string path() const {
    const std::string before = parent_->parent_ ? parent_->path() : "";
    if (name_.data() == nullptr) return text(before, "[", index_, "]");
    return text(before, before.empty() ? "" : ".", name_);
  }

  double special_number() const {
    const std::string name = string();
    const double infinity = std::numeric_limits<double>::infinity();
    if (name == "inf") return infinity;
    if (name == "-inf") return -infinity;
    if (name == "nan" || name == "-nan") return std::numeric_limits<double>::quiet_NaN();
    fail(text("unknown number ", in_quotes(name)));
  }

  const Json& json_;
  std::string_view call_;               // in messages
  const JsonReader* parent_ = nullptr;  // none: the document
  std::string_view name_;
  std::size_t index_ = 0;
};

}  // namespace tessera::core
