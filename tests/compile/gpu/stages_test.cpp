// Kernels that a workgroup computes in stages: the barriers between them, and the results on every device.
#include <tessera/tessera.hpp>

#include "compile/gpu/printer.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace tessera {
namespace {

using compile::gpu::Dialect;
using compile::gpu::Form;
using compile::gpu::Target;

std::string printed(Dialect dialect, int tile_group) {
  const ir::Program program =
      tile::trace("squares", {{"z", ir::Type::f32, {-1, 1}}, {"x", ir::Type::f32, {-1, -1}}}, {},
                  [] {
                    const tile::Output z;
                    const tile::Input x(0);
                    const tile::Tile rows = x.load({z.tile_dim(0), x.dim(1)}, {z.block(0), 0});
                    z.store(tile::reduce_sum(rows * rows, 1));
                  },
                  {4, 1});
  Target target;
  target.dialect = dialect;
  target.has_u8 = true;
  target.tile_group = tile_group;
  return compile::gpu::print(program, target, Form::many).source;
}

TEST(GpuStages, Have_barriers_between_them_unless_there_is_a_single_invocation) {
  for (const auto& [dialect, barrier] : {std::pair(Dialect::vulkan, "barrier()"),
                                         {Dialect::gles, "barrier()"},
                                         {Dialect::opencl, "barrier("},
                                         {Dialect::cuda, "__syncthreads"}}) {
    EXPECT_NE(printed(dialect, 128).find(barrier), std::string::npos) << printed(dialect, 128);
    EXPECT_EQ(printed(dialect, 1).find(barrier), std::string::npos) << printed(dialect, 1);
  }
}

// Carries numbers and a row from one iteration to the next. PoCL skipped the copies of the numbers.
const auto carried =
    tile::kernel("carried", [](tile::Out<float> z, tile::In<float> x, tile::Scalar<std::int32_t, "s"> s) {
      const tile::Tile number = s + s;
      const tile::Tile row = tile::broadcast(x.at({tile::constant<std::int64_t>(0)}) * 2, {z.dim(0)});
      const auto [one, other, last] =
          tile::loop(1, std::tuple(number, number, row), [](const tile::Index&, const auto& carry) {
            const auto& [a, b, c] = carry;
            return std::tuple(b, b, c);
          });
      z.store(tile::cast<float>(other));
    });

TEST(GpuStages, Copy_what_a_loop_carries) {
  for (const DeviceInfo& info : Device::devices()) {
    SCOPED_TRACE(info.backend);
    const Device device = Device::open(info.backend);
    const Buffer z = device.zeros({2, 2, 2, 1});
    device.run(carried, {device.buffer<float>({-1}, {1})}, z, {{"s", 21}});
    EXPECT_EQ(z.read<float>(), std::vector<float>(8, 42));
  }
}

}  // namespace
}  // namespace tessera
