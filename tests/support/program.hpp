#pragma once

#include <tessera/tessera.hpp>

#include "support/depth.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

// Random command graphs over a few shared buffers, and what they mean when one command runs after the other.
namespace tessera::test {

struct Step {
  std::string kernel;
  std::vector<std::size_t> inputs;  // which buffers
  std::size_t output = 0;
  std::int32_t number = 0;  // the factor of scale, the value of fill
};

inline Params params_of(const Step& step) {
  if (step.kernel == "scale") return {{"factor", step.number}};
  if (step.kernel == "fill") return {{"value", step.number}};
  return {};
}

// Every kernel, any buffers, the output among the inputs too.
inline Step random_step(std::mt19937_64& random, std::size_t buffers) {
  static const std::vector<std::string> kernels = {
      "elementwise_add", "elementwise_mul", "relu", "scale", "fill", "copy"};
  const auto any = [&] { return static_cast<std::size_t>(random() % buffers); };
  Step step{.kernel = kernels[random() % kernels.size()],
            .inputs = {},
            .output = any(),
            .number = static_cast<std::int32_t>(random() % 7) - 3};
  if (step.kernel != "fill") step.inputs.push_back(any());
  if (step.kernel.starts_with("elementwise")) step.inputs.push_back(any());
  return step;
}

inline Command submit(const Device& device, const Step& step, const std::vector<Buffer>& buffers) {
  std::vector<Buffer> inputs;
  for (const std::size_t input : step.inputs) inputs.push_back(buffers[input]);
  return device.submit(step.kernel, inputs, buffers[step.output], params_of(step));
}

// The same on the host: one value stands for a whole buffer, since all its elements are equal at the start.
inline std::int32_t value_after(const Step& step, const std::vector<std::int32_t>& values) {
  const auto wrapped = [](std::int64_t value) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(value)); };
  const auto saturated = [](std::int64_t value) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, INT32_MIN, INT32_MAX));
  };
  const auto input = [&](std::size_t i) { return static_cast<std::int64_t>(values[step.inputs[i]]); };
  if (step.kernel == "elementwise_add") return wrapped(input(0) + input(1));
  if (step.kernel == "elementwise_mul") return wrapped(input(0) * input(1));
  if (step.kernel == "relu") return static_cast<std::int32_t>(std::max<std::int64_t>(input(0), 0));
  if (step.kernel == "scale") return saturated(input(0) * step.number);
  if (step.kernel == "fill") return step.number;
  return values[step.inputs[0]];
}

// Buffer i holds i + 1 everywhere.
inline std::vector<Buffer> make_buffers(const Device& device, std::size_t count, std::int64_t elements) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::int32_t> values(static_cast<std::size_t>(elements), static_cast<std::int32_t>(i + 1));
    buffers.push_back(device.buffer<std::int32_t>(values, {elements}));
  }
  return buffers;
}
inline std::vector<std::int32_t> first_values(std::size_t count) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(i + 1);
  return values;
}

// The one value that all elements of a buffer have; nothing if they differ, which means that commands mixed.
inline std::optional<std::int32_t> common_value(const Buffer& buffer) {
  const std::vector<std::int32_t> values = buffer.read<std::int32_t>();
  for (const std::int32_t value : values) {
    if (value != values.front()) return std::nullopt;
  }
  return values.front();
}

}  // namespace tessera::test
