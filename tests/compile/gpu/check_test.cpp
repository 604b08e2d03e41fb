// A GPU reports what it cannot run before anything is compiled.
#include "compile/gpu/source.hpp"
#include "support/expect_error.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::compile::gpu {
namespace {

using tessera::test::expect_error;

// The sum of so many inputs.
ir::Program sum_of(int inputs, ir::Type type) {
  std::vector<ir::Buffer> buffers = {{"z", type, {-1}}};
  for (int i = 0; i < inputs; ++i) buffers.push_back({"x" + std::to_string(i), type, {-1}});
  return tile::trace("many", buffers, {}, [&] {
    const tile::Output z;
    tile::Tile sum = tile::load_like(tile::Input(0), z);
    for (int i = 1; i < inputs; ++i) sum = sum + tile::load_like(tile::Input(i), z);
    z.store(sum);
  });
}

Target small_device() {
  Target target;
  target.device = "A small one";
  target.dialect = Dialect::gles;
  target.most_buffers = 4;
  return target;
}

TEST(GpuCheck, More_buffers_than_a_kernel_can_use_are_refused) {
  check(sum_of(3, ir::Type::f32), small_device());
  expect_error(Errc::unsupported, "[many] uses 5 buffers at once, and A small one (gles) takes at most 4",
               [] { check(sum_of(4, ir::Type::f32), small_device()); });
}

TEST(GpuCheck, Types_that_the_device_lacks_are_refused) {
  expect_error(Errc::unsupported, "[many] z is f64, which A small one (gles) does not have",
               [] { check(sum_of(1, ir::Type::f64), small_device()); });
}

}  // namespace
}  // namespace tessera::compile::gpu
