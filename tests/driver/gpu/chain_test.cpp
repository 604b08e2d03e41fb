// Chains: kernels of one workgroup each, merged when a pipeline is replayed.
#include <tessera/tessera.hpp>

#include "compile/gpu/source.hpp"
#include "driver/gpu/api.hpp"
#include "driver/gpu/gpu_driver.hpp"
#include "engine/device_state.hpp"
#include "engine/launch_sequence.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;
using compile::gpu::Dialect;
using compile::gpu::Kernel;
using compile::gpu::Link;
using compile::gpu::Target;
namespace gpu = driver::gpu;

// ---- Source

Target target_for(Dialect dialect) {
  Target target;
  target.dialect = dialect;
  target.has_f64 = target.has_s64 = target.has_u8 = true;
  target.push_bytes = 128;
  return target;
}

// z = x * 2, of vectors.
Kernel doubled(const Target& target) {
  const ir::Program program = tile::trace("doubled", {{"z", ir::Type::f32, {-1}}, {"x", ir::Type::f32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(tile::Input(0).load({z.tile_dim(0)}, {z.block(0)}) * 2);
  });
  return compile::gpu::print(program, target, compile::gpu::Form::many);
}

TEST(GpuChain, The_same_memory_is_bound_once) {
  const Target target = target_for(Dialect::vulkan);
  const Kernel kernel = doubled(target);
  const std::vector<Link> links = {{&kernel, {1, 0}}, {&kernel, {2, 1}}, {&kernel, {1, 2}}};
  const auto chain = compile::gpu::chain(links, target);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->buffers, (std::vector<int>{1, 0, 2}));
  EXPECT_EQ(chain->is_written, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(chain->argument_words, 3 * kernel.argument_words);
  EXPECT_TRUE(chain->has_push_constants);
}

TEST(GpuChain, Stays_within_the_limits_of_the_device) {
  Target target = target_for(Dialect::vulkan);
  const Kernel kernel = doubled(target);
  const std::vector<Link> links = {{&kernel, {1, 0}}, {&kernel, {2, 1}}, {&kernel, {3, 2}}};
  target.most_buffers = 4;
  EXPECT_TRUE(compile::gpu::chain(links, target));
  target.push_bytes = 3 * 4 * kernel.argument_words - 1;  // one more buffer
  EXPECT_FALSE(compile::gpu::chain(links, target));
  target.most_buffers = 5;
  const auto chain = compile::gpu::chain(links, target);
  ASSERT_TRUE(chain);
  EXPECT_FALSE(chain->has_push_constants);

  Kernel with_memory = kernel;
  with_memory.parts.shared = {{"float", "shared_0", 1000}};
  const std::vector<Link> others = {{&with_memory, {1, 0}}, {&with_memory, {2, 1}}};
  target.shared_bytes = 8000;
  EXPECT_TRUE(compile::gpu::chain(others, target));
  target.shared_bytes = 7999;
  EXPECT_FALSE(compile::gpu::chain(others, target));
}

TEST(GpuChain, Is_for_Vulkan_only) {
  for (const Dialect dialect : {Dialect::gles, Dialect::opencl, Dialect::cuda}) {
    const Target target = target_for(dialect);
    const Kernel kernel = doubled(target);
    const std::vector<Link> links = {{&kernel, {1, 0}}, {&kernel, {2, 1}}};
    EXPECT_FALSE(compile::gpu::chain(links, target));
  }
}

// ---- On a device

// Counts recorded calls.
class WatchedApi final : public gpu::Api {
 public:
  explicit WatchedApi(std::unique_ptr<Api> below) : below_(std::move(below)) {}

  std::vector<std::size_t> recorded;  // number of calls in each recording
  bool breaks_chains = false;

  const DeviceInfo& info() const override { return below_->info(); }
  const Target& target() const override { return below_->target(); }
  std::size_t most_buffer_bytes() const override { return below_->most_buffer_bytes(); }
  std::uint32_t most_groups() const override { return below_->most_groups(); }
  std::unique_ptr<gpu::Memory> allocate(std::size_t bytes) override { return below_->allocate(bytes); }
  void upload(gpu::Memory& to, std::size_t offset, std::span<const std::byte> from) override {
    below_->upload(to, offset, from);
  }
  void download(std::span<std::byte> to, gpu::Memory& from, std::size_t offset) override {
    below_->download(to, from, offset);
  }
  void fill_zero(gpu::Memory& to, std::size_t offset, std::size_t bytes) override {
    below_->fill_zero(to, offset, bytes);
  }
  std::unique_ptr<gpu::Module> compile(const Kernel& kernel, const std::string& name) override {
    Kernel given = kernel;
    if (breaks_chains && name.starts_with("chain")) given.source += "\nthis is no kernel\n";
    return below_->compile(given, name);
  }
  std::uint64_t submit(std::span<const gpu::Dispatch> calls) override { return below_->submit(calls); }
  std::unique_ptr<gpu::Recording> record(std::span<const gpu::Dispatch> calls) override {
    recorded.push_back(calls.size());
    return below_->record(calls);
  }
  std::uint64_t submit(gpu::Recording& recording) override { return below_->submit(recording); }
  gpu::Progress wait(std::uint64_t number, gpu::Clock::time_point until) override {
    return below_->wait(number, until);
  }
  void lose(std::string why) override { below_->lose(std::move(why)); }

 private:
  const std::unique_ptr<Api> below_;
};

class GpuChainOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::vulkan_devices().empty()) GTEST_SKIP() << "no Vulkan device";
    auto api = std::make_unique<WatchedApi>(gpu::open_vulkan(0));
    api_ = api.get();
    auto driver = gpu::make_gpu_driver(std::move(api), "vulkan");
    auto* state = new detail::engine::DeviceState(std::move(driver), detail::engine::make_worker_pool(2));
    device_ = detail::Access::make<Device>(detail::Ref<detail::engine::DeviceState>::adopt(state));
  }

  Buffer ramp(const Shape& shape) const {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) * 0.37F - 2;
    return device_.buffer<float>(values, shape);
  }
  // Until a chain is worth it and recorded, or time is up.
  void replay(Pipeline& pipeline) const {
    const auto until = std::chrono::steady_clock::now() + 60s;
    int runs = 0;
    while (api_->recorded.size() < 2 && std::chrono::steady_clock::now() < until) {
      pipeline.run();
      if (++runs > detail::engine::RecordedLaunches::often) std::this_thread::sleep_for(1ms);
    }
    pipeline.run();
    EXPECT_GT(runs, detail::engine::RecordedLaunches::often);
  }

  WatchedApi* api_ = nullptr;
  Device device_ = Device::open("cpu");  // until the other one is open
};

TEST_F(GpuChainOnDevice, Tiny_stages_that_are_replayed_become_one_call) {
  const Buffer a = ramp({19}), b = device_.zeros({19});
  Pipeline pipeline(device_);
  for (int stage = 0; stage < 4; ++stage) {
    if (stage > 0) pipeline.barrier();
    pipeline.add("scale", {stage % 2 == 0 ? a : b}, stage % 2 == 0 ? b : a, {{"factor", stage % 2 == 0 ? 4 : 0.25}});
  }
  const std::vector<float> before = a.read<float>();
  replay(pipeline);
  EXPECT_EQ(api_->recorded, (std::vector<std::size_t>{4, 1}));
  EXPECT_EQ(a.read<float>(), before);
  std::vector<float> last = b.read<float>();
  for (float& value : last) value /= 4;
  EXPECT_EQ(last, before);
}

// Kernels of all forms, on memory that some of them view as another type.
TEST_F(GpuChainOnDevice, Has_the_same_result_as_the_stages_one_by_one) {
  const Buffer x = ramp({12, 20});
  const auto outputs = [&] {
    return std::vector<Buffer>{device_.zeros({12, 20}), device_.zeros({12, 20}),     device_.zeros({12}),
                               device_.zeros({12, 12}), device_.zeros({12, 20}, u8), device_.zeros({12, 12}),
                               device_.zeros({20, 12})};
  };
  struct Stage {
    std::string kernel;
    BufferList inputs;
    Buffer output;
    Params params;
  };
  const auto stages = [&](const std::vector<Buffer>& z) {
    return std::vector<Stage>{{"scale", {x}, z[0], {{"factor", 30}}},
                              {"softmax", {z[0]}, z[1], {}},
                              {"reduce_sum", {z[0]}, z[2], {{"axis", 1}}},
                              {"transpose", {x}, z[6], {}},
                              {"matmul", {x, z[6]}, z[3], {}},
                              {"cast", {z[0]}, z[4], {}},
                              {"elementwise_add", {z[3], z[3]}, z[5], {}},
                              {"elementwise_mul", {z[1], z[0]}, z[0], {}}};
  };
  const std::vector<Buffer> ours = outputs(), expected = outputs();
  Pipeline pipeline(device_);
  for (const Stage& stage : stages(ours))
    pipeline.add(stage.kernel, stage.inputs, stage.output, stage.params).barrier();
  replay(pipeline);
  for (const Stage& stage : stages(expected)) device_.run(stage.kernel, stage.inputs, stage.output, stage.params);
  ASSERT_EQ(api_->recorded.size(), 2U);
  EXPECT_LT(api_->recorded[1], api_->recorded[0]);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    SCOPED_TRACE(i);
    if (i == 4) {
      EXPECT_EQ(ours[i].read<std::uint8_t>(), expected[i].read<std::uint8_t>());
    } else {
      EXPECT_EQ(ours[i].read<float>(), expected[i].read<float>());
    }
  }
}

TEST_F(GpuChainOnDevice, Large_stages_stay_by_themselves) {
  const Buffer a = ramp({100'000}), b = device_.zeros({100'000}), c = ramp({10}), d = device_.zeros({10});
  Pipeline pipeline(device_);
  pipeline.add("scale", {a}, b, {{"factor", 2}}).barrier();
  pipeline.add("scale", {c}, d, {{"factor", 2}}).barrier();
  pipeline.add("scale", {b}, a, {{"factor", 2}});
  replay(pipeline);
  EXPECT_EQ(api_->recorded, (std::vector<std::size_t>{3, 3}));
}

TEST_F(GpuChainOnDevice, Without_a_chain_the_run_works_as_before) {
  api_->breaks_chains = true;
  const Buffer a = device_.buffer<float>({1, 2, 3}), b = device_.zeros({3});
  Pipeline pipeline(device_);
  pipeline.add("scale", {a}, b, {{"factor", 2}}).barrier().add("scale", {b}, a, {{"factor", 0.5}});
  replay(pipeline);
  EXPECT_EQ(api_->recorded, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(a.read<float>(), (std::vector<float>{1, 2, 3}));
}

// Different buffers in each run must not cause a compilation each time.
TEST_F(GpuChainOnDevice, Other_buffers_are_recorded_anew) {
  const Buffer a = ramp({8}), b = ramp({8}), z = device_.zeros({8});
  Pipeline pipeline(device_);
  const Buffer in = pipeline.slot("in", {8});
  const Buffer between = pipeline.temporary({8});
  pipeline.add("scale", {in}, between, {{"factor", 2}}).barrier().add("scale", {between}, z, {{"factor", 2}});
  for (int i = 0; i < 2 * detail::engine::RecordedLaunches::often; ++i) {
    pipeline.run({{"in", a}});
    pipeline.run({{"in", b}});
  }
  for (const std::size_t calls : api_->recorded) EXPECT_EQ(calls, 2U);
}

}  // namespace
}  // namespace tessera
