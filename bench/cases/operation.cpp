// Lazy operations compared with the same work as commands.
#include <tessera/tessera.hpp>

#include "cases/tiny.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace bench {

namespace {

using tessera::Buffer;
using tessera::DeviceOperation;
using tessera::Task;
using tessera::Tensor;
namespace tile = tessera::tile;

constexpr int operations = 1000;

const auto scaled = tile::kernel("scaled", [](tile::Out<float> z, tile::In<float> x, tile::Scalar<float, "factor"> f) {
  z.store(tile::load_like(x, z) * f);
});

// Doubles and halves in turn, so that values stay finite.
float factor(int i) { return i % 2 == 0 ? 2.0F : 0.5F; }

// One step: a new tensor from the previous one.
DeviceOperation<Tensor<float>> step(Tensor<float> x, int i) {
  const tessera::Shape shape = x.shape();
  return scaled(tessera::empty<float>(shape), std::move(x), factor(i));
}

Task<void> await_each(tessera::Shape shape) {
  Tensor<float> x = co_await tessera::ones<float>(shape);
  for (int i = 0; i < operations; ++i) x = co_await step(std::move(x), i);
}

void chain_with_then(const tessera::Shape& shape) {
  DeviceOperation<Tensor<float>> chain = tessera::ones<float>(shape);
  for (int i = 0; i < operations; ++i) {
    chain = std::move(chain).then([i](Tensor<float> x) { return step(std::move(x), i); });
  }
  std::move(chain).sync();
}

// Built without functions: a graph of kernels.
void chain_of_kernels(const tessera::Shape& shape) {
  DeviceOperation<Tensor<float>> chain = tessera::ones<float>(shape);
  for (int i = 0; i < operations; ++i) {
    chain = scaled(tessera::empty<float>(shape), std::move(chain), factor(i));
  }
  std::move(chain).sync();
}

// The same as commands, each with a new buffer too.
void submit_all(const tessera::Shape& shape, bool waits_for_each) {
  Buffer x = device().empty(shape);
  device().submit("fill", {}, x, {{"value", 1}}).wait();
  tessera::Command last;
  for (int i = 0; i < operations; ++i) {
    const Buffer next = device().empty(shape);
    last = device().submit(scaled, {x}, next, {{"factor", factor(i)}});
    if (waits_for_each) last.wait();
    x = next;
  }
  last.wait();
}

// Repeats, as a program with frames or steps does: the first run after a pause measures cold caches, which hold the
// whole graph.
constexpr int times = 10;

std::function<double()> each(std::function<void()> all) {
  return [all = std::move(all)] {
    return nanoseconds([&] {
             for (int i = 0; i < times; ++i) all();
           }) /
           (operations * times);
  };
}

// Work for one core that takes about this long: one tile, many steps.
constexpr int long_steps = 40'000;
const auto long_work = tile::kernel("long_work", [](tile::Out<float> z, tile::In<float> x) {
  const auto start = tile::load_like(x, z);
  z.store(tile::loop(long_steps, start, [](const tile::Index&, const auto& t) { return t * 0.999F + 0.001F; }));
});

}  // namespace

const tessera::Shape tiny_shape{tiny_elements};

Sides awaited_operations() {
  return {each([] { tessera::sync_wait(await_each(tiny_shape)); }), each([] { submit_all(tiny_shape, true); })};
}

Sides chained_operations(Chain chain, std::size_t elements) {
  const tessera::Shape shape(elements);
  return {each([=] { chain == Chain::then ? chain_with_then(shape) : chain_of_kernels(shape); }),
          each([=] { submit_all(shape, false); }), each([=] { tessera::sync_wait(await_each(shape)); })};
}

Sides overlapped() {
  const auto x = tessera::ones<float>({1024}).shared().sync();
  const auto operation = [x] { return long_work(tessera::empty<float>({1024}), x); };
  // The host's work takes as long as the device's, measured once.
  operation().sync();
  const double length = nanoseconds([&] { operation().sync(); });
  const auto host_work = [length] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(length));
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  return {[=] {
            return nanoseconds([&] {
                     auto running = tessera::spawn(operation());
                     host_work();
                     running.wait();
                   }) /
                   1e6;
          },
          [=] {
            return nanoseconds([&] {
                     operation().sync();
                     host_work();
                   }) /
                   1e6;
          }};
}

}  // namespace bench
