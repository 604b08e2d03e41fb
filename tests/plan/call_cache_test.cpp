#include <tessera/tessera.hpp>

#include "driver/cpu/executable.hpp"
#include "engine/device_state.hpp"
#include "kernels/kernel.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using driver::cpu::compilations;
using test::expect_error;

const Device& device() {
  static const Device cpu = Device::best();
  return cpu;
}

Buffer counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 1.0F);
  return device().buffer<float>(values, shape);
}

// How many programs `calls` compiles.
template <class Calls>
std::uint64_t compilations_of(Calls&& calls) {
  const std::uint64_t before = compilations();
  calls();
  return compilations() - before;
}

// ---- one program for many calls

TEST(KernelCalls, Same_shape_calls_of_a_pointwise_kernel_share_one_program) {
  const auto kernel = tile::kernel("shares", [](tile::Out<float> z, tile::In<float> x, tile::Scalar<float, "a"> a) {
    z.store(a * load_like(x, z) + 0.125F);
  });
  EXPECT_EQ(compilations_of([&] {
              float factor = 2;
              for (const Shape& shape : {Shape{8}, Shape{2, 4}, Shape{2, 2, 2}, Shape{1, 8}, Shape{}, Shape{1, 1}}) {
                const Buffer x = counting(shape), z = device().empty(shape);
                device().run(kernel, {x}, z, {{"a", factor}});
                EXPECT_EQ(z.read<float>().back(), factor * static_cast<float>(shape.elements()) + 0.125F);
                factor += 1;
              }
            }),
            1U);
}

TEST(KernelCalls, Axes_that_all_operands_traverse_alike_are_merged) {
  const auto kernel = tile::kernel("bias", [](tile::Out<float> z, tile::In<float> x, tile::In<float> b) {
    z.store(load_like(x, z) + 16 * load_like(b, z));
  });
  const Buffer bias = counting({5});
  EXPECT_EQ(compilations_of([&] {
              for (const Shape& shape : {Shape{6, 5}, Shape{2, 3, 5}, Shape{2, 1, 3, 5}}) {
                const Buffer z = device().empty(shape);
                device().run(kernel, {counting(shape), bias}, z);
                const std::vector<float> values = z.read<float>();
                for (std::size_t i = 0; i < values.size(); ++i) {
                  ASSERT_EQ(values[i], static_cast<float>(i + 1 + 16 * (i % 5 + 1))) << to_string(shape) << " " << i;
                }
              }
            }),
            1U);
}

TEST(KernelCalls, Broadcasting_is_as_in_NumPy) {
  const Buffer a = counting({2, 1, 3}), b = counting({4, 1}), z = device().empty({2, 4, 3});
  device().run("elementwise_add", {a, b}, z);
  const std::vector<float> values = z.read<float>();
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(values[(i * 4 + j) * 3 + k], static_cast<float>(i * 3 + k + 1 + j + 1));
      }
    }
  }
  expect_error(Errc::shape_mismatch, "[elementwise_add] input 1 (b) must be f32[2,4,3] or broadcast to it, got f32[4]",
               [&] { device().run("elementwise_add", {a, counting({4})}, z); });
  expect_error(Errc::shape_mismatch, "output must be f32[1,3], the broadcast shape of its inputs, got f32[2,3]",
               [&] { device().run("elementwise_add", {counting({1, 3}), counting({3})}, device().empty({2, 3})); });
}

TEST(KernelCalls, A_kernel_that_asks_for_its_rank_sees_the_rank_of_the_call) {
  const auto kernel = tile::kernel(
      "ranked", [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) * static_cast<float>(z.rank())); });
  for (const Shape& shape : {Shape{2, 2, 3}, Shape{12}, Shape{3, 4}, Shape{2, 2, 3}, Shape{12}}) {
    const Buffer z = device().empty(shape);
    device().run(kernel, {counting(shape)}, z);
    EXPECT_EQ(z.read<float>()[11], 12.0F * static_cast<float>(shape.rank()));
  }
}

TEST(KernelCalls, A_kernel_that_uses_indices_keeps_its_axes) {
  const auto kernel = tile::kernel("rows", [](tile::Out<float> z, tile::In<float> x) {
    z.store(load_like(x, z) + 100 * tile::cast<float>(z.index(0)));
  });
  const Buffer z = device().empty({2, 3});
  device().run(kernel, {counting({2, 3})}, z);
  EXPECT_EQ(z.read<float>(), (std::vector<float>{1, 2, 3, 104, 105, 106}));
}

// It is pointwise, so its axes could be merged, but it is written for rank 2.
TEST(KernelCalls, Bytes_converted_from_wider_integers_are_summed_as_bytes) {
  const auto kernel = tile::kernel("sum_of_bytes", [](tile::Out<std::uint32_t> z, tile::In<std::uint32_t> x) {
    const tile::Tile byte = tile::cast<std::uint32_t>(tile::cast<std::uint8_t>(load_like(x, z)));
    z.store(byte + byte * 7 + byte * 2);
  });
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < 300; ++i) numbers.push_back(i * i);
  Buffer x = device().empty({300}, u32);
  x.write<std::uint32_t>(numbers);
  const Buffer z = device().empty({300}, u32);
  device().run(kernel, {x}, z);
  const std::vector<std::uint32_t> found = z.read<std::uint32_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t byte = std::min(numbers[i], 255U);  // conversions saturate
    ASSERT_EQ(found[i], 10 * byte) << numbers[i];
  }
}

TEST(KernelCalls, A_kernel_that_is_written_for_its_rank_keeps_it) {
  const auto broadcast = tile::kernel("for_matrices", [](tile::Out<float> z, tile::In<float> x) {
    z.store(load_like(x, z) + tile::broadcast(tile::constant(1.0F), {z.tile_dim(0), z.tile_dim(1)}));
  });
  const auto shifted = tile::kernel("not_shifted", [](tile::Out<float> z, tile::In<float> x) {
    z.store(tile::load_shifted(x, z, {0, 0}, tile::Border::clamp) + 1);
  });
  const auto throwing = tile::kernel("only_matrices", [](tile::Out<float> z, tile::In<float> x) {
    if (z.rank() != 2) throw std::runtime_error("only matrices");
    z.store(load_like(x, z) + 1);
  });
  for (const tile::Kernel& kernel : {broadcast, shifted, throwing}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{1, 3}, Shape{3, 1}, Shape{1, 1}, Shape{2, 3}}) {
      const Buffer x = counting(shape), z = device().empty(shape);
      ASSERT_NO_THROW(device().run(kernel, {x}, z)) << to_string(shape);
      EXPECT_EQ(z.read<float>().back(), static_cast<float>(shape.elements() + 1)) << to_string(shape);
    }
  }
}

TEST(KernelCalls, Extents_of_1_are_treated_like_any_other) {
  const auto reshaped = tile::kernel("reshaped", [](tile::Out<float> z, tile::In<float> x) {
    const auto t = load_like(x, z);
    const auto rows = tile::reshape(reduce_sum(t, 1), {z.tile_dim(0)});
    z.store(t - t + tile::reshape(rows, {z.tile_dim(0), 1}));
  });
  const auto looped = tile::kernel("looped", [](tile::Out<float> z, tile::In<float> x) {
    const auto t = load_like(x, z);
    z.store(tile::loop(3, t - t, [&](const tile::Index&, const tile::Tile& sum) {
      return sum + tile::zeros_like(z) + reduce_sum(t, 1) / 3;
    }));
  });
  for (const tile::Kernel& kernel : {reshaped, looped}) {
    for (const Shape& shape : {Shape{4, 4}, Shape{1, 4}, Shape{4, 1}, Shape{1, 1}}) {
      const Buffer z = device().empty(shape);
      const Buffer x = device().buffer<float>(std::vector<float>(static_cast<std::size_t>(shape.elements()), 3), shape);
      ASSERT_NO_THROW(device().run(kernel, {x}, z)) << to_string(shape);
      EXPECT_EQ(z.read<float>().back(), 3.0F * static_cast<float>(shape[1])) << to_string(shape);
    }
  }
}

TEST(KernelCalls, A_new_sigma_needs_no_new_program) {
  for (const DType dtype : {u8, f32}) {
    const Buffer x = device().zeros({9, 9}, dtype), z = device().zeros({9, 9}, dtype);
    for (const char* kernel : {"gaussian_blur", "sharpen"}) {
      const auto run = [&](double sigma) { device().run(kernel, {x}, z, {{"radius", 4}, {"sigma", sigma}}); };
      run(2);
      EXPECT_EQ(compilations_of([&] {
                  for (int i = 1; i <= 20; ++i) run(2 + 0.01 * i);
                }),
                0U)
          << kernel << " " << to_string(dtype);
    }
  }
}

TEST(KernelCalls, A_new_sigma_of_a_fused_pipeline_needs_no_new_program) {
  const Shape shape{9, 9, 4};
  const Buffer x = device().zeros(shape, u8), z = device().zeros(shape, u8);
  Pipeline pipeline(device());
  const Buffer blurred = pipeline.temporary(shape, u8);
  pipeline.add("gaussian_blur", {x}, blurred, {{"radius", 3}, {"sigma", pipeline.param("sigma", 1.5)}});
  pipeline.add("sharpen", {blurred}, z, {{"sigma", pipeline.param("sharp", 1.5)}});
  pipeline.run();
  EXPECT_EQ(compilations_of([&] {
              for (int i = 1; i <= 20; ++i) pipeline.run({{"sigma", 1.5 + 0.01 * i}, {"sharp", 1.5 + 0.02 * i}});
            }),
            0U);
}

TEST(KernelCalls, The_same_program_in_two_kernels_is_compiled_once) {
  const auto body = [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) * 0.8125F); };
  const Buffer x = counting({4}), z = device().empty({4});
  EXPECT_EQ(compilations_of([&] {
              device().run(tile::kernel("one", body), {x}, z);
              device().run(tile::kernel("other", body), {x}, z);
            }),
            1U);
}

// ---- plans

// A kernel like the built-in ones that counts how often it is planned.
const kernels::Kernel& planned(std::string name, std::atomic<int>& plans, bool only_scalars_vary) {
  kernels::Kernel kernel;
  kernel.name = std::move(name);
  kernel.inputs = {"x"};
  kernel.params = {{.name = "by", .default_value = 1, .documentation = "a factor"}};
  kernel.dtypes = {f32};
  kernel.documentation = "x * by";
  kernel.lower = [&plans, only_scalars_vary](const kernels::Call& call) {
    ++plans;
    kernels::Lowering plan = kernels::pointwise_lowering(call, [] {
      const tile::Output z;
      z.store(load_like(tile::Input(0), z) * tile::detail::scalar(0));
    });
    plan.scalars = {{"by", f32, call["by"]}};
    plan.only_scalars_vary = only_scalars_vary;
    return plan;
  };
  return kernels::add(std::move(kernel));
}

TEST(KernelCalls, A_call_that_is_equal_to_an_earlier_one_is_not_planned_again) {
  static std::atomic<int> plans{0};
  const std::string name = planned("counted_known", plans, false).name;
  const Buffer x = counting({4}), z = device().empty({4});
  for (int i = 0; i < 3; ++i) device().run(name, {x}, z, {{"by", 2}});
  EXPECT_EQ(plans, 1);
  device().run(name, {x}, z, {{"by", -0.0}});
  EXPECT_TRUE(std::signbit(z.read<float>()[0]));
  device().run(name, {x}, z, {{"by", 0.0}});
  EXPECT_FALSE(std::signbit(z.read<float>()[0]));
  EXPECT_EQ(plans, 3);
  device().run(name, {counting({2, 2})}, device().empty({2, 2}), {{"by", 2}});
  EXPECT_EQ(plans, 4);
}

TEST(KernelCalls, A_kernel_of_which_only_scalars_vary_is_planned_once_per_type) {
  static std::atomic<int> plans{0};
  const std::string name = planned("counted_ready", plans, true).name;
  for (int i = 1; i < 8; ++i) {
    const Buffer x = counting({i, 2}), z = device().empty({i, 2});
    device().run(name, {x}, z, {{"by", i}});
    EXPECT_EQ(z.read<float>().back(), static_cast<float>(2 * i * i));
  }
  EXPECT_EQ(plans, 1);
}

TEST(KernelCalls, Ten_thousand_distinct_calls_are_right) {
  const Buffer x = device().buffer<std::int32_t>({3}), z = device().zeros({1}, s32);
  for (int factor = 0; factor < 10'000; ++factor) device().run("scale", {x}, z, {{"factor", factor}});
  EXPECT_EQ(z.read<std::int32_t>()[0], 3 * 9'999);
}

// ---- what is refused

const auto saxpy =
    tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
      z.store(a * load_like(x, z) + load_like(y, z));
    });
const auto box3 = tile::kernel("box3", [](tile::Out<float> z, tile::In<float> x) {
  z.store(load_shifted(x, z, {-1, 0}, tile::Border::clamp) + load_shifted(x, z, {1, 0}, tile::Border::clamp));
});
const auto centred = tile::kernel("centred", [](tile::Out<float> z, tile::In<float> x) {
  const tile::Tile t = load_like(x, z);
  z.store(t - reduce_max(t, 1));
});

TEST(KernelCalls, The_output_may_be_an_input_that_is_read_in_place) {
  const Buffer x = counting({2, 2});
  device().run(saxpy, {x, x}, x, {{"a", 2}});
  EXPECT_EQ(x.read<float>(), (std::vector<float>{3, 6, 9, 12}));
}

TEST(KernelCalls, The_output_must_not_be_an_input_that_is_read_elsewhere) {
  const Buffer x = counting({2, 2});
  expect_error(Errc::invalid_argument, "[box3] output must not be input 0: the kernel reads neighbouring elements",
               [&] { device().run(box3, {x}, x); });
  expect_error(Errc::invalid_argument, "[centred] output must not be input 0: the kernel reads neighbouring elements",
               [&] { device().run(centred, {x}, x); });
  const Buffer row = counting({1, 4});
  expect_error(Errc::invalid_argument, "output must not be input 1: it is read as f32[4] and written as f32[1,4]",
               [&] { device().run(saxpy, {row, row.reshape({4})}, row, {{"a", 1}}); });
  EXPECT_EQ(x.read<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(device().submit(box3, {x}, x).poll(), Status::failed);
  expect_error(Errc::invalid_argument, "[box3] output must not be input 0", [&] { x.read<float>(); });  // poisoned
}

TEST(KernelCalls, Shapes_of_a_tile_kernel_are_checked_in_every_call) {
  const Buffer z = device().empty({64, 64}), x = device().zeros({64, 64});
  for (int i = 0; i < 2; ++i) {
    expect_error(Errc::shape_mismatch, "[saxpy] input 0 must broadcast to f32[64,64], got f32[3]",
                 [&] { device().run(saxpy, {counting({3}), x}, z, {{"a", 1}}); });
    device().run(saxpy, {x, device().zeros({64})}, z, {{"a", 1}});
  }
  expect_error(Errc::shape_mismatch, "[saxpy] input 1 must broadcast to f32[64,64], got f32[63]",
               [&] { device().run(saxpy, {x, device().zeros({63})}, z, {{"a", 1}}); });
}

TEST(KernelCalls, Types_and_scalars_of_a_tile_kernel_are_checked) {
  const Buffer x = counting({4}), z = device().empty({4});
  expect_error(Errc::dtype_mismatch, "[saxpy] input 1 must be f32, got s32[4]",
               [&] { device().run(saxpy, {x, device().zeros({4}, s32)}, z, {{"a", 1}}); });
  expect_error(Errc::dtype_mismatch, "[saxpy] output must be f32[4], got u8[4]",
               [&] { device().run(saxpy, {x, x}, device().zeros({4}, u8), {{"a", 1}}); });
  expect_error(Errc::invalid_parameter, "[saxpy] needs the parameter 'a', a number",
               [&] { device().run(saxpy, {x, x}, z); });
  expect_error(Errc::count_mismatch, "[saxpy] takes 2 inputs, got 1", [&] { device().run(saxpy, {x}, z, {{"a", 1}}); });
  const auto shifted =
      tile::kernel("shifted", [](tile::Out<std::uint8_t> to, tile::Scalar<std::uint8_t, "n"> n) { to.store(n); });
  expect_error(Errc::invalid_parameter, "[shifted] parameter 'n' must be between 0 and 255, got 256",
               [&] { device().run(shifted, {}, device().zeros({4}, u8), {{"n", 256}}); });
}

TEST(KernelCalls, A_mistake_in_a_kernel_is_the_commands_failure) {
  const auto thrower = tile::kernel("thrower", [](tile::Out<float>) { throw std::runtime_error("no idea"); });
  const auto forgetful = tile::kernel("forgetful", [](tile::Out<float>) {});
  const Buffer z = device().zeros({4});
  expect_error(Errc::invalid_kernel, "[thrower] the kernel's body threw: no idea",
               [&] { device().run(thrower, {}, z); });
  const Command command = device().submit(forgetful, {}, z);
  EXPECT_EQ(command.poll(), Status::failed);
  expect_error(Errc::invalid_kernel, "[forgetful] ", [&] { command.wait(); });
}

TEST(KernelCalls, A_call_without_elements_does_nothing) {
  EXPECT_EQ(compilations_of([&] {
              const auto kernel = tile::kernel(
                  "nothing", [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) * 0.4375F); });
              const Buffer x = device().zeros({0, 3}), z = device().zeros({0, 3});
              device().run(kernel, {x}, z);
              EXPECT_EQ(device().submit(kernel, {x}, z).poll(), Status::completed);
            }),
            0U);
}

// ---- kernels by name

float first_of(std::string_view kernel, const Params& params = {}) {
  const Buffer z = device().empty({1});
  device().run(kernel, {counting({1})}, z, params);
  return z.read<float>()[0];
}

TEST(KernelCalls, A_registered_kernel_has_a_name_and_may_be_replaced) {
  register_kernel(
      tile::kernel("calls_add", [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) + 1); }));
  EXPECT_EQ(first_of("calls_add"), 2);
  register_kernel(
      tile::kernel("calls_add", [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) + 10); }));
  EXPECT_EQ(first_of("calls_add"), 11);
  const std::vector<KernelInfo> kernels = device().kernels();
  EXPECT_EQ(std::ranges::count(kernels, "calls_add", &KernelInfo::name), 1);
  expect_error(Errc::unknown_kernel, "did you mean 'calls_add'?", [] { first_of("calls_ad"); });
}

TEST(KernelCalls, A_built_in_kernel_cannot_be_replaced) {
  for (const char* name : {"relu", "multiply"}) {
    expect_error(
        Errc::invalid_argument, std::string("[") + name + "] is a built-in kernel and cannot be replaced", [&] {
          register_kernel(tile::kernel(name, [](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z)); }));
        });
  }
}

TEST(KernelCalls, A_short_name_of_a_built_in_kernel_may_be_taken) {
  const Buffer x = counting({2}), z = device().empty({2});
  const auto aliases = [](std::string_view name) {
    const std::vector<KernelInfo> kernels = device().kernels();
    return std::ranges::find(kernels, name, &KernelInfo::name)->aliases;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(aliases("elementwise_sub"), (Names{"sub", "subtract"}));
  EXPECT_EQ(aliases("elementwise_mul"), (Names{"multiply", "mul"}));
  EXPECT_EQ(aliases("scale"), Names{"scalar_mul"});
  device().run("sub", {x, x}, z);
  EXPECT_EQ(z.read<float>(), (std::vector<float>{0, 0}));
  define_kernel("sub", {"x"}, "x - 1");
  device().run("sub", {x}, z);
  EXPECT_EQ(z.read<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(aliases("elementwise_sub"), Names{"subtract"});
  for (const char* name : {"multiply", "scalar_mul", "blur"}) {
    expect_error(Errc::invalid_argument, "is a built-in kernel and cannot be replaced",
                 [&] { define_kernel(name, {"x"}, "x"); });
  }
}

TEST(KernelCalls, A_defined_kernel_has_parameters_with_defaults) {
  define_kernel("calls_defined", {"x"}, "x * gain + 3", {{"gain", 2.0}});
  EXPECT_EQ(first_of("calls_defined"), 5);
  EXPECT_EQ(first_of("calls_defined", {{"gain", 4}}), 7);
  const std::vector<std::string> names = {"x"};
  define_kernel("calls_defined", names, "x + 1");
  EXPECT_EQ(first_of("calls_defined"), 2);
}

TEST(KernelCalls, Streams_take_kernels_too) {
  const Stream stream = device().stream();
  const Buffer x = counting({4}), z = device().empty({4});
  stream.run(saxpy, {x, x}, z, {{"a", 1}});
  stream.submit(saxpy, {z, x}, z, {{"a", 2}}).wait();
  EXPECT_EQ(z.read<float>(), (std::vector<float>{5, 10, 15, 20}));
}

TEST(KernelCalls, Kernels_may_be_replaced_while_others_call_them) {
  const auto adding = [](float number) {
    return tile::kernel("calls_race",
                        [number](tile::Out<float> z, tile::In<float> x) { z.store(load_like(x, z) + number); });
  };
  register_kernel(adding(1));
  std::atomic<bool> is_over{false};
  std::thread caller([&] {
    while (!is_over) {
      const float value = first_of("calls_race");
      ASSERT_TRUE(value >= 2 && value <= 21) << value;
    }
  });
  for (int i = 2; i <= 20; ++i) register_kernel(adding(static_cast<float>(i)));
  EXPECT_EQ(first_of("calls_race"), 21);
  is_over = true;
  caller.join();
}

// ---- compilation

TEST(KernelCalls, A_kernel_that_many_threads_call_at_once_is_compiled_once) {
  for (int round = 0; round < 8; ++round) {
    const auto kernel = tile::kernel("crowded", [round](tile::Out<float> z, tile::In<float> x) {
      z.store(load_like(x, z) * 3 + static_cast<float>(round) + 0.0625F);
    });
    constexpr int threads = 8;
    std::latch start(threads);
    EXPECT_EQ(compilations_of([&] {
                std::vector<std::thread> callers;
                for (int i = 0; i < threads; ++i) {
                  callers.emplace_back([&, i] {
                    const Buffer x = counting({3 + i}), z = device().empty({3 + i});
                    start.arrive_and_wait();
                    if (i % 2 == 0) {
                      device().run(kernel, {x}, z);
                    } else {
                      device().submit(kernel, {x}, z).wait();
                    }
                    EXPECT_EQ(z.read<float>()[2], 9 + static_cast<float>(round) + 0.0625F);
                  });
                }
                for (std::thread& caller : callers) caller.join();
              }),
              1U);
  }
}

// The CPU with a compiler that is slow and may fail.
class SlowCompiler final : public driver::Driver {
 public:
  std::atomic<bool> may_compile{false};
  std::atomic<int> failures{0};

  const DeviceInfo& info() const override { return below_->info(); }
  Block allocate(std::size_t bytes) override { return below_->allocate(bytes); }
  void deallocate(std::byte* address, std::size_t bytes) override { below_->deallocate(address, bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { below_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { below_->download(to, from); }
  void fill_zero(std::byte* to, std::size_t bytes) override { below_->fill_zero(to, bytes); }
  std::byte* host_address(std::byte* address) override { return below_->host_address(address); }
  const driver::Executable& compile(const ir::Program& program) override { return below_->compile(program); }
  std::int64_t pieces(const driver::Launch& launch) override {
    may_compile.wait(false);
    if (failures-- > 0) throw Error(Errc::device_failure, "the compiler ran out of ideas");
    return below_->pieces(launch);
  }
  void launch(const driver::Launch& launch, std::int64_t piece) override { below_->launch(launch, piece); }

 private:
  const std::unique_ptr<Driver> below_ = driver::make_cpu_driver();
};

struct SlowDevice {
  SlowDevice() {
    auto made = std::make_unique<SlowCompiler>();
    driver = made.get();
    auto* state = new detail::engine::DeviceState(std::move(made), detail::engine::make_worker_pool(2));
    device.emplace(detail::Access::make<Device>(detail::Ref<detail::engine::DeviceState>::adopt(state)));
  }
  SlowCompiler* driver = nullptr;
  std::optional<Device> device;
};

TEST(KernelCalls, Submit_does_not_wait_for_the_compiler) {
  const SlowDevice slow;
  const Buffer x = slow.device->buffer<float>({1, -1}), z = slow.device->zeros({2});
  const Command first = slow.device->submit("relu", {x}, z);
  const Command second = slow.device->submit("relu", {z}, z);
  EXPECT_FALSE(is_terminal(first.poll()));
  EXPECT_FALSE(is_terminal(second.poll()));
  EXPECT_FALSE(first.wait_for(std::chrono::milliseconds(1)));
  slow.driver->may_compile = true;
  slow.driver->may_compile.notify_all();
  second.wait();
  EXPECT_EQ(z.read<float>(), (std::vector<float>{1, 0}));
  EXPECT_EQ(slow.device->submit("relu", {x}, z).poll(), Status::completed);  // small and compiled: runs inline
}

TEST(KernelCalls, A_failed_compilation_is_the_commands_failure_and_is_tried_again) {
  const SlowDevice slow;
  slow.driver->may_compile = true;
  slow.driver->failures = 1;
  const Buffer x = slow.device->buffer<float>({1, -1}), z = slow.device->zeros({2});
  expect_error(Errc::device_failure, "failed: the compiler ran out of ideas",
               [&] { slow.device->run("relu", {x}, z); });
  expect_error(Errc::device_failure, "poisoned", [&] { z.read<float>(); });
  slow.device->run("relu", {x}, z);
  EXPECT_EQ(z.read<float>(), (std::vector<float>{1, 0}));
}

TEST(KernelCalls, A_large_launch_is_cut_at_its_tiles) {
  const Shape shape{1 << 20};
  const Buffer x = counting(shape), z = device().empty(shape);
  device().run("scale", {x}, z, {{"factor", 2}});
  const std::vector<float> values = z.read<float>();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 2 * static_cast<float>(i + 1));
}

}  // namespace
}  // namespace tessera
