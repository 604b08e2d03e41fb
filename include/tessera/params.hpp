#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

// The value of a parameter: a bool, an integer, a number, a string, or a list of those; or a pipeline parameter
// (Pipeline::param), whose value is bound for each run.
//
//   Value(3)   Value(1.5)   Value(true)   Value("linear")   Value(224, 224)   Value::list(1)
class TESSERA_API Value {
 public:
  using List = std::vector<Value>;

  Value() = default;  // the integer 0

  template <class T>
    requires std::is_arithmetic_v<T>
  Value(T value) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      data_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      data_ = static_cast<double>(value);
    } else {
      if (!std::in_range<std::int64_t>(+value)) throw_overflow();
      data_ = static_cast<std::int64_t>(value);
    }
  }
  Value(const char* text);                                    // NOLINT(google-explicit-constructor)
  Value(std::string_view text) : data_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Value(std::string text) : data_(std::move(text)) {}         // NOLINT(google-explicit-constructor)
  Value(List list) : data_(std::move(list)) {}                // NOLINT(google-explicit-constructor)

  template <class T>
    requires std::is_arithmetic_v<T>
  Value(const std::vector<T>& list)  // NOLINT(google-explicit-constructor)
      : data_(List(list.begin(), list.end())) {}

  // {"size", {224, 224}}: two or more values are a list.
  template <class A, class B, class... Rest>
    requires(std::is_convertible_v<A, Value> && std::is_convertible_v<B, Value> &&
             (std::is_convertible_v<Rest, Value> && ...))
  Value(A&& a, B&& b, Rest&&... rest)
      : Value(list(std::forward<A>(a), std::forward<B>(b), std::forward<Rest>(rest)...)) {}

  // A list of any length, including 0 and 1.
  template <class... T>
  static Value list(T&&... items) {
    List values;
    values.reserve(sizeof...(T));
    (values.emplace_back(std::forward<T>(items)), ...);
    return Value(std::move(values));
  }

  // A reference to a pipeline parameter, valid only in pipelines with a parameter of this name.
  static Value parameter(std::string_view name) {
    Value value;
    value.data_ = Parameter{std::string(name)};
    return value;
  }

  // A value as JSON text: 3, 1.5, true, "linear", [224, 224], {"param": "sigma"} for a pipeline parameter, {"number":
  // "inf"} for what JSON has no number for. Throws Errc::invalid_argument with the position of the error.
  static Value from_json(std::string_view json);
  std::string to_json() const;

  bool is_bool() const noexcept { return std::holds_alternative<bool>(data_); }
  bool is_integer() const noexcept { return std::holds_alternative<std::int64_t>(data_); }
  bool is_number() const noexcept { return is_integer() || std::holds_alternative<double>(data_); }
  bool is_string() const noexcept { return std::holds_alternative<std::string>(data_); }
  bool is_list() const noexcept { return std::holds_alternative<List>(data_); }
  bool is_parameter() const noexcept { return std::holds_alternative<Parameter>(data_); }

  // Throw Errc::invalid_parameter if the value has another type. number() accepts integers too.
  bool boolean() const { return get<bool>("a bool"); }
  std::int64_t integer() const { return get<std::int64_t>("an integer"); }
  double number() const { return is_integer() ? static_cast<double>(integer()) : get<double>("a number"); }
  const std::string& string() const { return get<std::string>("a string"); }
  const List& items() const { return get<List>("a list"); }
  const std::string& parameter_name() const { return get<Parameter>("a parameter of a pipeline").name; }

  friend bool operator==(const Value&, const Value&) = default;

 private:
  struct Parameter {
    std::string name;
    friend bool operator==(const Parameter&, const Parameter&) = default;
  };
  template <class T>
  const T& get(const char* wanted) const {
    if (const T* held = std::get_if<T>(&data_)) return *held;
    throw_type(wanted);
  }
  [[noreturn]] static void throw_overflow();
  [[noreturn]] void throw_type(const char* wanted) const;
  std::variant<std::int64_t, double, bool, std::string, List, Parameter> data_;
};

// "3", "1.5", "true", "\"linear\"", "[224, 224]".
TESSERA_API std::string to_string(const Value& value);
// "a bool", "an integer", "a number", "a string", "a list", "a parameter of a pipeline".
TESSERA_API std::string_view type_name(const Value& value) noexcept;

// One named parameter, as in {"radius", 3}.
struct Param {
  Param(std::string_view param_name, Value param_value) : name(param_name), value(std::move(param_value)) {}

  std::string name;
  Value value;

  friend bool operator==(const Param&, const Param&) = default;
};

// The named parameters of a call, in the order given: {{"radius", 3}, {"sigma", 1.5}}.
// A repeated name throws Errc::invalid_parameter. For more than eight, use Params().set(…).set(…).
class TESSERA_API Params {
 public:
  Params() noexcept {}  // NOLINT(modernize-use-equals-default): `const Params none;` needs it
  Params(const Params& other);
  Params(Params&& other) noexcept;
  Params& operator=(Params other) noexcept;
  ~Params();

  // Written out instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  Params(Param a) { add(std::move(a)); }  // NOLINT(google-explicit-constructor)
  Params(Param a, Param b) : Params(std::move(a)) { add(std::move(b)); }
  Params(Param a, Param b, Param c) : Params(std::move(a), std::move(b)) { add(std::move(c)); }
  Params(Param a, Param b, Param c, Param d) : Params(std::move(a), std::move(b), std::move(c)) { add(std::move(d)); }
  Params(Param a, Param b, Param c, Param d, Param e) : Params(std::move(a), std::move(b), std::move(c), std::move(d)) {
    add(std::move(e));
  }
  Params(Param a, Param b, Param c, Param d, Param e, Param f)
      : Params(std::move(a), std::move(b), std::move(c), std::move(d), std::move(e)) {
    add(std::move(f));
  }
  Params(Param a, Param b, Param c, Param d, Param e, Param f, Param g)
      : Params(std::move(a), std::move(b), std::move(c), std::move(d), std::move(e), std::move(f)) {
    add(std::move(g));
  }
  Params(Param a, Param b, Param c, Param d, Param e, Param f, Param g, Param h)
      : Params(std::move(a), std::move(b), std::move(c), std::move(d), std::move(e), std::move(f), std::move(g)) {
    add(std::move(h));
  }

  // Parameters as a JSON object: {"radius": 3, "sigma": 1.5}, with values as Value::from_json reads them.
  static Params from_json(std::string_view json);

  // Adds a parameter or replaces its value. Returns *this.
  Params& set(std::string_view name, Value value);
  // The value of a parameter, or null.
  const Value* find(std::string_view name) const noexcept;

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  const Param* begin() const noexcept { return items_; }
  const Param* end() const noexcept { return items_ + size_; }

  friend bool operator==(const Params& a, const Params& b) { return std::ranges::equal(a, b); }

 private:
  void add(Param param);
  void take(Params& other) noexcept;
  Param* inline_items() noexcept { return reinterpret_cast<Param*>(inline_); }

  // The first two need no allocation, which would be a fifth of the cost of a small command (bench: "chain").
  static constexpr std::size_t inline_capacity = 2;
  Param* items_ = inline_items();
  std::size_t size_ = 0;
  std::size_t capacity_ = inline_capacity;
  alignas(Param) std::byte inline_[inline_capacity * sizeof(Param)];
};

}  // namespace tessera
