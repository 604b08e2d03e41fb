#include "conformance/cases/cases.hpp"
#include "core/random.hpp"

#include <iterator>

namespace tessera::conformance {

namespace {

template <class T>
T usual(core::Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(random.fraction() * 8 - 4);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(random.below(201)) - 100);
  } else {
    return static_cast<T>(random.below(201));
  }
}

template <class T>
T special(core::Random& random) {
  using Limits = std::numeric_limits<T>;
  if (random.below(3) == 0) return usual<T>(random);
  if constexpr (std::is_floating_point_v<T>) {
    const T values[] = {Limits::quiet_NaN(),
                        Limits::infinity(),
                        -Limits::infinity(),
                        T{0},
                        T{-0.0},
                        Limits::max(),
                        Limits::lowest(),
                        Limits::min(),
                        T{1},
                        T{-1},
                        Limits::denorm_min(),
                        Limits::epsilon(),
                        T{0.5},
                        T{-2},
                        T{88.5},
                        T{-88.5},
                        T{1e10},
                        T{2147483648.0},
                        T{-0.5},
                        T{1.5}};
    return values[random.below(std::size(values))];
  } else {
    const T values[] = {Limits::min(),
                        Limits::max(),
                        T{0},
                        T{1},
                        static_cast<T>(-1),
                        T{2},
                        T{3},
                        static_cast<T>(-2),
                        static_cast<T>(Limits::min() + 1),
                        static_cast<T>(Limits::max() - 1)};
    if (random.below(3) == 0) return static_cast<T>(random.next());
    return values[random.below(std::size(values))];
  }
}

template <class T>
T image(core::Random& random) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    const std::uint64_t kind = random.below(6);
    return kind == 0 ? T{0} : kind == 1 ? T{255} : static_cast<T>(random.next());
  } else {
    return static_cast<T>(random.fraction() * 1.5 - 0.25);
  }
}

void fill(Tensor& tensor, Data data, core::Random& random) {
  with_type(tensor.dtype, [&]<class T>() {
    for (T& value : tensor.values<T>()) {
      switch (data) {
        case Data::usual:
          value = usual<T>(random);
          break;
        case Data::special:
          value = special<T>(random);
          break;
        case Data::offset:
          value = static_cast<T>(usual<T>(random) + T{100});
          break;
        case Data::image:
          value = image<T>(random);
          break;
      }
    }
  });
}

}  // namespace

Call make_call(const Case& of, std::uint64_t seed) {
  core::Random random(seed);
  Call call{{}, of.dtype, of.shape, of.params};
  for (const Input& input : of.inputs) {
    fill(call.inputs.emplace_back(input.dtype, input.shape), input.data, random);
  }
  return call;
}

std::string describe(const Case& of) {
  std::string text = of.kernel + "(";
  for (const Input& input : of.inputs) {
    if (&input != of.inputs.data()) text += ", ";
    text += to_string(input.dtype, input.shape);
    if (input.data == Data::special) text += " special";
    if (input.data == Data::offset) text += " offset";
  }
  text += ") -> " + to_string(of.dtype, of.shape) + " {";
  for (const Param& param : of.params) {
    if (&param != of.params.begin()) text += ", ";
    text += param.name + ": " + to_string(param.value);
  }
  text += "}";
  if (of.in_place >= 0) text += " in place of input " + std::to_string(of.in_place);
  return text;
}

Cases all_cases() {
  Cases cases;
  add_elementwise_cases(cases);
  add_reduction_cases(cases);
  add_linear_cases(cases);
  add_generator_cases(cases);
  add_image_cases(cases);
  add_sound_cases(cases);
  return cases;
}

Cases huge_cases() {
  const Shape bytes{(std::int64_t{1} << 31) + 77};
  const Shape rows{3, (std::int64_t{1} << 30) / 4 * 3 + 5};
  return {
      {.kernel = "copy", .inputs = {{u8, bytes}}, .dtype = u8, .shape = bytes},
      {.kernel = "elementwise_add", .inputs = {{u8, bytes}, {u8, bytes}}, .dtype = u8, .shape = bytes},
      {.kernel = "relu", .inputs = {{u8, bytes}}, .dtype = u8, .shape = bytes},
      {.kernel = "reduce_sum", .inputs = {{u8, bytes}}, .dtype = s64, .shape = Shape{}},
      {.kernel = "reduce_sum", .inputs = {{u8, rows}}, .dtype = s64, .shape = Shape{3}},
  };
}

}  // namespace tessera::conformance
