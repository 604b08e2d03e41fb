#include "compile/dump.hpp"

#include <tessera/tessera.hpp>

#include "compile/passes/fuse.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tessera {
namespace {

class Dump : public testing::Test {
 protected:
  void TearDown() override { unsetenv("TESSERA_DUMP"); }

  // What TESSERA_DUMP shows for a kernel that no other test has compiled.
  static std::string shown(const char* wanted, const Device& device, float number) {
    const auto kernel =
        tile::kernel("dumped", [number](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) * number); });
    const Buffer x = device.buffer<float>({1, 2, 3}), z = device.zeros({3});
    setenv("TESSERA_DUMP", wanted, 1);
    testing::internal::CaptureStderr();
    device.run(kernel, {x}, z);
    unsetenv("TESSERA_DUMP");
    return testing::internal::GetCapturedStderr();
  }
  static bool has(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }
};

TEST_F(Dump, Steps_are_listed_with_commas_or_all) {
  const auto wants = [](const char* list, std::string_view step) {
    setenv("TESSERA_DUMP", list, 1);
    return compile::dump_wants(step);
  };
  EXPECT_FALSE(compile::dump_wants("ir"));
  EXPECT_FALSE(wants("", "ir"));
  EXPECT_TRUE(wants("ir", "ir"));
  EXPECT_FALSE(wants("ir", "gpu"));
  EXPECT_TRUE(wants("ir,gpu", "ir"));
  EXPECT_TRUE(wants("ir,gpu", "gpu"));
  EXPECT_FALSE(wants("ir,gpus", "gpu"));
  EXPECT_TRUE(wants("all", "gpu"));
}

TEST_F(Dump, An_unknown_step_is_reported_once_with_the_known_ones) {
  setenv("TESSERA_DUMP", "ir,bogus", 1);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(compile::dump_wants("ir"));
  EXPECT_FALSE(compile::dump_wants("gpu"));
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "TESSERA_DUMP: unknown step 'bogus'; the steps are fuse, deinterleave, split, ir, tiles, ranges, values, llvm, "
      "asm, gpu, or all\n");
}

TEST_F(Dump, The_text_for_a_GPU_is_shown) {
  float number = 1.5F;
  for (const DeviceInfo& info : Device::devices()) {
    if (info.backend == "cpu") continue;
    const Device device = Device::open(info.backend);
    const std::string text = shown("gpu", device, number += 1);
    EXPECT_TRUE(has(text, "== dumped: gpu\n")) << info.backend << '\n' << text;
    EXPECT_TRUE(has(text, info.backend == "opencl" ? " kernel_main(" : "void main() {")) << text;
    EXPECT_FALSE(has(text, "== dumped: ir\n")) << text;
    const std::string all = shown("all", device, number += 1);
    EXPECT_TRUE(has(all, "== dumped: ir\n")) << all;
    EXPECT_TRUE(has(all, "== dumped: gpu\n")) << all;
    EXPECT_EQ(shown("llvm", device, number += 1), "");
  }
}

TEST_F(Dump, Programs_and_tiles_are_shown_on_the_processor) {
  const Device cpu = Device::open("cpu");
  const std::string text = shown("ir,tiles", cpu, 0.5F);
  EXPECT_TRUE(has(text, "== dumped: ir\n")) << text;
  EXPECT_TRUE(has(text, "== dumped: tiles\n")) << text;
  EXPECT_EQ(shown("gpu", cpu, 0.25F), "");
}

TEST_F(Dump, All_shows_every_step_of_the_processor_in_order) {
  const Device cpu = Device::open("cpu");
  const std::string all = shown("all", cpu, 0.125F);
  std::size_t last = 0;
  for (const char* step : {"ir", "tiles", "ranges", "values", "llvm", "asm"}) {
    const std::size_t at = all.find(std::string("== dumped: ") + step + "\n");
    if (at == std::string::npos && (step == std::string("llvm") || step == std::string("asm"))) continue;  // no LLVM
    ASSERT_NE(at, std::string::npos) << step << '\n' << all;
    EXPECT_GE(at, last) << step;
    last = at;
  }
}

TEST_F(Dump, Fusion_shows_the_program_or_why_there_is_none) {
  const auto scale = tile::trace("scale", {{"z", ir::Type::f32, {-1}}, {"x", ir::Type::f32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(load_like(tile::Input(0), z) * 2.0F);
  });
  const auto fused = [&](const ir::Program& reader) {
    setenv("TESSERA_DUMP", "fuse", 1);
    testing::internal::CaptureStderr();
    compile::fuse(reader, 1, scale, std::vector{-1});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(has(fused(scale), "== scale+scale: fuse\nkernel scale+scale(")) << fused(scale);
  ir::Program tiled = scale;
  tiled.tile = {16};
  EXPECT_EQ(fused(tiled), "== scale+scale: fuse\nnot fused: its tiles are fixed\n");
}

}  // namespace
}  // namespace tessera
