#include "conformance/oracles/oracles.hpp"

namespace tessera::conformance {

namespace {

// A sum of products in the type: integers wrap around.
class Dot {
 public:
  explicit Dot(DType dtype) : dtype_(dtype) {}
  void add(Real a, Real b) {
    if (is_float(dtype_)) {
      sum_.add(a * b);
    } else {
      const auto product = static_cast<std::uint64_t>(static_cast<std::int64_t>(a)) *
                           static_cast<std::uint64_t>(static_cast<std::int64_t>(b));
      bits_ += product;  // modulo 2^64, of which the narrower types keep the low bits
    }
  }
  Approx value() const {
    if (is_float(dtype_)) return sum_.in(dtype_);
    return with_type(dtype_, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) return Approx(static_cast<Real>(wrapped<T>(Wide{bits_})));
      return Approx();
    });
  }

 private:
  DType dtype_;
  Sum sum_;
  std::uint64_t bits_ = 0;
};

// Where a batch of the output begins in an operand, whose batch axes are broadcast.
std::size_t batch_begin(const Shape& shape, const std::vector<std::int64_t>& point) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims.resize(dims.size() - 2);
  const std::vector<std::int64_t> batch(point.begin(), point.end() - 2);
  const auto matrix = static_cast<std::size_t>(shape[shape.rank() - 1] * shape[shape.rank() - 2]);
  return broadcast_index(Shape(std::span<const std::int64_t>(dims)), batch) * matrix;
}

Answer matmul(const Call& call) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const Shape& a_shape = call.inputs[0].shape;
  const Shape& b_shape = call.inputs[1].shape;
  const std::vector<Real> a = call.inputs[0].numbers();
  const std::vector<Real> b = call.inputs[1].numbers();
  const std::int64_t depth = a_shape[a_shape.rank() - 1];
  const std::int64_t width = b_shape[b_shape.rank() - 1];
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    const std::size_t a_begin = batch_begin(a_shape, point);
    const std::size_t b_begin = batch_begin(b_shape, point);
    const std::int64_t row = point[point.size() - 2];
    const std::int64_t column = point[point.size() - 1];
    Dot dot(call.dtype);
    for (std::int64_t k = 0; k < depth; ++k) {
      dot.add(a[a_begin + static_cast<std::size_t>(row * depth + k)],
              b[b_begin + static_cast<std::size_t>(k * width + column)]);
    }
    answer.points[i] = dot.value();
  });
  return answer;
}

Answer transpose(const Call& call) {
  Answer answer(call);
  const Tensor& x = call.inputs[0];
  const int rank = call.shape.rank();
  std::vector<double> reversed;
  for (int axis = rank - 1; axis >= 0; --axis) reversed.push_back(axis);
  const std::vector<double> perm = call.list("perm", reversed);
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    std::vector<std::int64_t> from(point.size());
    for (std::size_t axis = 0; axis < point.size(); ++axis) from[static_cast<std::size_t>(perm[axis])] = point[axis];
    std::int64_t index = 0;
    for (int axis = 0; axis < rank; ++axis) index = index * x.shape[axis] + from[static_cast<std::size_t>(axis)];
    answer.points[i] = x.at(static_cast<std::size_t>(index));
  });
  return answer;
}

Answer conv2d(const Call& call) {
  Answer answer(call);
  answer.zeros_have_signs = false;
  const Shape& x_shape = call.inputs[0].shape;
  const Shape& w_shape = call.inputs[1].shape;
  const std::vector<Real> x = call.inputs[0].numbers();
  const std::vector<Real> w = call.inputs[1].numbers();
  const auto stride = call.two("stride", {1, 1});
  const auto padding = call.two("padding", {0, 0});
  const auto dilation = call.two("dilation", {1, 1});
  const std::int64_t per_group = w_shape[0] / call.integer("groups", 1);
  for_each_point(call.shape, [&](std::size_t i, const std::vector<std::int64_t>& point) {
    Dot dot(call.dtype);
    if (call.inputs.size() > 2) dot.add(call.inputs[2].at(static_cast<std::size_t>(point[1])), 1);
    const std::int64_t first_channel = point[1] / per_group * w_shape[1];
    for (std::int64_t c = 0; c < w_shape[1]; ++c) {
      for (std::int64_t ky = 0; ky < w_shape[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w_shape[3]; ++kx) {
          const std::int64_t y = point[2] * stride.first - padding.first + ky * dilation.first;
          const std::int64_t column = point[3] * stride.second - padding.second + kx * dilation.second;
          if (y < 0 || y >= x_shape[2] || column < 0 || column >= x_shape[3]) continue;
          const std::int64_t from =
              ((point[0] * x_shape[1] + first_channel + c) * x_shape[2] + y) * x_shape[3] + column;
          const std::int64_t weight = ((point[1] * w_shape[1] + c) * w_shape[2] + ky) * w_shape[3] + kx;
          dot.add(x[static_cast<std::size_t>(from)], w[static_cast<std::size_t>(weight)]);
        }
      }
    }
    answer.points[i] = dot.value();
  });
  return answer;
}

}  // namespace

void add_linear_oracles(Oracles& to) {
  to["matmul"] = matmul;
  to["transpose"] = transpose;
  to["conv2d"] = conv2d;
}

}  // namespace tessera::conformance
