// Pipelines: recording, results, and every mistake that can be made.
#include <tessera/tessera.hpp>

#include "support/depth.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

static_assert(!std::is_copy_constructible_v<Pipeline> && std::is_nothrow_move_constructible_v<Pipeline>);

class Pipelines : public testing::TestWithParam<bool> {
 protected:
  Device device = GetParam() ? Device::simulated({.seed = 7}) : Device::best();
  Buffer a = device.buffer<float>({1, -2, 3, -4});
  Buffer b = device.zeros({4});
  Buffer c = device.zeros({4});
  Pipeline pipeline{device};
};
INSTANTIATE_TEST_SUITE_P(On, Pipelines, testing::Bool(),
                         [](const auto& given) { return given.param ? "simulated" : "cpu"; });

TEST_P(Pipelines, Stages_run_in_the_order_of_their_buffers) {
  pipeline.add("relu", {a}, b).add("scale", {b}, c, {{"factor", 10}}).add("elementwise_add", {b, c}, c);
  EXPECT_EQ(pipeline.stage_count(), 3U);
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({1, 0, 3, 0}));
  EXPECT_EQ(c.read<float>(), Floats({11, 0, 33, 0}));
  a.write<float>({2, 2, 2, 2});
  pipeline.submit().wait();
  EXPECT_EQ(c.read<float>(), Floats({22, 22, 22, 22}));
}

// The last stage combines a value derived from a temporary's old contents with the new contents.
TEST_P(Pipelines, A_temporary_that_is_written_again_is_two_values) {
  define_kernel("test_digits", {"a", "b", "c"}, "a + b * 10 + c * 100");
  const Buffer x = device.buffer<float>({1, 2, 3, 4}), y = device.buffer<float>({5, 6, 7, 8});
  const Buffer t = pipeline.temporary({4}), twice = pipeline.temporary({4});
  const auto square = [](const Buffer& buffer) { return buffer.reshape({2, 2}); };
  pipeline.add("neg", {x}, t)
      .add("scale", {t}, twice, {{"factor", 2}})
      .add("abs", {t}, b)
      .add("scale", {y}, t, {{"factor", 3}})
      .add("test_digits", {square(t), square(twice), square(t)}, square(c));
  for (int round = 0; round < 3; ++round) {
    pipeline.run();
    EXPECT_EQ(b.read<float>(), Floats({1, 2, 3, 4}));
    EXPECT_EQ(c.read<float>(), Floats({1495, 1778, 2061, 2344}));
  }
}

// Integers, so that the order of summation does not matter; sizes that are split along one axis or both, and a batch.
TEST_P(Pipelines, Stages_after_a_product_apply_to_each_of_its_parts) {
  const auto numbers = [&](const Shape& shape, int step) {
    Floats values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i) * step % 19 - 9);
    return device.buffer<float>(values, shape);
  };
  struct Product {
    Shape a, b, result;
  };
  for (const auto& [x, y, result] : {Product{{301, 67}, {67, 259}, {301, 259}}, Product{{9, 800}, {800, 400}, {9, 400}},
                                     Product{{3, 140, 90}, {3, 90, 70}, {3, 140, 70}}}) {
    const std::int64_t rows = result[result.rank() - 2], columns = result[result.rank() - 1];
    for (const Shape& other : test::sampled<Shape>({result, Shape{columns}, Shape{rows, 1}, Shape{1}}, 1)) {
      const Buffer left = numbers(x, 7), right = numbers(y, 5), added = numbers(other, 3);
      Pipeline fused(device), unfused(device, {.fuse = false});
      const Buffer one = device.zeros(result), two = device.zeros(result);
      for (const auto& [stages, to] : {std::pair(&fused, one), std::pair(&unfused, two)}) {
        const Buffer product = stages->temporary(result), sum = stages->temporary(result);
        stages->add("matmul", {left, right}, product)
            .add("elementwise_add", {product, added}, sum)
            .add("relu", {sum}, to);
        stages->run();
      }
      EXPECT_EQ(one.read<float>(), two.read<float>()) << to_string(result) << " + " << to_string(other);
      EXPECT_NE(fused.explain().find("in 1 group"), std::string::npos) << fused.explain();
    }
  }
}

// Even where the device cannot compute in them.
TEST_P(Pipelines, Elements_of_all_types_are_filled_and_copied) {
  for (const DType dtype : all_dtypes) {
    const Buffer out = device.zeros({5}, dtype);
    Pipeline moves(device);
    const Buffer first = moves.temporary({5}, dtype), second = moves.temporary({5}, dtype);
    moves.fill(first, 3).copy(first, second).copy(second, out).run();
    const Buffer same = device.zeros({5}, dtype);
    device.run("fill", {}, same, {{"value", 3}});
    EXPECT_EQ(out.read_bytes(), same.read_bytes()) << to_string(dtype);
  }
}

// Fusion computes a box of the producer's output, which need not start at the buffer's origin.
TEST_P(Pipelines, Neighbours_outside_are_zero_regardless_of_the_fused_producer) {
  const auto box = tile::kernel("zero_box", [](tile::Out<float> z, tile::In<float> x) {
    tile::Tile sum = tile::zeros_like(z);
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) sum = sum + tile::load_shifted(x, z, {dy, dx});
    }
    z.store(sum);
  });
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 5}, Shape{3, 1100}, Shape{300, 7}, Shape{480, 640}}) {
    const std::int64_t rows = shape[0], columns = shape[1];
    std::vector<float> values(shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
    const Buffer x = device.buffer<float>(values, shape), z = device.zeros(shape);
    Pipeline boxes(device);
    const Buffer doubled = boxes.temporary(shape), once = boxes.temporary(shape);
    boxes.add("brightness_contrast", {x}, doubled, {{"contrast", 2}, {"brightness", 0.5}})
        .add(box, {doubled}, once)
        .add(box, {once}, z)
        .run();

    const auto boxed = [&](const std::vector<float>& of) {
      std::vector<float> sums(of.size());
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          float sum = 0;
          for (std::int64_t y = std::max<std::int64_t>(i - 1, 0); y <= std::min(i + 1, rows - 1); ++y) {
            for (std::int64_t k = std::max<std::int64_t>(j - 1, 0); k <= std::min(j + 1, columns - 1); ++k) {
              sum += of[static_cast<std::size_t>(y * columns + k)];
            }
          }
          sums[static_cast<std::size_t>(i * columns + j)] = sum;
        }
      }
      return sums;
    };
    for (float& value : values) value *= 2;
    EXPECT_EQ(z.read<float>(), boxed(boxed(values))) << to_string(shape);
  }
}

TEST_P(Pipelines, A_temporary_that_is_updated_in_place_is_fused) {
  const Buffer t = pipeline.temporary({4});
  pipeline.add("scale", {a}, t, {{"factor", 2}}).add("relu", {t}, t).add("elementwise_add", {t, a}, b);
  EXPECT_NE(pipeline.explain().find("3 stages in 1 group"), std::string::npos) << pipeline.explain();
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({3, -2, 9, -4}));
}

TEST_P(Pipelines, A_chain_may_use_more_buffers_than_a_launch_can) {
  Buffer sum = a;
  for (int i = 0; i < 100; ++i) {
    const Buffer next = i < 99 ? pipeline.temporary({4}) : b;
    pipeline.add("elementwise_add", {sum, device.buffer<float>({1, 2, 3, 4})}, next);
    sum = next;
  }
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({101, 198, 303, 396}));
}

TEST_P(Pipelines, All_problems_of_a_stage_are_reported) {
  const auto message = [](Pipeline& of) {
    try {
      of.compile();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Buffer five = device.zeros({5}), t = pipeline.temporary({4});
  pipeline.add("relu", {five}, b, {{"slop", 1}, {"x", 2}, {"slope", 0.5}})
      .add("elementwise_add", {Buffer(), t}, b, {{"extra", 1}})
      .add("relu", {a, a}, b, {{"slope", "steep"}})
      .add({.op = StageOp::barrier, .kernel = "relu", .inputs = {a}, .output = b})
      .add({.kernel = "relu", .inputs = {a}, .output = b, .outputs = {c}});
  const std::string told = message(pipeline);
  EXPECT_EQ(told.substr(0, 21), "pipeline: 10 problems") << told;
  for (const char* words : {"'slop'", "'x'", "stage 0 [relu]: input 0", "input 0 is an empty buffer handle", "'extra'",
                            "input 1, temporary 0, is read before", "'slope'", "takes 1 input, got 2",
                            "a barrier takes neither", "only a call takes `outputs`"}) {
    EXPECT_NE(told.find(words), std::string::npos) << words << " in " << told;
  }
}

TEST_P(Pipelines, All_wrong_types_and_shapes_are_reported) {
  const Buffer five = device.zeros({5}), whole = device.zeros({4}, s32), image = device.zeros({4, 4, 3}, s32);
  const auto both = tile::kernel("both", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
    z.store(load_like(x, z) + load_like(y, z));
  });
  pipeline.add("elementwise_add", {five, five}, b)
      .add("elementwise_add", {whole, five}, b)
      .add(both, {whole, whole}, whole)
      .add("matmul", {device.zeros({2, 2}, s32), five}, b)
      .add("mix", {device.zeros({4, 4}, u8), image}, image);
  std::string told;
  try {
    pipeline.compile();
  } catch (const Error& error) {
    told = error.what();
  }
  for (const char* line :
       {"pipeline: 11 problems", "\n  stage 0 [elementwise_add]: input 0 (a) must be f32[4]",
        "\n  stage 0 [elementwise_add]: input 1 (b) must be f32[4]",
        "\n  stage 1 [elementwise_add]: input 0 (a) must be f32[4] like the output, got s32[4]",
        "\n  stage 1 [elementwise_add]: input 1 (b) must be f32[4]",
        "\n  stage 2 [both]: output must be f32[4], got s32[4]", "\n  stage 2 [both]: input 0 must be f32, got s32[4]",
        "\n  stage 2 [both]: input 1 must be f32, got s32[4]",
        "\n  stage 3 [matmul]: input 0 (a) must be f32, got s32[2,2]",
        "\n  stage 3 [matmul]: input 1 (b) must have rank", "\n  stage 4 [mix]: output must be",
        "\n  stage 4 [mix]: input 0"}) {
    EXPECT_NE(told.find(line), std::string::npos) << line << " in " << told;
  }
}

TEST_P(Pipelines, A_wrong_copy_between_devices_is_not_blamed_on_its_readers) {
  const Device other = Device::simulated({.seed = 3});
  const Buffer t = pipeline.temporary({4});
  pipeline.copy(other.zeros({5}), t).add("relu", {t}, b);
  expect_error(Errc::shape_mismatch, "pipeline: 1 problem:", [&] { pipeline.compile(); });
}

TEST_P(Pipelines, A_parameter_that_is_given_under_two_names_is_reported) {
  const Buffer x = device.zeros({2, 2}), y = device.zeros({2, 2});
  pipeline.add("sharpen", {x}, y, {{"amount", 1}, {"strength", 1}});
  expect_error(Errc::invalid_parameter, "stage 0 [sharpen]: 'amount' and 'strength' are the same parameter: give one",
               [&] { pipeline.compile(); });
}

TEST_P(Pipelines, All_problems_of_bindings_are_reported) {
  const Buffer frame = pipeline.slot("frame", {4}), mask = pipeline.slot("mask", {4});
  pipeline.add("elementwise_add", {frame, mask}, c);
  try {
    pipeline.run({{"fram", a}, {"mask", device.zeros({5})}, {"sigma", 1}});
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    const std::string told = error.what();
    for (const char* words :
         {"pipeline: 4 problems:", "'fram'", "'sigma'", "'mask' must be", "'frame', f32[4], has no"}) {
      EXPECT_NE(told.find(words), std::string::npos) << words << " in " << told;
    }
  }
}

TEST_P(Pipelines, Writing_a_value_that_is_never_read_is_a_warning) {
  const Buffer t = pipeline.temporary({4});
  pipeline.fill(t, 1).fill(t, 2).copy(t, b).fill(t, 3).fill(c, 1).fill(c, 2);
  const std::vector<std::string> warnings = pipeline.warnings();
  ASSERT_EQ(warnings.size(), 3U);
  EXPECT_EQ(warnings[0], "stage 0 [fill]: its output, temporary 0, is never read");
  EXPECT_EQ(warnings[1], "stage 3 [fill]: its output, temporary 0, is never read");
  EXPECT_EQ(warnings[2].substr(0, 14), "stage 4 [fill]");
}

TEST_P(Pipelines, An_empty_pipeline_runs) {
  pipeline.run();
  const Command command = pipeline.submit();
  command.wait();
  EXPECT_EQ(command.poll(), Status::completed);
  EXPECT_EQ(pipeline.explain().substr(0, 30), "pipeline: 0 stages in 0 groups");
}

TEST_P(Pipelines, Every_stage_operation_can_be_added_as_a_struct) {
  pipeline.add({.op = StageOp::run_kernel, .kernel = "relu", .inputs = {a}, .output = b, .params = {{"slope", 0.5}}})
      .add({.op = Stage::copy_buffer, .inputs = {b}, .output = c})
      .add({.op = Stage::barrier})
      .fill(a, 7)
      .call("halve",
            [](HostCall& call) {
              for (std::size_t i = 0; i < 4; ++i) call.output<float>(0)[i] = call.input<float>(0)[i] / 2;
            },
            {c}, {b});
  pipeline.run();
  EXPECT_EQ(a.read<float>(), Floats({7, 7, 7, 7}));
  EXPECT_EQ(c.read<float>(), Floats({1, -1, 3, -2}));
  EXPECT_EQ(b.read<float>(), Floats({0.5F, -0.5F, 1.5F, -1}));
  const std::vector<Stage> stages = pipeline.stages();
  ASSERT_EQ(stages.size(), 5U);
  EXPECT_EQ(stages[0].kernel, "relu");
  EXPECT_EQ(stages[1].op, StageOp::copy_buffer);
  EXPECT_EQ(to_string(stages[2].op), "barrier");
  EXPECT_EQ(stages[3].params.find("value")->integer(), 7);
  EXPECT_EQ(stages[4].op, StageOp::call);
}

TEST_P(Pipelines, User_kernels_can_be_stages) {
  const auto twice = tile::kernel("twice_in_a_pipeline", [](tile::Out<float> out, tile::In<float> in) {
    out.store(tile::load_like(in, out) * 2.0F);
  });
  pipeline.add(twice, {a}, b);
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({2, -4, 6, -8}));
}

TEST_P(Pipelines, Temporaries_carry_values_between_stages) {
  const Buffer t = pipeline.temporary({4}), u = pipeline.temporary({2, 2});
  EXPECT_FALSE(t.is_freed());
  EXPECT_EQ(t.shape(), Shape(4));
  pipeline.add("relu", {a}, t).copy(t.reshape({2, 2}), u).add("neg", {u.reshape({4})}, b);
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({-1, -0.0F, -3, -0.0F}));
}

TEST_P(Pipelines, Placeholders_cannot_be_used_elsewhere) {
  Buffer t = pipeline.temporary({4});
  const Buffer s = pipeline.slot("frame", {4});
  const std::string temporary = "is a temporary of a pipeline", slot = "is the slot 'frame' of a pipeline";
  expect_error(Errc::invalid_argument, "[relu] input 0 " + temporary, [&] { device.run("relu", {t}, b); });
  expect_error(Errc::invalid_argument, "[relu] output " + slot, [&] { device.run("relu", {a}, s); });
  expect_error(Errc::invalid_argument, temporary, [&] { device.submit("relu", {t}, b).wait(); });
  expect_error(Errc::invalid_argument, temporary, [&] { t.read<float>(); });
  expect_error(Errc::invalid_argument, temporary, [&] { t.write<float>({1, 2, 3, 4}); });
  expect_error(Errc::invalid_argument, temporary, [&] { t.map<float>(); });
  expect_error(Errc::invalid_argument, temporary, [&] { t.free(); });
  expect_error(Errc::invalid_argument, temporary, [&] { free_many({a, t}); });
  EXPECT_FALSE(a.is_freed());
  Pipeline other(device);
  other.add("relu", {t}, b);
  expect_error(Errc::invalid_argument, "stage 0 [relu]: input 0 " + temporary, [&] { other.compile(); });
  const Value p = pipeline.param("slope", 0.5);
  expect_error(Errc::invalid_parameter, "a parameter of a pipeline",
               [&] { device.run("relu", {a}, b, {{"slope", p}}); });
}

TEST_P(Pipelines, Slots_and_parameters_are_bound_per_run) {
  const Buffer in = pipeline.slot("in", {4}), out = pipeline.slot("out", {4});
  const Buffer t = pipeline.temporary({4});
  pipeline.add("relu", {in}, t, {{"slope", pipeline.param("slope", 0)}})
      .add("scale", {t}, out, {{"factor", pipeline.param("factor", 1.0)}});
  pipeline.run({{"in", a}, {"out", b}});
  EXPECT_EQ(b.read<float>(), Floats({1, 0, 3, 0}));
  pipeline.run({{"out", c}, {"in", a}, {"factor", 10}});
  EXPECT_EQ(c.read<float>(), Floats({10, 0, 30, 0}));
  pipeline.submit({{"in", c}, {"out", b}, {"slope", 0.5}, {"factor", -1.0}}).wait();
  EXPECT_EQ(b.read<float>(), Floats({-10, 0, -30, 0}));
  pipeline.run({{"in", a}, {"out", b}});
  EXPECT_EQ(b.read<float>(), Floats({1, 0, 3, 0}));
  const std::vector<Binding> many = {{"in", a}, {"out", c}, {"factor", 2}};
  pipeline.run(many);
  EXPECT_EQ(c.read<float>(), Floats({2, 0, 6, 0}));
}

TEST_P(Pipelines, Negative_zero_is_a_distinct_parameter_value) {
  pipeline.fill(b, pipeline.param("value", 0.0));
  pipeline.run({{"value", 0.0}});
  EXPECT_FALSE(std::signbit(b.read<float>()[0]));
  pipeline.run({{"value", -0.0}});
  EXPECT_TRUE(std::signbit(b.read<float>()[0]));
}

// A kernel's body runs whenever its program is needed; grouping stages needs it.
TEST_P(Pipelines, A_new_value_that_is_only_a_scalar_does_not_group_the_stages_again) {
  std::atomic<int> traced = 0;
  const auto times =
      tile::kernel("times", [&traced](tile::Out<float> z, tile::In<float> x, tile::Scalar<float, "by"> by) {
        ++traced;
        z.store(load_like(x, z) * by);
      });
  const Buffer t = pipeline.temporary({4}), u = pipeline.temporary({4});
  pipeline.add(times, {a}, t, {{"by", pipeline.param("by", 2)}})
      .add("neg", {t}, u)
      .add("scale", {u}, b, {{"factor", pipeline.param("factor", 10)}});
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({-20, 40, -60, 80}));
  const int before = traced;
  pipeline.run({{"by", 3}});
  EXPECT_EQ(b.read<float>(), Floats({-30, 60, -90, 120}));
  pipeline.run({{"by", 4}, {"factor", 100}});
  EXPECT_EQ(b.read<float>(), Floats({-400, 800, -1200, 1600}));
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({-20, 40, -60, 80}));
  EXPECT_EQ(traced, before);
}

TEST_P(Pipelines, A_new_value_that_leaves_a_fused_stage_fewer_scalars_makes_a_plan_of_its_own) {
  Bytes pixels(16 * 16 * 4);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const Buffer image = device.buffer<std::uint8_t>(pixels, {16, 16, 4});
  const Buffer blurred = pipeline.temporary({16, 16, 4}, u8), gray = device.zeros({16, 16}, u8);
  pipeline.add("gaussian_blur", {image}, blurred, {{"radius", pipeline.param("radius", 3)}, {"sigma", 1.5}})
      .add("grayscale", {blurred}, gray);
  const Buffer alone = device.zeros({16, 16, 4}, u8), expected = device.zeros({16, 16}, u8);
  for (const int radius : {3, 1, 0, 2, 3}) {
    pipeline.run({{"radius", radius}});
    device.run("gaussian_blur", {image}, alone, {{"radius", radius}, {"sigma", 1.5}});
    device.run("grayscale", {alone}, expected);
    EXPECT_EQ(gray.read<std::uint8_t>(), expected.read<std::uint8_t>()) << radius;
  }
}

TEST_P(Pipelines, Parameters_that_are_compiled_in_make_plans_of_their_own) {
  const Buffer image = device.buffer<std::uint8_t>(Bytes(16 * 16 * 4, 100), {16, 16, 4});
  const Buffer out = device.zeros({16, 16, 4}, u8), expected = device.zeros({16, 16, 4}, u8);
  pipeline.add("gaussian_blur", {image}, out,
               {{"radius", pipeline.param("radius", 1)}, {"sigma", pipeline.param("sigma", 1.5)}});
  for (int round = 0; round < 3; ++round) {
    for (int radius = 1; radius <= 4; ++radius) {
      const double sigma = 0.5 + round;
      pipeline.run({{"radius", radius}, {"sigma", sigma}});
      device.run("gaussian_blur", {image}, expected, {{"radius", radius}, {"sigma", sigma}});
      ASSERT_EQ(out.read<std::uint8_t>(), expected.read<std::uint8_t>());
    }
  }
  for (int i = 0; i < 50; ++i) pipeline.run({{"sigma", 1 + i * 0.01}});  // more variants than are retained
}

TEST_P(Pipelines, Wrong_bindings_are_reported_and_submit_poisons_what_it_would_have_written) {
  const Buffer in = pipeline.slot("frame", {4});
  pipeline.add("scale", {in}, b, {{"factor", pipeline.param("sigma", 2)}});
  const auto wrong = [&](Errc code, std::string_view words, const Bindings& bindings) {
    expect_error(code, words, [&] { pipeline.run(bindings); });
    EXPECT_EQ(b.read<float>(), Floats({0, 0, 0, 0}));
    Command command = pipeline.submit(bindings);
    EXPECT_EQ(command.poll(), Status::failed);
    expect_error(code, words, [&] { command.wait(); });
    expect_error(code, words, [&] { b.read<float>(); });
    b.write(Floats({0, 0, 0, 0}));
  };
  wrong(Errc::invalid_argument, "the slot 'frame', f32[4], has no buffer in this run", {});
  wrong(Errc::unknown_parameter, "no slot or parameter 'fram', did you mean 'frame'?", {{"fram", a}});
  wrong(Errc::unknown_parameter, "did you mean 'sigma'?", {{"frame", a}, {"sigm", 2}});
  wrong(Errc::invalid_argument, "'frame' is a slot: bind a buffer", {{"frame", 1}});
  wrong(Errc::invalid_argument, "'sigma' is a parameter: bind a value", {{"frame", a}, {"sigma", a}});
  wrong(Errc::invalid_argument, "'frame' is bound twice", {{"frame", a}, {"frame", c}});
  wrong(Errc::shape_mismatch, "slot 'frame' must be f32[4], got f32[5]", {{"frame", device.zeros({5})}});
  wrong(Errc::dtype_mismatch, "must be f32[4], got s32[4]", {{"frame", device.zeros({4}, s32)}});
  wrong(Errc::wrong_device, "lives on another device", {{"frame", Device::simulated().zeros({4})}});
  wrong(Errc::invalid_argument, "is an empty handle", {{"frame", Buffer()}});
  wrong(Errc::invalid_argument, "is a temporary of a pipeline", {{"frame", pipeline.temporary({4})}});
  wrong(Errc::invalid_parameter, "stage 0 [scale]: parameter 'factor' must be a number, got a string",
        {{"frame", a}, {"sigma", "two"}});
  wrong(Errc::invalid_argument, "slot 'frame' is also buffer 0, and the pipeline writes it", {{"frame", b}});
  Buffer freed = device.zeros({4});
  freed.free();
  wrong(Errc::buffer_freed, "frame has been freed", {{"frame", freed}});
  pipeline.run({{"frame", a}});
  EXPECT_EQ(b.read<float>(), Floats({2, -4, 6, -8}));
}

TEST_P(Pipelines, Two_slots_may_be_the_same_buffer_if_both_are_only_read) {
  const Buffer x = pipeline.slot("x", {4}), y = pipeline.slot("y", {4}), z = pipeline.slot("z", {4});
  pipeline.add("elementwise_add", {x, y}, z);
  pipeline.run({{"x", a}, {"y", a}, {"z", b}});
  EXPECT_EQ(b.read<float>(), Floats({2, -4, 6, -8}));
  expect_error(Errc::invalid_argument, "slot 'z' is also x", [&] { pipeline.run({{"x", a}, {"y", b}, {"z", a}}); });
}

TEST_P(Pipelines, Every_problem_is_in_one_error_and_nothing_is_written) {
  Buffer freed = device.zeros({4});
  const Buffer image = device.zeros({4, 4, 4}, u8), never = pipeline.temporary({4});
  pipeline.fill(b, 9)
      .add("gaussian_blr", {image}, image)
      .add("relu", {a, a}, b)
      .add("relu", {a}, b, {{"slop", 1}})
      .add("relu", {a}, device.zeros({5}))
      .add("relu", {a}, device.zeros({4}, s32))
      .add("relu", {Device::simulated().zeros({4})}, b)
      .add("relu", {freed}, b)
      .add("relu", {Buffer()}, b)
      .add("gaussian_blur", {image}, image)
      .add("relu", {never}, b)
      .call([] {}, {}, {b, b})
      .copy(a, image)
      .add("scale", {a}, b, {{"factor", Value::parameter("unheard")}});
  freed.free();
  const std::vector<std::string> lines = {
      "pipeline: 13 problems:",
      "\n  stage 1 [gaussian_blr]: there is no kernel 'gaussian_blr', did you mean 'gaussian_blur'?",
      "\n  stage 2 [relu]: takes 1 input, got 2",
      "\n  stage 3 [relu]: has no parameter 'slop', did you mean 'slope'?",
      "\n  stage 4 [relu]: input 0 (x) must be f32[5]",
      "\n  stage 5 [relu]: input 0 (x) must be s32[4]",
      "\n  stage 6 [relu]: input 0, f32[4], lives on another device",
      "\n  stage 7 [relu]: input 0 has been freed",
      "\n  stage 8 [relu]: input 0 is an empty buffer handle",
      "\n  stage 9 [gaussian_blur]: output must not be input 0: the kernel reads neighbouring elements",
      "\n  stage 10 [relu]: input 0, temporary 0, is read before a stage has written it",
      "\n  stage 11 [call]: outputs 0 and 1 are the same buffer",
      "\n  stage 12 [copy]: ",
      "\n  stage 13 [scale]: the pipeline has no parameter 'unheard'",
  };
  for (const std::string& line : lines) {
    expect_error(Errc::unknown_kernel, line, [&] { pipeline.compile(); });
  }
  expect_error(Errc::unknown_kernel, lines[0], [&] { pipeline.run(); });
  expect_error(Errc::unknown_kernel, lines[0], [&] { pipeline.explain(); });
  EXPECT_EQ(b.read<float>(), Floats({0, 0, 0, 0}));
  expect_error(Errc::unknown_kernel, lines[0], [&] { pipeline.submit().wait(); });
  expect_error(Errc::unknown_kernel, lines[0], [&] { b.read<float>(); });
}

void (*no_function)() = nullptr;
void (*no_function_of_a_call)(HostCall&) = nullptr;

TEST_P(Pipelines, An_empty_function_is_refused_when_it_is_added) {
  expect_error(Errc::invalid_argument, "[call] its function is empty", [&] { pipeline.call(HostFunction(), {}, {b}); });
  for (const HostFunction& function :
       {HostFunction(no_function), HostFunction(no_function_of_a_call), HostFunction(std::function<void()>()),
        HostFunction(std::function<void(HostCall&)>())}) {
    expect_error(Errc::invalid_argument, "[count] its function is empty",
                 [&] { pipeline.call("count", function, {}, {b}); });
    expect_error(Errc::invalid_argument, "[count] its function is empty",
                 [&] { pipeline.add({.op = StageOp::call, .kernel = "count", .output = b, .function = function}); });
  }
  EXPECT_EQ(pipeline.stage_count(), 0U);
  pipeline.run();
}

TEST_P(Pipelines, At_most_a_hundred_problems_are_listed) {
  for (int i = 0; i < 1000; ++i) pipeline.add("relo", {a}, b);
  expect_error(Errc::unknown_kernel, "pipeline: 1000 problems:\n  stage 0 [relo]: ", [&] { pipeline.compile(); });
  expect_error(Errc::unknown_kernel, "\n  stage 99 [relo]: there is no kernel 'relo', did you mean 'relu'?",
               [&] { pipeline.compile(); });
  expect_error(Errc::unknown_kernel, "\n  and 900 more", [&] { pipeline.compile(); });
}

TEST_P(Pipelines, A_buffer_freed_after_compiling_is_reported) {
  pipeline.add("relu", {a}, b);
  pipeline.run();
  a.free();
  expect_error(Errc::buffer_freed, "buffer 0 has been freed", [&] { pipeline.run(); });
  expect_error(Errc::buffer_freed, "buffer 0 has been freed", [&] { pipeline.submit().wait(); });
}

TEST_P(Pipelines, A_temporary_that_is_never_read_is_a_warning) {
  pipeline.add("relu", {a}, pipeline.temporary({4})).add("relu", {a}, b);
  EXPECT_EQ(pipeline.warnings(), std::vector<std::string>({"stage 0 [relu]: its output, temporary 0, is never read"}));
  pipeline.run();
}

TEST_P(Pipelines, Stages_can_be_added_after_a_run) {
  pipeline.add("relu", {a}, b);
  pipeline.run();
  pipeline.add("scale", {b}, b, {{"factor", 3}});
  pipeline.run();
  EXPECT_EQ(b.read<float>(), Floats({3, 0, 9, 0}));
}

TEST_P(Pipelines, Names_of_slots_and_parameters_are_unique) {
  pipeline.slot("x", {4});
  pipeline.param("p", 1);
  expect_error(Errc::invalid_argument, "already has a slot 'x'", [&] { pipeline.slot("x", {4}); });
  expect_error(Errc::invalid_argument, "already has a slot 'x'", [&] { pipeline.param("x", 1); });
  expect_error(Errc::invalid_argument, "already has a parameter 'p'", [&] { pipeline.slot("p", {4}); });
  expect_error(Errc::invalid_argument, "needs a name", [&] { pipeline.slot("", {4}); });
  pipeline.fill(b, pipeline.param("p", 5));
  pipeline.run();
  EXPECT_EQ(b.read<float>()[0], 5);
}

TEST_P(Pipelines, Moving_leaves_an_empty_pipeline_and_clones_are_independent) {
  const Buffer t = pipeline.temporary({4});
  pipeline.add("relu", {a}, t).add("scale", {t}, b, {{"factor", 2}});
  Pipeline copy = pipeline.clone();
  copy.add("neg", {t}, c);
  Pipeline moved = std::move(pipeline);
  expect_error(Errc::invalid_argument, "[run] on a pipeline that was moved from", [&] { pipeline.run(); });
  expect_error(Errc::invalid_argument, "moved from", [&] { pipeline.add("relu", {a}, b); });
  EXPECT_EQ(moved.stage_count(), 2U);
  EXPECT_EQ(copy.stage_count(), 3U);
  moved.run();
  EXPECT_EQ(c.read<float>(), Floats({0, 0, 0, 0}));
  copy.run();
  EXPECT_EQ(c.read<float>(), Floats({-1, -0.0F, -3, -0.0F}));
  EXPECT_EQ(moved.device(), device);
}

TEST_P(Pipelines, A_pipeline_can_be_a_named_command) {
  const Buffer in = pipeline.slot("in", {4});
  pipeline.add("scale", {in}, b, {{"factor", pipeline.param("factor", 2)}});
  device.define_command("double", pipeline);
  pipeline.add("neg", {b}, b);  // not part of the command
  device.run("double", {{"in", a}});
  EXPECT_EQ(b.read<float>(), Floats({2, -4, 6, -8}));
  device.submit("double", {{"in", a}, {"factor", 3}}).wait();
  EXPECT_EQ(b.read<float>(), Floats({3, -6, 9, -12}));
  device.define_command("double", pipeline);
  device.submit("double", {{"in", a}}).wait();
  EXPECT_EQ(b.read<float>(), Floats({-2, 4, -6, 8}));
  expect_error(Errc::unknown_command, "no command 'doubel', did you mean 'double'?", [&] { device.run("doubel"); });
  const Command unknown = device.submit("doubel");
  EXPECT_EQ(unknown.poll(), Status::failed);
  expect_error(Errc::wrong_device, "another device", [&] { Device::simulated().define_command("x", pipeline); });
  Pipeline wrong(device);
  wrong.add("rleu", {a}, b);
  expect_error(Errc::unknown_kernel, "did you mean 'relu'?", [&] { device.define_command("wrong", wrong); });
  expect_error(Errc::unknown_command, "'wrong'", [&] { device.run("wrong"); });
}

TEST_P(Pipelines, Calls_see_typed_spans) {
  const Buffer t = pipeline.temporary({2, 2}), s = pipeline.slot("s", {2}, s32);
  pipeline.copy(a.reshape({2, 2}), t)
      .call(
          [&](HostCall& call) {
            EXPECT_EQ(call.input_shape(0), Shape(2, 2));
            EXPECT_EQ(call.output_shape(1), Shape(2));
            const auto values = call.input<float>(0);
            call.output<float>(0)[0] = std::accumulate(values.begin(), values.end(), 0.0F);
            call.output<std::int32_t>(1)[1] = call.output<std::int32_t>(1)[0] = 5;
            expect_error(Errc::dtype_mismatch, "input 0 is f32[2,2], not s32", [&] { call.input<std::int32_t>(0); });
            expect_error(Errc::count_mismatch, "output 2: the call has 2 outputs", [&] { call.output<float>(2); });
            expect_error(Errc::count_mismatch, "input 1", [&] { call.input_shape(1); });
          },
          {t}, {b, s});
  const Buffer numbers = device.zeros({2}, s32);
  pipeline.run({{"s", numbers}});
  EXPECT_EQ(b.read<float>()[0], -2);
  EXPECT_EQ(numbers.read<std::int32_t>(), std::vector<std::int32_t>({5, 5}));
}

TEST_P(Pipelines, A_call_cannot_wait_for_itself) {
  Buffer other = device.zeros({4});
  pipeline.call(
      [&](HostCall&) {
        const std::string words = "it would wait for itself";
        expect_error(Errc::invalid_argument, words, [&] { b.read<float>(); });
        expect_error(Errc::invalid_argument, words, [&] { b.write<float>({1, 2, 3, 4}); });
        expect_error(Errc::invalid_argument, words, [&] { b.map<float>(); });
        expect_error(Errc::invalid_argument, words, [&] { a.write<float>({1, 2, 3, 4}); });
        EXPECT_EQ(a.read<float>()[0], 1);  // the stage only reads it
        other.write<float>({5, 6, 7, 8});  // not used by the pipeline
        EXPECT_EQ(other.read<float>()[3], 8);
      },
      {a}, {b});
  pipeline.run();
}

TEST_P(Pipelines, Extents_of_zero_and_one_work) {
  for (const Shape& shape : {Shape{}, Shape(0), Shape(1), Shape(3, 0, 2), Shape(1, 1, 5)}) {
    Pipeline some(device);
    const Buffer t = some.temporary(shape), out = device.zeros(shape), in = device.zeros(shape);
    some.fill(t, 3).add("elementwise_add", {t, in}, out).barrier();
    some.run();
    EXPECT_EQ(out.read<float>(), Floats(static_cast<std::size_t>(shape.elements()), 3.0F)) << to_string(shape);
  }
}

TEST_P(Pipelines, Memory_of_temporaries_is_shared_and_counted) {
  const Device own = Device::simulated({.workers = 0});
  const Buffer in = own.zeros({1000}), out = own.zeros({1000});
  const std::size_t before = own.memory().in_use;
  {
    Pipeline chain(own);
    Buffer last = in;
    for (int i = 0; i < 9; ++i) {
      const Buffer t = chain.temporary({1000});
      chain.add("scale", {last}, t, {{"factor", 2}});
      last = t;
    }
    chain.add("scale", {last}, out, {{"factor", 2}});
    chain.compile();
    EXPECT_EQ(own.memory().in_use, before);
    chain.run();
    EXPECT_LE(own.memory().in_use, before + 2 * 4000);
    chain.run();
    EXPECT_LE(own.memory().in_use, before + 2 * 4000);
  }
  EXPECT_EQ(own.memory().in_use, before);
}

TEST_P(Pipelines, A_pipeline_may_be_used_from_many_threads) {
  const Buffer in = pipeline.slot("in", {4}), out = pipeline.slot("out", {4}), t = pipeline.temporary({4});
  pipeline.add("scale", {in}, t, {{"factor", pipeline.param("factor", 1)}}).add("elementwise_add", {t, in}, out);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const Buffer mine = device.zeros({4});
      for (int i = 0; i < 100; ++i) {
        const auto factor = static_cast<float>(thread * 7 + i % 5);
        const Command command = pipeline.submit({{"in", a}, {"out", mine}, {"factor", factor}});
        if (i % 3 == 0) command.wait();
        ASSERT_EQ(mine.read<float>(),
                  Floats({1.0F + factor, -2.0F - 2 * factor, 3.0F + 3 * factor, -4.0F - 4 * factor}));
        pipeline.stage_count();
      }
    });
  }
}

}  // namespace
}  // namespace tessera
