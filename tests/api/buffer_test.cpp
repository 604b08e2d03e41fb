// Buffers: contents, views, lifetime.
#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;

class Buffers : public ::testing::Test {
 protected:
  Device device = Device::best();
};

TEST_F(Buffers, A_buffer_knows_its_shape_type_and_device) {
  const Buffer buffer = device.buffer<float>({1, 2, 3}, {3});
  EXPECT_EQ(buffer.shape(), Shape{3});
  EXPECT_EQ(buffer.dtype(), f32);
  EXPECT_EQ(buffer.size_bytes(), 12U);
  EXPECT_EQ(buffer.device(), device);
  EXPECT_EQ(Device::open(device.info().backend), device);
}

template <class T>
void expect_round_trip(const Device& device, DType dtype) {
  const std::vector<T> values = {T(0), T(1), T(2), T(100), T(200), T(250)};
  const Buffer buffer = device.buffer<T>(values, {2, 3});
  EXPECT_EQ(buffer.dtype(), dtype);
  EXPECT_EQ(buffer.read<T>(), values);
  EXPECT_EQ(device.from_bytes(buffer.read_bytes(), {2, 3}, dtype).template read<T>(), values);
}

TEST_F(Buffers, Every_type_is_read_back_as_it_was_written) {
  expect_round_trip<float>(device, f32);
  expect_round_trip<double>(device, f64);
  expect_round_trip<std::int32_t>(device, s32);
  expect_round_trip<std::int64_t>(device, s64);
  expect_round_trip<std::uint32_t>(device, u32);
  expect_round_trip<std::uint8_t>(device, u8);
}

TEST_F(Buffers, Any_contiguous_values_make_a_buffer) {
  const std::vector<float> vector = {1, 2};
  const std::array<float, 2> array = {1, 2};
  EXPECT_EQ(device.buffer<float>(vector).read<float>(), vector);
  EXPECT_EQ(device.buffer<float>(array, {2, 1}).read<float>(), vector);
  EXPECT_EQ(device.buffer<float>(std::span(array)).shape(), Shape{2});
  EXPECT_EQ(device.buffer<float>({}, {0}).read<float>().size(), 0U);
  EXPECT_EQ(device.buffer<float>({7}, {}).read<float>(), std::vector<float>{7});
}

TEST_F(Buffers, Parts_can_be_written) {
  Buffer buffer = device.zeros({5}, s32);
  buffer.write(std::vector<std::int32_t>{7, 8}, 3);
  buffer.write(std::vector<std::int32_t>{}, 5);
  EXPECT_EQ(buffer.read<std::int32_t>(), (std::vector<std::int32_t>{0, 0, 0, 7, 8}));
}

TEST_F(Buffers, Values_in_braces_can_be_written) {
  Buffer buffer = device.zeros({3});
  buffer.write<float>({1, 2, 3});
  buffer.write<float>({9}, 1);
  EXPECT_EQ(buffer.read<float>(), (std::vector<float>{1, 9, 3}));
  buffer.write<float>(std::vector<float>{4, 5, 6});
  const float array[3] = {7, 8, 9};
  buffer.write(array);
  EXPECT_EQ(buffer.read<float>(), (std::vector<float>{7, 8, 9}));
}

TEST_F(Buffers, A_value_that_does_not_fit_its_type_is_refused) {
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::internal;
  };
  EXPECT_EQ(code_of([&] { device.buffer<std::uint8_t>({300}); }), Errc::overflow);
  EXPECT_EQ(code_of([&] { device.buffer<std::uint32_t>({-1}); }), Errc::overflow);
  EXPECT_EQ(code_of([&] { device.buffer<std::int32_t>({3e9}); }), Errc::overflow);
  EXPECT_EQ(code_of([&] { device.buffer<std::int32_t>({0.5}); }), Errc::overflow);
  EXPECT_EQ(device.buffer<std::int64_t>({INT64_MIN, INT64_MAX}).read<std::int64_t>()[1], INT64_MAX);
}

TEST_F(Buffers, Read_into_fills_memory_of_the_caller) {
  const Buffer buffer = device.buffer<float>({1, 2, 3}, {3});
  std::array<float, 3> values{};
  buffer.read_into(values);
  EXPECT_EQ(values[2], 3);
  buffer.read_into(std::span(values));
  buffer.read_into<float>(values);
}

TEST_F(Buffers, A_map_is_the_memory_itself) {
  Buffer buffer = device.zeros({3});
  const float* address = nullptr;
  {
    auto view = buffer.map<float>();
    view[1] = 5;
    address = view.data();
    EXPECT_EQ(view.size(), 3U);
    auto moved = std::move(view);
    EXPECT_EQ(moved.span()[1], 5);
  }
  EXPECT_EQ(buffer.read<float>()[1], 5);
  EXPECT_EQ(buffer.map_read<float>().data(), address);
}

TEST_F(Buffers, A_reshaped_buffer_is_the_same_memory) {
  const Buffer flat = device.buffer<float>({1, 2, 3, 4, 5, 6}, {6});
  Buffer table = flat.reshape({2, 3});
  EXPECT_NE(table, flat);
  EXPECT_EQ(table.shape(), (Shape{2, 3}));
  table.write(std::vector<float>{9}, 5);
  EXPECT_EQ(flat.read<float>()[5], 9);
  table.free();
  EXPECT_TRUE(flat.is_freed());
}

TEST_F(Buffers, The_last_handle_frees_the_memory) {
  const std::size_t before = device.memory().in_use;
  {
    const Buffer buffer = device.zeros({1000});
    const Buffer copy = buffer;
    std::optional<Buffer> view = buffer.reshape({10, 100});
    view.reset();
    EXPECT_EQ(device.memory().in_use, before + 4000);
  }
  EXPECT_EQ(device.memory().in_use, before);
}

TEST_F(Buffers, Memory_is_freed_after_the_last_command_that_uses_it) {
  Buffer gated = device.zeros({1000});
  const Buffer result = device.zeros({1000});
  const std::size_t before = device.memory().in_use;
  Command last;
  {
    const auto view = gated.map<float>();
    for (float& value : view) value = 2;
    Buffer temporary = device.empty({1000});
    device.submit("scale", {gated}, temporary, {{"factor", 3}});
    last = device.submit("scale", {temporary}, result, {{"factor", 7}});
    temporary.free();
    EXPECT_EQ(device.memory().in_use, before + 4000);
  }
  last.wait();
  EXPECT_EQ(device.memory().in_use, before);
  EXPECT_EQ(result.read<float>(), std::vector<float>(1000, 42));
}

TEST_F(Buffers, A_thread_that_would_wait_for_its_own_view_gets_an_error) {
  Buffer buffer = device.zeros({1000}), other = device.zeros({1000});
  Pipeline pipeline(device);
  pipeline.add("neg", {buffer}, other);
  const Stream blocking = device.stream({.max_in_flight = 1, .when_full = WhenFull::block});
  {
    const auto view = buffer.map<float>();
    const Command command = device.submit("neg", {buffer}, other);
    const Command next = blocking.submit("neg", {other}, other);
    EXPECT_FALSE(command.wait_for(std::chrono::milliseconds(1)));
    const auto expect_refused = [](std::string_view words, const auto& wait) {
      expect_error(Errc::invalid_argument, words, wait);
    };
    constexpr std::string_view mapped = "the buffer is mapped, and this thread holds the view";
    constexpr std::string_view waits = "waits for a mapped view that this thread holds";
    expect_refused(mapped, [&] { buffer.read<float>(); });
    expect_refused(mapped, [&] { buffer.write<float>(std::vector<float>(1000)); });
    expect_refused(mapped, [&] { buffer.map<float>(); });
    expect_refused(mapped, [&] { std::ignore = buffer.map_read<float>(); });
    expect_refused(mapped, [&] { device.run("neg", {buffer}, device.zeros({1000})); });
    expect_refused(waits, [&] { other.read<float>(); });
    expect_refused(mapped, [&] { pipeline.run(); });
    expect_refused(waits, [&] { device.run("neg", {other}, other); });
    expect_refused(waits, [&] { command.wait(); });
    expect_refused(waits, [&] { next.wait(); });
    expect_refused(waits, [&] { wait_all({command, next}); });
    expect_refused(waits, [&] { wait_any({command, next}); });
    expect_refused(waits, [&] { device.synchronize(); });
    expect_refused(waits, [&] { blocking.synchronize(); });
    expect_refused(waits, [&] { blocking.submit("neg", {other}, other).wait(); });
    EXPECT_EQ(command.poll(), Status::pending);
  }
  device.synchronize();
  EXPECT_EQ(other.read<float>()[7], 0);
}

TEST_F(Buffers, A_view_that_another_thread_holds_or_that_only_readers_share_is_waited_for) {
  Buffer buffer = device.zeros({1000});
  {
    const auto view = buffer.map_read<float>();
    EXPECT_EQ(buffer.read<float>()[5], 0);
    EXPECT_EQ(buffer.map_read<float>()[5], 0);
  }
  std::thread owner([view = buffer.map<float>()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    view[5] = 3;
    const auto dropped = std::move(view);
  });
  EXPECT_EQ(buffer.read<float>()[5], 3);
  owner.join();
}

TEST_F(Buffers, A_buffer_freed_while_mapped_lives_until_the_view_is_dropped) {
  Buffer buffer = device.zeros({1000});
  const std::size_t with_buffer = device.memory().in_use;
  {
    auto view = buffer.map<float>();
    buffer.free();
    view[999] = 1;
    EXPECT_EQ(device.memory().in_use, with_buffer);
  }
  EXPECT_EQ(device.memory().in_use, with_buffer - 4000);
}

TEST_F(Buffers, Free_many_frees_all) {
  const std::size_t before = device.memory().in_use;
  const std::vector<Buffer> buffers = {device.zeros({10}), device.zeros({20}), device.zeros({30})};
  free_many(buffers);
  EXPECT_EQ(device.memory().in_use, before);
  const Buffer twice = device.zeros({4});
  free_many({twice, twice});
  EXPECT_TRUE(twice.is_freed());
}

}  // namespace
}  // namespace tessera
