// A pipeline whose code was unloaded, since it was not used for long.
#include <tessera/tessera.hpp>

#include "compile/cpu/evictable_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera {
namespace {

TEST(Unloaded_code, A_replayed_pipeline_loads_it_on_a_worker_and_not_under_the_lock) {
  const Device device = Device::open("cpu");
  const Buffer in = device.buffer<float>(std::vector<float>{1, -2, 3}), out = device.zeros({3});
  Pipeline pipeline(device);
  pipeline.add("relu", {in}, out).barrier().add("neg", {out}, out);
  const auto compiling = [&] {
    std::chrono::nanoseconds sum{0};
    for (const StageTime& stage : pipeline.last_run().stages) sum += stage.compiling;
    return sum.count();
  };
  // Some of the runs on the submitting thread are timed, the last of them without compiling.
  for (int i = 0; i < 100; ++i) pipeline.run();
  EXPECT_EQ(compiling(), 0);
  const std::uint64_t before = pipeline.last_run().run;
  compile::cpu::set_code_limit(0);
  compile::cpu::set_code_limit(0);  // what was used since the last time is spared once
  pipeline.run();
  compile::cpu::set_code_limit(compile::cpu::usual_code_limit);
  EXPECT_GT(pipeline.last_run().run, before);
  EXPECT_GT(compiling(), 0);  // as work of its own, which is always timed
  EXPECT_EQ(out.read<float>(), (std::vector<float>{-1, 0, -3}));
}

}  // namespace
}  // namespace tessera
