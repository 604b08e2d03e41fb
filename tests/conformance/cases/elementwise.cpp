#include "conformance/cases/cases.hpp"

#include <limits>

namespace tessera::conformance {

namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();
const double inf = std::numeric_limits<double>::infinity();

struct Pair {
  Shape a;
  Shape b;
  Shape out;
};

// Equal shapes first.
const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all = {
      {{}, {}, {}},
      {{0}, {0}, {0}},
      {{1}, {1}, {1}},
      {{97}, {97}, {97}},
      {{40'000}, {40'000}, {40'000}},
      {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}},
      {{2, 3, 2, 5, 3}, {2, 3, 2, 5, 3}, {2, 3, 2, 5, 3}},
      {{4, 0, 3}, {4, 0, 3}, {4, 0, 3}},
      {{}, {7}, {7}},
      {{5}, {3, 5}, {3, 5}},
      {{3, 1}, {1, 5}, {3, 5}},
      {{1}, {0}, {0}},
      {{0, 3}, {3}, {0, 3}},
      {{200, 201}, {201}, {200, 201}},
      {{200, 1}, {200, 201}, {200, 201}},
      {{2, 3, 4}, {2, 1, 4}, {2, 3, 4}},
      {{17, 1, 19}, {13, 1}, {17, 13, 19}},
      {{2, 1, 3, 1, 5}, {1, 4, 1, 2, 1}, {2, 4, 3, 2, 5}},
      {{1, 1, 1}, {1}, {1, 1, 1}},
  };
  return all;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{}, {0}, {1}, {97}, {40'000}, {3, 0}, {17, 31}, {2, 3, 5, 7}, {2, 1, 3, 2, 2}};
  return all;
}

void add_binary(Cases& to, const std::string& kernel) {
  for (const DType dtype : all_dtypes) {
    for (const Data data : {Data::usual, Data::special}) {
      for (const Pair& pair : pairs()) {
        to.push_back({.kernel = kernel,
                      .inputs = {{dtype, pair.a, data}, {dtype, pair.b, data}},
                      .dtype = dtype,
                      .shape = pair.out});
      }
    }
    for (const int in_place : {0, 1}) {
      for (const Shape& shape : {Shape{97}, Shape{40'000}, Shape{3, 5, 7}}) {
        to.push_back({.kernel = kernel,
                      .inputs = {{dtype, shape, Data::special}, {dtype, shape, Data::special}},
                      .dtype = dtype,
                      .shape = shape,
                      .in_place = in_place});
      }
      // The other operand is broadcast.
      std::vector<Input> inputs(2, {dtype, {17, 31}});
      inputs[static_cast<std::size_t>(1 - in_place)].shape = {31};
      to.push_back({.kernel = kernel, .inputs = inputs, .dtype = dtype, .shape = {17, 31}, .in_place = in_place});
    }
  }
}

void add_unary(Cases& to, const std::string& kernel, const std::vector<Params>& params = {Params()}) {
  for (const DType dtype : all_dtypes) {
    for (const Params& given : params) {
      const bool is_first = &given == params.data();
      for (const Shape& shape : shapes()) {
        if (!is_first && shape != Shape{97}) continue;
        for (const Data data : {Data::usual, Data::special}) {
          to.push_back(
              {.kernel = kernel, .inputs = {{dtype, shape, data}}, .dtype = dtype, .shape = shape, .params = given});
        }
      }
      to.push_back({.kernel = kernel,
                    .inputs = {{dtype, {331}, Data::special}},
                    .dtype = dtype,
                    .shape = {331},
                    .params = given,
                    .in_place = 0});
    }
  }
}

std::vector<Params> each(const std::string& name, const std::vector<Value>& values) {
  std::vector<Params> result = {Params()};
  for (const Value& value : values) result.push_back(Params(Param(name, value)));
  return result;
}

void add_casts(Cases& to) {
  for (const DType from : all_dtypes) {
    for (const DType dtype : all_dtypes) {
      for (const Shape& shape : shapes()) {
        to.push_back({.kernel = "cast", .inputs = {{from, shape, Data::special}}, .dtype = dtype, .shape = shape});
      }
    }
  }
}

void add_fills(Cases& to) {
  const std::vector<Value> values = {1,   -1,  255,  256,   2.5,       -2.5,      0.49,
                                     nan, inf, -inf, 1e300, INT64_MAX, INT64_MIN, -0.0};
  for (const DType dtype : all_dtypes) {
    for (const Shape& shape : shapes()) to.push_back({.kernel = "fill", .inputs = {}, .dtype = dtype, .shape = shape});
    for (const Params& given : each("value", values)) {
      to.push_back({.kernel = "fill", .inputs = {}, .dtype = dtype, .shape = {11}, .params = given});
    }
  }
}

}  // namespace

void add_elementwise_cases(Cases& to) {
  for (const char* kernel : {"elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div",
                             "elementwise_min", "elementwise_max", "pow"}) {
    add_binary(to, kernel);
  }
  for (const char* kernel : {"sigmoid", "tanh", "gelu", "silu", "exp", "log", "sqrt", "abs", "neg", "copy"}) {
    add_unary(to, kernel);
  }
  add_unary(to, "relu", each("slope", {0.25, 0.01, 1, 2, -1, 3.7, -0.5, inf}));
  add_unary(to, "scale", each("factor", {0, 2, -1, 3.0, 0.1, -2.5, 0.5, 1e10, INT64_MAX, nan, inf}));
  std::vector<Params> bounds = {Params()};
  for (const auto& [least, most] : std::vector<std::pair<Value, Value>>{
           {-1, 1}, {0.2, 0.8}, {-2.5, 2.5}, {-inf, inf}, {5, 5}, {-1e30, 1e30}, {0, 255}, {-3, -2}}) {
    bounds.push_back({{"min", least}, {"max", most}});
  }
  add_unary(to, "clamp", bounds);
  to.push_back({.kernel = "clamp",
                .inputs = {{f32, {4}}},
                .dtype = f32,
                .shape = {4},
                .params = {{"min", 2}, {"max", 1}},
                .error = Errc::invalid_parameter});
  add_casts(to);
  add_fills(to);
}

}  // namespace tessera::conformance
