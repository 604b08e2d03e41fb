// A fused program gives the same results as its writer and reader one after the other, interpreted and compiled, for
// any tiles.
#include "compile/passes/fuse.hpp"

#include "compile/compile.hpp"
#include "ir/interpret.hpp"
#include "kernels/kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace tessera::compile {
namespace {

// One stage of a chain: a kernel with the output of the one before it as its first input.
struct Link {
  std::string kernel;
  Shape output;
  DType dtype;
  Params params = {};
  std::vector<Shape> more_inputs = {};  // of the same type
};

struct Traced {
  ir::Program program;
  std::vector<Shape> shapes;  // as the program sees them
  std::vector<std::uint64_t> scalars;
};

Traced traced(const Link& link, const Shape& input, DType input_dtype) {
  const kernels::Kernel& kernel = kernels::find(link.kernel);
  kernels::Arguments arguments;
  kernel.bind(link.params, arguments);
  std::vector<kernels::Operand> inputs = {{input_dtype, &input}};
  for (const Shape& shape : link.more_inputs) inputs.push_back({input_dtype, &shape});
  const kernels::Call call{kernel, inputs, {link.dtype, &link.output}, {arguments.data(), arguments.size()}};
  const kernels::Lowering plan = kernel.lower(call);
  Traced result;
  result.shapes = plan.shapes;
  std::vector<std::vector<std::int64_t>> dims;
  for (const Shape& shape : plan.shapes) {
    auto& known = dims.emplace_back();
    for (const std::int64_t extent : shape) known.push_back(extent == 1 ? 1 : -1);
  }
  for (const auto& [buffer, axis] : plan.fixed) {
    dims[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)] =
        plan.shapes[static_cast<std::size_t>(buffer)][axis];
  }
  result.program = kernels::trace(call, plan, dims);
  for (const kernels::Lowering::Scalar& scalar : plan.scalars) {
    result.scalars.push_back(is_float(scalar.dtype) ? std::bit_cast<std::uint64_t>(scalar.value.number)
                                                    : static_cast<std::uint64_t>(scalar.value.integer));
  }
  return result;
}

using Bytes = std::vector<std::byte>;

Bytes random_bytes(DType dtype, std::int64_t elements, std::mt19937_64& random) {
  Bytes bytes(static_cast<std::size_t>(elements) * size_of(dtype) + 64);
  for (std::int64_t i = 0; i < elements; ++i) {
    if (dtype == f32) {
      const float value = static_cast<float>(random() % 2000) / 100 - 10;
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(random());
    }
  }
  return bytes;
}

std::vector<std::int64_t> flat(const std::vector<Shape>& shapes) {
  std::vector<std::int64_t> dims;
  for (const Shape& shape : shapes) dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

struct Whole {
  Traced traced;
  std::vector<std::byte*> buffers;
};

void interpret_with(const Traced& traced, const std::vector<std::byte*>& buffers, const Tiling& tiling) {
  const std::vector<std::int64_t> dims = flat(traced.shapes);
  const std::span<const std::int64_t> output(dims.data(), static_cast<std::size_t>(traced.shapes[0].rank()));
  ir::interpret(traced.program, buffers, dims.data(), traced.scalars.data(), tiling.extents, 0, tiling.tiles(output));
}

void expect_same(const Bytes& expected, const Bytes& found, DType dtype, std::int64_t elements,
                 const std::string& what) {
  if (dtype != f32) {
    for (std::int64_t i = 0; i < elements * static_cast<std::int64_t>(size_of(dtype)); ++i) {
      ASSERT_EQ(expected[static_cast<std::size_t>(i)], found[static_cast<std::size_t>(i)]) << what << " at " << i;
    }
    return;
  }
  for (std::int64_t i = 0; i < elements; ++i) {
    float a = 0, b = 0;
    std::memcpy(&a, expected.data() + i * 4, 4);
    std::memcpy(&b, found.data() + i * 4, 4);
    ASSERT_NEAR(a, b, 1e-4 * std::max(1.0f, std::abs(a))) << what << " at " << i;
  }
}

// Fuses the whole chain; returns false where one of its links cannot be.
void expect_fuses(const Shape& first, DType first_dtype, const std::vector<Link>& links) {
  std::mt19937_64 random(1);
  Bytes input = random_bytes(first_dtype, first.elements(), random);
  std::vector<Bytes> kept;
  kept.reserve(64);
  std::vector<std::byte*> extra;

  // One after the other.
  Traced fused = traced(links[0], first, first_dtype);
  std::vector<std::byte*> fused_buffers = {nullptr, input.data()};
  for (std::size_t i = 0; i < links[0].more_inputs.size(); ++i) {
    kept.push_back(random_bytes(first_dtype, links[0].more_inputs[i].elements(), random));
    fused_buffers.push_back(kept.back().data());
  }
  Bytes last(static_cast<std::size_t>(links[0].output.elements()) * size_of(links[0].dtype) + 64);
  fused_buffers[0] = last.data();
  interpret_with(fused, fused_buffers, choose_tiling(fused.program));
  for (std::size_t i = 1; i < links.size(); ++i) {
    const Link& link = links[i];
    Traced reader = traced(link, links[i - 1].output, links[i - 1].dtype);
    kept.push_back(std::move(last));
    std::vector<std::byte*> buffers = {nullptr, kept.back().data()};
    for (const Shape& shape : link.more_inputs) {
      kept.push_back(random_bytes(links[i - 1].dtype, shape.elements(), random));
      buffers.push_back(kept.back().data());
    }
    last.assign(static_cast<std::size_t>(link.output.elements()) * size_of(link.dtype) + 64, std::byte{});
    buffers[0] = last.data();
    interpret_with(reader, buffers, choose_tiling(reader.program));

    const std::vector<int> same(fused.program.buffers.size() - 1, -1);
    Fused next = fuse(reader.program, 1, fused.program, same);
    ASSERT_TRUE(next.program) << link.kernel << ": " << next.reason;
    ir::verify(*next.program);
    buffers[1] = nullptr;  // nobody may read it
    for (std::size_t j = 0; j < next.writer_inputs.size(); ++j) {
      buffers.push_back(fused_buffers[j + 1]);
      reader.shapes.push_back(fused.shapes[j + 1]);
    }
    reader.scalars.insert(reader.scalars.end(), fused.scalars.begin(), fused.scalars.end());
    reader.program = std::move(*next.program);
    fused = std::move(reader);
    fused_buffers = buffers;
  }
  std::vector<Shape> shapes;
  std::vector<std::byte*> buffers;
  for (const int number : drop_unused_buffers(fused.program)) {
    shapes.push_back(fused.shapes[static_cast<std::size_t>(number)]);
    buffers.push_back(fused_buffers[static_cast<std::size_t>(number)]);
  }
  fused.shapes = shapes;
  ir::verify(fused.program);

  Bytes found(last.size());
  buffers[0] = found.data();
  const std::int64_t elements = links.back().output.elements();
  const DType dtype = links.back().dtype;
  Tiling tiling = choose_tiling(fused.program);
  interpret_with(fused, buffers, tiling);
  expect_same(last, found, dtype, elements, "interpreted");
  for (std::int64_t& extent : tiling.extents) extent = extent == 0 ? 0 : 5;
  std::ranges::fill(found, std::byte{});
  interpret_with(fused, buffers, tiling);
  expect_same(last, found, dtype, elements, "interpreted in small tiles");

  std::ranges::fill(found, std::byte{});
  const auto compiled = compile(fused.program);
  const std::vector<std::int64_t> dims = flat(fused.shapes);
  const Arguments arguments{buffers.data(), dims.data(), fused.scalars.data()};
  compiled->run(arguments, 0, compiled->tiles(arguments, static_cast<std::size_t>(fused.shapes[0].rank())));
  expect_same(last, found, dtype, elements, "compiled");
}

TEST(Fuse, Pointwise_writers_are_inlined) {
  expect_fuses({3, 50}, f32, {{"relu", {3, 50}, f32}, {"scale", {3, 50}, f32, {{"factor", 3}}}, {"exp", {3, 50}, f32}});
  expect_fuses({1000}, f32,
               {{"scale", {1000}, f32, {{"factor", 0.5}}}, {"elementwise_add", {1000}, f32, {}, {{1000}}}});
}

TEST(Fuse, Broadcasts) {
  expect_fuses({40}, f32, {{"relu", {40}, f32}, {"elementwise_add", {7, 40}, f32, {}, {{7, 1}}}});
}

TEST(Fuse, Reductions_are_computed_where_they_are_read) {
  expect_fuses({13, 100}, f32, {{"scale", {13, 100}, f32, {{"factor", 0.1}}}, {"softmax", {13, 100}, f32}});
  expect_fuses({13, 100}, f32, {{"exp", {13, 100}, f32}, {"reduce_sum", {13}, f32, {{"axis", 1}}}});
  expect_fuses({13, 100}, f32, {{"softmax", {13, 100}, f32}, {"scale", {13, 100}, f32, {{"factor", 2}}}});
}

TEST(Fuse, Stencils_read_parts) {
  const std::vector<Shape> sizes = {{5, 7, 4}, {1, 1, 4}, {70, 40, 4}, {2, 300, 4}, {1, 9, 4}, {9, 1, 4}};
  for (const Shape& size : sizes) {
    expect_fuses(
        size, u8,
        {{"gaussian_blur", size, u8, {{"radius", 3}, {"sigma", 1.5}}}, {"sharpen", size, u8, {{"amount", 0.5}}}});
    expect_fuses(size, u8,
                 {{"brightness_contrast", size, u8, {{"contrast", 1.5}}},
                  {"gaussian_blur", size, u8, {{"radius", 2}}},
                  {"box_blur", size, u8, {{"radius", 1}}}});
  }
}

TEST(Fuse, Stencils_with_mirrored_borders_read_parts) {
  for (const char* border : {"reflect", "reflect_101", "zero"}) {
    for (const Shape& size : std::vector<Shape>{{1, 1, 3}, {2, 3, 3}, {1, 40, 3}, {23, 19, 3}}) {
      expect_fuses(size, u8,
                   {{"gaussian_blur", size, u8, {{"radius", 2}, {"border", border}}},
                    {"sharpen", size, u8, {{"radius", 3}, {"sigma", 1.5}, {"border", border}}}});
    }
  }
  // What is read ahead of a point is mirrored to behind it.
  kernels::add(kernels::from_tile_kernel(tile::kernel("test_ahead", [](tile::Out<float> z, tile::In<float> x) {
    z.store(tile::load_shifted(x, z, {2, 3}, tile::Border::reflect) +
            2 * tile::load_shifted(x, z, {-1, 0}, tile::Border::symmetric));
  })));
  for (const Shape& size : std::vector<Shape>{{1, 2}, {2, 1}, {3, 4}, {1, 40}, {23, 37}}) {
    expect_fuses(size, f32, {{"gaussian_blur", size, f32, {{"radius", 2}}}, {"test_ahead", size, f32}});
  }
}

TEST(Fuse, A_border_that_wraps_around_does_not_read_parts) {
  const Shape size = {20, 30};
  const Traced writer = traced({"gaussian_blur", size, f32}, size, f32);
  const Traced reader = traced({"box_blur", size, f32, {{"border", "wrap"}}}, size, f32);
  const Fused fused = fuse(reader.program, 1, writer.program, std::vector{-1});
  EXPECT_FALSE(fused.program);
  EXPECT_EQ(fused.reason, "box_blur wraps around at the border, which reads elements far away");
}

TEST(Fuse, Blur_sharpen_and_grayscale_are_one) {
  const std::vector<Shape> sizes = {{5, 7, 4}, {1, 1, 4}, {18, 21, 4}, {2, 60, 3}, {70, 5, 3}};
  for (const Shape& size : sizes) {
    expect_fuses(size, u8,
                 {{"gaussian_blur", size, u8, {{"radius", 3}, {"sigma", 1.5}}},
                  {"sharpen", size, u8, {{"amount", 0.5}}},
                  {"grayscale", {size[0], size[1]}, u8}});
  }
}

// Of a chain from the last link on, what each link's output is read of alone is computed.
void expect_skips(const Shape& first, const std::vector<Link>& links) {
  std::mt19937_64 random(2);
  std::vector<Bytes> values = {random_bytes(u8, first.elements(), random)};
  std::vector<Traced> stages;
  for (std::size_t i = 0; i < links.size(); ++i) {
    stages.push_back(traced(links[i], i == 0 ? first : links[i - 1].output, u8));
    Bytes next(static_cast<std::size_t>(links[i].output.elements()) + 64);
    interpret_with(stages.back(), {next.data(), values.back().data()}, choose_tiling(stages.back().program));
    values.push_back(std::move(next));
  }
  Traced whole = stages.back();
  for (std::size_t i = links.size() - 1; i-- > 0;) {
    const int input = static_cast<int>(whole.program.buffers.size()) - 1;
    const Fused fused = fuse(whole.program, input, stages[i].program, std::vector{-1});
    ASSERT_TRUE(fused.program) << fused.reason;
    EXPECT_TRUE(fused.skips) << links[i].kernel;
    whole.program = *fused.program;
    whole.shapes.push_back(stages[i].shapes[1]);
    whole.scalars.insert(whole.scalars.end(), stages[i].scalars.begin(), stages[i].scalars.end());
  }
  Bytes found(values.back().size());
  std::vector<std::byte*> buffers(whole.program.buffers.size(), nullptr);
  buffers.front() = found.data();
  buffers.back() = values.front().data();
  const std::int64_t elements = links.back().output.elements();
  for (const bool is_apart : {false, true}) {
    if (is_apart) deinterleave_inputs(whole.program);
    ir::verify(whole.program);
    Tiling tiling = choose_tiling(whole.program);
    for (std::int64_t& extent : tiling.extents) extent = extent == 0 ? 0 : 5;
    constexpr std::int64_t few = 200;  // the interpreter takes its time
    if (elements < few) {
      interpret_with(whole, buffers, tiling);
      expect_same(values.back(), found, u8, elements, "interpreted in small tiles");
    }
    std::ranges::fill(found, std::byte{});
    const auto compiled = compile(whole.program);
    const std::vector<std::int64_t> dims = flat(whole.shapes);
    const Arguments arguments{buffers.data(), dims.data(), whole.scalars.data()};
    compiled->run(arguments, 0, compiled->tiles(arguments, 2));
    expect_same(values.back(), found, u8, elements, "compiled");
  }
}

TEST(Fuse, Elements_that_are_never_read_are_not_computed) {
  const std::vector<Shape> sizes = {{5, 7, 4}, {1, 1, 4}, {18, 21, 4}, {2, 300, 4}, {140, 40, 4}, {3, 1100, 4}};
  for (const Shape& size : sizes) {
    const Link gray = {"grayscale", {size[0], size[1]}, u8}, blur = {"gaussian_blur", size, u8, {{"radius", 3}}};
    const Link sharpen = {"sharpen", size, u8, {{"amount", 0.5}}}, box = {"box_blur", size, u8, {{"radius", 2}}};
    expect_skips(size, {blur, sharpen, gray});
    expect_skips(size, {box, gray});
    expect_skips(size, {{"brightness_contrast", size, u8, {{"contrast", 1.5}}}, blur, gray});
  }
}

TEST(Fuse, Elements_of_a_points_own_group_are_inlined) {
  const Shape size = {18, 21, 4};
  const Traced sharpen = traced({"sharpen", size, u8, {{"amount", 0.5}}}, size, u8);
  const Traced gray = traced({"grayscale", {18, 21}, u8}, size, u8);
  const Fused fused = fuse(gray.program, 1, sharpen.program, std::vector{-1});
  ASSERT_TRUE(fused.program) << fused.reason;
  const auto is_pick = [](const ir::Op& op) { return op.code == ir::Code::pick; };
  EXPECT_EQ(std::ranges::count_if(fused.program->ops, is_pick), 0);
  // What is read is four times as wide as the output, also for who is fused next.
  const int input = static_cast<int>(fused.program->buffers.size()) - 1;
  const ir::SameExtent wanted{input, 1, 1, 4};
  EXPECT_NE(std::ranges::find(fused.program->same_extents, wanted), fused.program->same_extents.end());
}

TEST(Fuse, Products_and_convolutions_have_pointwise_epilogues) {
  const auto expect_epilogue = [](const Shape& first, const std::vector<Link>& links) {
    const Traced writer = traced(links[0], first, f32);
    const Traced reader = traced(links[1], links[0].output, f32);
    const Fused fused =
        fuse(reader.program, 1, writer.program, std::vector<int>(writer.program.buffers.size() - 1, -1));
    ASSERT_TRUE(fused.program) << fused.reason;
    EXPECT_TRUE(fused.program->idiom.epilogue);
    expect_fuses(first, f32, links);
  };
  expect_epilogue({1, 3, 20, 30},
                  {{"conv2d", {1, 8, 20, 30}, f32, {{"padding", 1}}, {{8, 3, 3, 3}}}, {"relu", {1, 8, 20, 30}, f32}});
  expect_epilogue({2, 8, 9, 7}, {{"conv2d", {2, 8, 9, 7}, f32, {{"padding", 1}, {"groups", 8}}, {{8, 1, 3, 3}}},
                                 {"elementwise_add", {2, 8, 9, 7}, f32, {}, {{8, 1, 1}}},
                                 {"elementwise_mul", {2, 8, 9, 7}, f32, {}, {{2, 8, 9, 7}}},
                                 {"clamp", {2, 8, 9, 7}, f32, {{"min", 0}, {"max", 6}}}});
}

}  // namespace
}  // namespace tessera::compile
