// A device with a queue, compared with hand-written programs on the same API.
#include "rivals/gpu.hpp"

#include <tessera/tessera.hpp>

#include "cases/cases.hpp"
#include "cases/our_kernels.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace bench {

namespace {

using tessera::Buffer;
using tessera::Device;

constexpr std::size_t elements = tiny_elements;
constexpr int repeats = 20;  // per round: few, since an unlucky placement of threads on cores lasts long
constexpr int stages = 10;

std::function<double()> microseconds_each(const Call& call) {
  if (!call) return nullptr;
  return [=] {
    return nanoseconds([&] {
             for (int i = 0; i < repeats; ++i) call();
           }) /
           (1e3 * repeats);
  };
}

Sides tiny(const std::string& backend, const Device& device, const Call& ours) {
  const std::string& name = device.info().name;
  Sides sides(microseconds_each(ours));
  if (backend == "vulkan") {
    sides.rivals = {microseconds_each(vulkan::submit_and_wait(name, vulkan::Wait::fence)),
                    microseconds_each(vulkan::submit_and_wait(name, vulkan::Wait::timeline))};
  } else if (backend == "opencl") {
    sides.rivals = {microseconds_each(opencl::submit_and_wait(name, opencl::Wait::finish)),
                    microseconds_each(opencl::submit_and_wait(name, opencl::Wait::event))};
  }
  return sides;
}

double factor_of(int stage) { return stage % 2 == 0 ? 2 : 0.5; }

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = between(random);
  return values;
}

}  // namespace

Sides gpu_submit_and_wait(const std::string& backend) {
  const Device device = Device::open(backend);
  const Buffer input = device.zeros({elements});
  const Buffer output = device.zeros({elements});
  return tiny(backend, device, [=] { device.submit("relu", {input}, output).wait(); });
}

Sides gpu_run(const std::string& backend) {
  const Device device = Device::open(backend);
  const Buffer input = device.zeros({elements});
  const Buffer output = device.zeros({elements});
  return tiny(backend, device, [=] { device.run("relu", {input}, output); });
}

Sides gpu_pipeline(const std::string& backend) {
  const Device device = Device::open(backend);
  const Buffer a = device.zeros({elements});
  const Buffer b = device.zeros({elements});
  const auto pipeline = std::make_shared<tessera::Pipeline>(device);
  // Back and forth between two buffers; barriers prevent fusion.
  for (int stage = 0; stage < stages; ++stage) {
    if (stage > 0) pipeline->barrier();
    pipeline->add("scale", {stage % 2 == 0 ? a : b}, stage % 2 == 0 ? b : a, {{"factor", factor_of(stage)}});
  }
  pipeline->compile();
  Sides sides(microseconds_each([=] { pipeline->run(); }), microseconds_each([=] {
                for (int stage = 0; stage < stages; ++stage) {
                  device.run("scale", {stage % 2 == 0 ? a : b}, stage % 2 == 0 ? b : a, {{"factor", factor_of(stage)}});
                }
              }),
              microseconds_each([=] {
                tessera::Command last;
                for (int stage = 0; stage < stages; ++stage) {
                  last = device.submit("scale", {stage % 2 == 0 ? a : b}, stage % 2 == 0 ? b : a,
                                       {{"factor", factor_of(stage)}});
                }
                last.wait();
              }));
  if (backend == "vulkan") {
    const Call by_hand = vulkan::submit_and_wait(device.info().name, vulkan::Wait::timeline, stages);
    sides.rivals.push_back(microseconds_each(by_hand));
  }
  return sides;
}

Sides gpu_add_relu_scale(const std::string& backend) {
  constexpr std::size_t count = std::size_t{16} << 20;
  constexpr float factor = 1.5F;
  const Device device = Device::open(backend);
  const std::vector<float> left = random_values(count, 1);
  const std::vector<float> right = random_values(count, 2);
  const Buffer a = device.buffer<float>(left);
  const Buffer b = device.buffer<float>(right);
  const Buffer output = device.zeros(tessera::Shape(count));
  GpuKernel rival;
  if (backend == "vulkan") rival = vulkan::add_relu_scale(device.info().name, left, right, factor);
  if (backend == "opencl") rival = opencl::add_relu_scale(device.info().name, left, right, factor);

  const auto rate = [](const Call& call) -> std::function<double()> {
    if (!call) return nullptr;
    return [=] { return 3.0 * sizeof(float) * count / std::min(nanoseconds(call), nanoseconds(call)); };
  };
  Sides sides(rate(our_add_relu_scale(device, a, b, output, factor)));
  if (backend == "vulkan" || backend == "opencl") sides.rivals = {rate(rival.run)};
  sides.check = [=]() -> std::string {
    const std::vector<float> ours = output.read<float>();
    if (rival.read && rival.read() != ours) return "the results differ";
    for (std::size_t i = 0; i < count; i += 4099) {
      if (ours[i] != std::max(left[i] + right[i], 0.0F) * factor) return "a value is wrong";
    }
    return "";
  };
  return sides;
}

}  // namespace bench
