// Matrix products on GPUs: when workgroups do blocks of them, within which limits, and that the results stay what they
// are.
#include <tessera/tessera.hpp>

#include "compile/gpu/printer.hpp"
#include "support/depth.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera {
namespace {

using compile::gpu::Blocking;
using compile::gpu::Choice;
using compile::gpu::Dialect;
using compile::gpu::Form;
using compile::gpu::Kernel;
using compile::gpu::NumberKind;
using compile::gpu::Target;
using ir::Type;
using tile::Index;
using tile::Input;
using tile::Output;
using tile::Tile;
using Dims = std::vector<std::int64_t>;

// The sum over tiles of the inner axis.
Tile product(int k_tile) {
  const Output z;
  const Input a(0), b(1);
  return tile::loop(tile::ceil_div(a.dim(1), k_tile), tile::zeros_like(z), [&](const Index& k, const Tile& sum) {
    return tile::mma(a.load({z.tile_dim(0), k_tile}, {z.block(0), k}), b.load({k_tile, z.tile_dim(1)}, {k, z.block(1)}),
                     sum);
  });
}

ir::Program traced(const std::function<void()>& body, Type type = Type::f32) {
  return tile::trace("product", {{"z", type, {-1, -1}}, {"a", type, {-1, -1}}, {"b", type, {-1, -1}}}, {}, body);
}

ir::Program plain(Type type = Type::f32) {
  return traced([] { Output().store(product(32)); }, type);
}

Target target_for(Dialect dialect) {
  Target target;
  target.dialect = dialect;
  target.has_f64 = target.has_s64 = target.has_u8 = dialect != Dialect::gles;
  return target;
}

bool has_blocks(const Kernel& kernel) { return kernel.source.find("shared_0") != std::string::npos; }

constexpr Dialect all_dialects[] = {Dialect::vulkan, Dialect::gles, Dialect::opencl, Dialect::cuda};

TEST(GpuProducts, Large_ones_are_done_in_blocks_and_narrow_ones_element_by_element) {
  const ir::Program program = plain();
  ASSERT_EQ(compile::gpu::choice_of(program), Choice::product);
  const auto form = [&](std::int64_t rows, std::int64_t columns) {
    const std::int64_t dims[] = {rows, columns, rows, 100, 100, columns};
    return compile::gpu::best_form(Choice::product, program, dims);
  };
  EXPECT_EQ(form(100, 100), Form::many);
  EXPECT_EQ(form(1, 1000), Form::few);
  EXPECT_EQ(form(1000, 3), Form::few);
  for (const Dialect dialect : all_dialects) {
    EXPECT_TRUE(has_blocks(compile::gpu::print(program, target_for(dialect), Form::many)));
    EXPECT_FALSE(has_blocks(compile::gpu::print(program, target_for(dialect), Form::few)));
  }
}

TEST(GpuProducts, Pointwise_work_after_the_product_stays_in_the_block) {
  EXPECT_EQ(compile::gpu::choice_of(traced([] { Output().store(max(product(8) * 2, 0)); })), Choice::product);
}

TEST(GpuProducts, Work_that_reads_other_elements_of_the_product_is_not_done_in_blocks) {
  const auto turned = [](const Tile& x) { return tile::transpose(x, {1, 0}); };
  EXPECT_NE(compile::gpu::choice_of(traced([&] { Output().store(turned(turned(product(8)) * 2)); })), Choice::product);
  EXPECT_NE(compile::gpu::choice_of(traced([] { Output().store(tile::reduce_sum(product(8), 1)); })), Choice::product);
  EXPECT_NE(compile::gpu::choice_of(traced([] { Output().store(product(8) + product(16)); })), Choice::product);
}

TEST(GpuProducts, Blocks_fit_the_memory_of_the_workgroup) {
  for (const int group : {4, 32, 64, 128, 256, 1024}) {
    for (const std::int64_t bytes : {4096, 16384, 32768, 49152}) {
      for (const int each : {4, 8}) {
        for (const NumberKind kind : {NumberKind::f32, NumberKind::f64}) {
          Target target;
          target.group = group;
          target.shared_bytes = bytes;
          target.product_block = each;
          const std::optional<Blocking> blocking = compile::gpu::blocking_of(target, kind, 0);
          if (!blocking) continue;
          EXPECT_EQ(blocking->lanes[0] * blocking->lanes[1], group);
          EXPECT_LE((blocking->stride(0) + blocking->stride(1)) * blocking->depth * 4 * compile::gpu::words_of(kind),
                    bytes);
        }
      }
    }
  }
  // What every device has is enough for workgroups of 128.
  EXPECT_TRUE(compile::gpu::blocking_of(Target(), NumberKind::f64, 0));
}

TEST(GpuProducts, Without_memory_they_are_done_element_by_element) {
  Target target = target_for(Dialect::vulkan);
  target.shared_bytes = 512;
  EXPECT_FALSE(has_blocks(compile::gpu::print(plain(), target, Form::many)));
}

TEST(GpuProducts, Blocks_need_hardly_more_steps_than_elements) {
  const ir::Program program = plain();
  Target target = target_for(Dialect::vulkan);
  target.most_steps = compile::gpu::mesa_most_steps;
  const std::int64_t dims[] = {64, 64, 64, 10000, 10000, 64};
  const std::int64_t blocks = compile::gpu::print(program, target, Form::many).steps(program, dims, nullptr);
  EXPECT_LE(blocks, compile::gpu::print(program, target, Form::few).steps(program, dims, nullptr) * 5 / 4);
  EXPECT_GE(blocks, 10000 / 4);
}

// ---- On devices

// Numbers that wrap around when they are multiplied.
std::vector<std::int32_t> numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>((seed = seed * 1664525 + 1013904223) >> 4);
  return values;
}

struct Size {
  std::int64_t m, k, n;
};

std::vector<std::int32_t> run(const Device& device, const tile::Kernel& kernel, const Size& size) {
  const Buffer a = device.buffer<std::int32_t>(numbers(size.m * size.k, 1), {size.m, size.k});
  const Buffer b = device.buffer<std::int32_t>(numbers(size.k * size.n, 2), {size.k, size.n});
  const Buffer z = device.buffer<std::int32_t>(numbers(size.m * size.n, 3), {size.m, size.n});
  device.run(kernel, {a, b}, z);
  return z.read<std::int32_t>();
}

using In = tile::In<std::int32_t>;
using Out = tile::Out<std::int32_t>;

// In one mma over all of the inner axis, on top of something.
const auto whole = tile::kernel("whole", [](Out z, In a, In b) {
  const auto x = a.load({z.tile_dim(0), a.dim(1)}, {z.block(0), 0});
  const auto y = b.load({a.dim(1), z.tile_dim(1)}, {0, z.block(1)});
  z.store(tile::mma(x, y, tile::cast<std::int32_t>(z.index(0) * 1000 + z.index(1))));
});

// With something before and after it, and tiles of the inner axis that are no block's.
const auto between = tile::kernel("between", [](Out z, In a, In b) {
  constexpr int k_tile = 7;
  const auto product = tile::loop(tile::ceil_div(a.dim(1), k_tile), tile::zeros_like(z), [&](tile::Index k, auto sum) {
    const auto x = a.load({z.tile_dim(0), k_tile}, {z.block(0), k});
    const auto y = b.load({k_tile, z.tile_dim(1)}, {k, z.block(1)});
    return tile::mma(x + 1, y * 3, sum);
  });
  z.store(max(product, 5) - tile::cast<std::int32_t>(z.index(1)));
});

TEST(GpuProducts, Give_the_results_of_the_CPU_at_all_sizes) {
  const Device cpu = Device::open("cpu");
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const Device device = Device::open(info.backend);
    for (const Size& size :
         test::sampled<Size>({{16, 1, 16}, {17, 0, 19}, {64, 32, 64}, {33, 65, 131}, {129, 7, 16}}, 2)) {
      SCOPED_TRACE(info.backend + ": " + std::to_string(size.m) + " x " + std::to_string(size.k) + " x " +
                   std::to_string(size.n));
      EXPECT_EQ(run(device, whole, size), run(cpu, whole, size));
      EXPECT_EQ(run(device, between, size), run(cpu, between, size));
    }
  }
}

}  // namespace
}  // namespace tessera
