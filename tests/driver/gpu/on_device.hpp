#pragma once

#include <tessera/tessera.hpp>

#include "driver/gpu/api.hpp"
#include "driver/gpu/gpu_driver.hpp"
#include "engine/device_state.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// GPU APIs as users see them: behind a Device.
namespace tessera::driver::gpu::test {

// The backend under test: TESSERA_DEVICE.
inline std::string backend() {
  const char* wish = std::getenv("TESSERA_DEVICE");
  return wish && *wish != '\0' ? wish : "cpu";
}

inline std::unique_ptr<Api> open_api() {
  if (backend() == "vulkan") return open_vulkan(0);
  if (backend() == "opencl") return open_opencl(0);
  if (backend() == "gles") return open_gles(0);
  throw Error(Errc::unknown_device, "the test does not know how to open " + backend());
}

inline Device device_with(std::unique_ptr<Driver> driver) {
  auto* state = new detail::engine::DeviceState(std::move(driver), detail::engine::make_worker_pool(2));
  return detail::Access::make<Device>(detail::Ref<detail::engine::DeviceState>::adopt(state));
}

inline Device device_with(std::unique_ptr<Api> api) {
  std::string backend = api->info().backend;
  return device_with(make_gpu_driver(std::move(api), std::move(backend)));
}

// Checks that a device works, from the buffer to the result.
inline void expect_works(const Device& device) {
  const Buffer x = device.buffer<float>({-1, 0, 2}), z = device.zeros({3});
  device.submit("relu", {x}, z);
  device.run("scale", {z}, z, {{"factor", 10}});
  EXPECT_EQ(z.read<float>(), (std::vector<float>{0, 0, 20}));
}

// Switches `hangs` on while a device works whose limit is 0.2 s.
inline void expect_error_if_it_hangs(const Device& device, std::atomic<bool>& hangs) {
  using namespace std::chrono_literals;
  expect_works(device);
  const Buffer z = device.zeros({3});
  const Clock::time_point begin = Clock::now();
  hangs = true;
  const Command hanging = device.submit("relu", {z}, z);
  tessera::test::expect_error(Errc::device_failure, "has not finished within 0.2 s", [&] { hanging.wait(); });
  EXPECT_GE(Clock::now() - begin, 200ms);
  EXPECT_LT(Clock::now() - begin, 5s);
  tessera::test::expect_error(Errc::device_failure, "is lost", [&] { device.run("relu", {z}, z); });
}

// A kernel of each form that the GPU printer knows, compared with plain loops: points by four, points, tiles with and
// without scratch memory, matrix products; and a pipeline that is recorded.
inline void expect_computes(const Device& device) {
  constexpr std::int64_t rows = 37, columns = 41;
  const auto index = [](std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * columns + column);
  };
  std::vector<float> values(rows * columns), other(columns * rows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 4;
    other[i] = static_cast<float>(static_cast<int>(i * 5 % 17) - 8) / 2;
  }
  const auto expect_near = [](const Buffer& buffer, const std::vector<float>& expected, const char* what) {
    const std::vector<float> got = buffer.read<float>();
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-3F) << what << " at " << i;
  };
  const Buffer x = device.buffer<float>(values, {rows, columns}), y = device.buffer<float>(other, {rows, columns});

  const Buffer sum = device.zeros({rows, columns});
  device.submit("elementwise_add", {x, y}, sum);
  device.submit("scale", {sum}, sum, {{"factor", 3}});  // in place
  std::vector<float> expected(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) expected[i] = (values[i] + other[i]) * 3;
  expect_near(sum, expected, "elementwise_add, scale");

  const Buffer sums = device.zeros({rows}), shares = device.zeros({rows, columns});
  device.submit("reduce_sum", {x}, sums, {{"axis", 1}});
  device.submit("softmax", {x}, shares);
  std::vector<float> row_sums(rows), softmax(values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    float total = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      row_sums[static_cast<std::size_t>(row)] += values[index(row, column)];
      total += std::exp(values[index(row, column)]);
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      softmax[index(row, column)] = std::exp(values[index(row, column)]) / total;
    }
  }
  expect_near(sums, row_sums, "reduce_sum");
  expect_near(shares, softmax, "softmax");

  const Buffer right = y.reshape({columns, rows}), product = device.zeros({rows, rows});
  device.run("matmul", {x, right}, product);
  std::vector<float> products(rows * rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < rows; ++column) {
      for (std::int64_t k = 0; k < columns; ++k) {
        products[static_cast<std::size_t>(row * rows + column)] +=
            values[index(row, k)] * other[static_cast<std::size_t>(k * rows + column)];
      }
    }
  }
  expect_near(product, products, "matmul");

  Pipeline pipeline(device);
  const Buffer between = pipeline.temporary({rows, columns}), result = device.zeros({rows});
  pipeline.add("softmax", {x}, between).add("reduce_sum", {between}, result, {{"axis", 1}});
  for (int run = 0; run < 12; ++run) pipeline.run();
  expect_near(result, std::vector<float>(rows, 1), "pipeline");
}

}  // namespace tessera::driver::gpu::test
