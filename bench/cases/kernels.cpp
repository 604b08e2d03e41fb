// Kernels compared with those of other libraries. All sides use the same memory, ours, and their results are compared.
#include "cases/our_kernels.hpp"
#include "cases/tiny.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

namespace bench {

namespace {

using tessera::Buffer;
using tessera::Shape;

// The best rate of several calls in a row: the first ones wake threads and bring cores up to speed.
std::function<double()> rate(double work, const Call& call) {
  if (!call) return nullptr;
  return [=] {
    constexpr auto time = std::chrono::milliseconds(30);
    const auto end = std::chrono::steady_clock::now() + time;
    double best = nanoseconds(call);
    do {
      best = std::min(best, nanoseconds(call));
    } while (std::chrono::steady_clock::now() < end);
    return work / best;
  };
}

// Compares the outputs of the calls.
template <class T>
std::string differences(const std::vector<Call>& calls, Buffer output, double tolerance) {
  std::vector<T> expected;
  for (std::size_t side = 0; side < calls.size(); ++side) {
    if (!calls[side]) continue;
    output.write(std::vector<T>(output.shape().elements(), T{1}));
    calls[side]();
    const std::vector<T> values = output.read<T>();
    if (expected.empty()) expected = values;
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
      // NaN counts as the worst.
      worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
    }
    if (worst > tolerance) {
      return (side == 0 ? "ours" : "rival " + std::to_string(side)) + " differs by " + std::to_string(worst);
    }
  }
  return "";
}

// `work` is the work of a call, in the unit times nanoseconds. The calls keep their memory.
template <class T>
Sides contest(double work, const std::vector<Call>& calls, const std::vector<Buffer>& inputs, const Buffer& output,
              double tolerance) {
  Sides sides(rate(work, calls.front()));
  for (std::size_t i = 1; i < calls.size(); ++i) sides.rivals.push_back(rate(work, calls[i]));
  sides.check = [=, kept = inputs] { return differences<T>(calls, output, tolerance); };
  return sides;
}

// The same numbers every time: from -1 to 1, or integers that do not overflow.
template <class T>
Buffer random_buffer(const Shape& shape, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<T> values(shape.elements());
  for (T& value : values) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
    } else {
      value = static_cast<T>(random() >> 8 & 0xFF);
    }
  }
  return device().buffer<T>(values, shape);
}

// The address of a buffer's elements, for rivals.
template <class T>
T* address(Buffer buffer) {
  return buffer.map<T>().data();
}

template <class T>
std::vector<Call> matmul_calls(const Buffer& a, const Buffer& b, const Buffer& c, int size) {
  const Matmul<T> work{address<T>(a), address<T>(b), address<T>(c), size};
  if constexpr (std::is_same_v<T, float>) {
    return {our_matmul(a, b, c), onednn::matmul(work), onednn::sgemm(work)};
  } else if constexpr (std::is_same_v<T, double>) {
    return {our_matmul(a, b, c), openblas::matmul(work)};
  } else {
    return {our_matmul(a, b, c), eigen::matmul(work), openmp::matmul(work)};
  }
}

}  // namespace

Sides add_relu_scale(std::size_t elements, Extent extent) {
  constexpr float factor = 1.5F;
  const Buffer a = random_buffer<float>(Shape(elements), 1);
  const Buffer b = random_buffer<float>(Shape(elements), 2);
  const Buffer output = device().zeros(Shape(elements));
  const AddReluScale work{address<float>(a), address<float>(b), address<float>(output), elements, factor};
  std::vector<Call> calls = {our_add_relu_scale(device(), a, b, output, factor), openmp::add_relu_scale(work)};
  if (extent == Extent::memory) {
    calls.insert(calls.end(),
                 {eigen::add_relu_scale(work), opencv::add_relu_scale(work), handwritten::add_relu_scale(work)});
  }
  return contest<float>(3.0 * sizeof(float) * static_cast<double>(elements), calls, {a, b}, output, 0);
}

template <class T>
Sides matmul(int size) {
  const Shape shape(size, size);
  const Buffer a = random_buffer<T>(shape, 1);
  const Buffer b = random_buffer<T>(shape, 2);
  const Buffer c = device().zeros(shape, tessera::dtype_of<T>);
  const double tolerance =
      std::is_integral_v<T> ? 0 : size * 10.0 * static_cast<double>(std::numeric_limits<T>::epsilon());
  return contest<T>(2.0 * std::pow(size, 3), matmul_calls<T>(a, b, c, size), {a, b}, c, tolerance);
}
template Sides matmul<float>(int);
template Sides matmul<double>(int);
template Sides matmul<std::int32_t>(int);

Sides softmax(int rows, int columns) {
  const Shape shape(rows, columns);
  const Buffer input = random_buffer<float>(shape, 1);
  const Buffer output = device().zeros(shape);
  const Rows work{address<float>(input), address<float>(output), rows, columns};
  return contest<float>(2.0 * sizeof(float) * rows * columns,
                        {our_softmax(input, output), onednn::softmax(work), eigen::softmax(work)}, {input}, output,
                        1e-6);
}

Sides row_sums(int rows, int columns) {
  const Buffer input = random_buffer<float>({rows, columns}, 1);
  const Buffer output = device().zeros({rows});
  const Rows work{address<float>(input), address<float>(output), rows, columns};
  return contest<float>(1.0 * sizeof(float) * rows * columns,
                        {our_row_sums(input, output), onednn::row_sums(work), eigen::row_sums(work)}, {input}, output,
                        1e-3);
}

Sides sum_of_all(std::size_t elements) {
  const Buffer input = random_buffer<float>(Shape(elements), 1);
  const Buffer output = device().zeros({1});
  const SumOfAll work{address<float>(input), address<float>(output), elements};
  return contest<float>(1.0 * sizeof(float) * static_cast<double>(elements),
                        {our_sum_of_all(input, output), openmp::sum_of_all(work), eigen::sum_of_all(work)}, {input},
                        output, 1e-6 * static_cast<double>(elements));
}

Sides gaussian_blur(int width, int height) {
  constexpr int radius = 3;
  constexpr double sigma = 1.5;
  const Shape shape(height, width, 4);
  const Buffer input = random_buffer<std::uint8_t>(shape, 1);
  const Buffer output = device().zeros(shape, tessera::u8);
  const Blur work{address<std::uint8_t>(input), address<std::uint8_t>(output), width, height, radius, sigma};
  return contest<std::uint8_t>(1e3 * width * height,  // millions per second
                               {our_gaussian_blur(input, output, radius, sigma), opencv::gaussian_blur(work)}, {input},
                               output, 0);
}

Sides resize(int width, int height, int output_width, int output_height) {
  const Buffer input = random_buffer<std::uint8_t>({height, width, 4}, 1);
  const Buffer output = device().zeros({output_height, output_width, 4}, tessera::u8);
  const Resize work{
      address<std::uint8_t>(input), address<std::uint8_t>(output), width, height, output_width, output_height};
  // OpenCV's weights have 11 bits.
  return contest<std::uint8_t>(1e3 * output_width * output_height, {our_resize(input, output), opencv::resize(work)},
                               {input}, output, 1);
}

Sides look_up(int width, int height) {
  const Shape shape(height, width, 3);
  const Buffer input = random_buffer<std::uint8_t>(shape, 1), table = random_buffer<std::uint8_t>({256}, 2);
  const Buffer output = device().zeros(shape, tessera::u8);
  const Pixels work{address<std::uint8_t>(input), address<std::uint8_t>(output), width, height};
  return contest<std::uint8_t>(1e3 * width * height,
                               {our_look_up(input, table, output), opencv::look_up(work, address<std::uint8_t>(table))},
                               {input, table}, output, 0);
}

Sides saturation(int width, int height) {
  constexpr float amount = 1.5F;
  const Shape shape(height, width, 3);
  const Buffer input = random_buffer<std::uint8_t>(shape, 1);
  const Buffer output = device().zeros(shape, tessera::u8);
  const Pixels work{address<std::uint8_t>(input), address<std::uint8_t>(output), width, height};
  return contest<std::uint8_t>(1e3 * width * height,
                               {our_saturation(input, output, amount), opencv::saturate(work, amount)}, {input}, output,
                               1);
}

Sides image_pipeline(int width, int height) {
  const tessera::Shape size(height, width, 4);
  const Buffer input = random_buffer<std::uint8_t>(size, 1);
  const Buffer output = device().zeros({height, width}, tessera::u8);
  const auto ours = [&](bool fuse) -> Call {
    auto pipeline = std::make_shared<tessera::Pipeline>(device(), tessera::PipelineOptions{.fuse = fuse});
    const Buffer blurred = pipeline->temporary(size, tessera::u8), sharp = pipeline->temporary(size, tessera::u8);
    pipeline->add("gaussian_blur", {input}, blurred, {{"radius", 3}, {"sigma", 1.5}})
        .add("sharpen", {blurred}, sharp, {{"amount", 0.5}})
        .add("grayscale", {sharp}, output);
    return [=] { pipeline->run(); };
  };
  const Blur work{address<std::uint8_t>(input), address<std::uint8_t>(output), width, height, 3, 1.5};
  // OpenCV rounds after each step.
  return contest<std::uint8_t>(1e3 * width * height, {ours(true), opencv::blur_sharpen_gray(work), ours(false)},
                               {input}, output, 2);
}

}  // namespace bench
