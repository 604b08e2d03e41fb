#include "conformance/cases/cases.hpp"

namespace tessera::conformance {

namespace {

Shape without(const Shape& shape, int axis, bool keeps) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  if (keeps) {
    dims[static_cast<std::size_t>(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  return Shape(std::span<const std::int64_t>(dims));
}

struct Along {
  Shape shape;
  int axis;
};

// Rows shorter and longer than a vector, rows that are columns, rows of one.
const std::vector<Along>& rows() {
  static const std::vector<Along> all = {
      {{1}, 0},        {{97}, 0},       {{40'000}, 0},  {{17, 31}, 1},      {{17, 31}, 0},      {{1, 257}, 0},
      {{1, 257}, 1},   {{300, 1}, 1},   {{3, 5, 7}, 1}, {{2, 3, 5, 7}, -1}, {{2, 3, 5, 7}, -4}, {{2, 2, 3, 2, 5}, 2},
      {{200, 201}, 1}, {{200, 201}, 0}, {{0, 3}, 1},
  };
  return all;
}

std::int64_t long_axis(DType dtype) { return (std::int64_t{17} << 18) / static_cast<std::int64_t>(size_of(dtype)) + 3; }

std::vector<DType> sums_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return {u8, u32, s32, s64, f32, f64};
    case DType::u32:
    case DType::s32:
      return {dtype, s64, f64};
    case DType::f32:
      return {f32, f64};
    default:
      return {dtype};
  }
}

std::vector<DType> means_of(DType dtype) {
  if (is_float(dtype)) return {dtype};
  return {dtype, f32, f64};
}

std::vector<DType> outputs_of(const std::string& kernel, DType dtype) {
  if (kernel == "reduce_sum") return sums_of(dtype);
  if (kernel == "reduce_mean") return means_of(dtype);
  if (kernel == "argmax") return {s64, s32, u32};
  return {dtype};
}

void add_reduction(Cases& to, const std::string& kernel) {
  const bool needs_elements = kernel != "reduce_sum" && kernel != "reduce_mean";
  for (const DType dtype : all_dtypes) {
    for (const DType out : outputs_of(kernel, dtype)) {
      for (const Data data : {Data::usual, Data::special}) {
        for (const auto& [shape, axis] : rows()) {
          const int place = axis < 0 ? axis + shape.rank() : axis;
          to.push_back({kernel, {{dtype, shape, data}}, out, without(shape, place, false), {{"axis", axis}}});
          to.push_back({kernel, {{dtype, shape, data}}, out, without(shape, place, true), {{"axis", axis}}});
        }
        to.push_back({kernel, {{dtype, {3, 5, 7}, data}}, out, {3, 5}});
        to.push_back({kernel, {{dtype, {3, 5, 7}, data}}, out, {}});
        to.push_back({kernel, {{dtype, {200, 201}, data}}, out, {}});
        to.push_back({kernel, {{dtype, {97}, data}}, out, {}});
        to.push_back({kernel, {{dtype, {}, data}}, out, {}});
      }
      // Long enough to be done in parts.
      to.push_back({kernel, {{dtype, {long_axis(dtype)}}}, out, {}});
      const std::optional<Errc> error = needs_elements ? std::optional(Errc::shape_mismatch) : std::nullopt;
      to.push_back({kernel, {{dtype, {3, 0}}}, out, {3}, {}, -1, error});
      to.push_back({kernel, {{dtype, {0}}}, out, {}, {}, -1, error});
    }
  }
}

void add_softmax(Cases& to) {
  for (const DType dtype : {f32, f64}) {
    for (const Data data : {Data::usual, Data::special, Data::offset}) {
      for (const auto& [shape, axis] : rows()) {
        to.push_back({"softmax", {{dtype, shape, data}}, dtype, shape, {{"axis", axis}}});
      }
      to.push_back({"softmax", {{dtype, {3, 5, 7}, data}}, dtype, {3, 5, 7}});
      to.push_back({"softmax", {{dtype, {3, 0}, data}}, dtype, {3, 0}});
    }
  }
}

void add_layer_norm(Cases& to) {
  for (const DType dtype : {f32, f64}) {
    for (const Data data : {Data::usual, Data::special, Data::offset}) {
      for (const Shape& shape : {Shape{1}, Shape{97}, Shape{17, 31}, Shape{3, 5, 7}, Shape{300, 1}, Shape{2, 3, 5, 64},
                                 Shape{0, 5}, Shape{5, 0}, Shape{2, 4099}}) {
        const Shape last{shape[shape.rank() - 1]};
        const Input x{dtype, shape, data};
        const Input row{dtype, last};
        to.push_back({"layer_norm", {x}, dtype, shape});
        to.push_back({"layer_norm", {x, row}, dtype, shape, {{"epsilon", 1e-3}}});
        to.push_back({"layer_norm", {x, row, row}, dtype, shape});
      }
    }
  }
}

}  // namespace

void add_reduction_cases(Cases& to) {
  for (const char* kernel : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "argmax"}) {
    add_reduction(to, kernel);
  }
  add_softmax(to);
  add_layer_norm(to);
}

}  // namespace tessera::conformance
