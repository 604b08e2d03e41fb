// The same work twice: first the host and the device work in turn, then both at once. The device has about as much to
// do as the host, so overlapping takes half the time at best, and more if they share cores.
//
// Expect: sync: +[0-9.]+ ms.*async: +[0-9.]+ ms.*ratio [0-9.]+.*the results are the same
#include <tessera/tessera.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;
using Shared = std::shared_ptr<const Tensor<float>>;

constexpr int batches = 8;
constexpr std::int64_t size = 512;

struct Result {
  double device = 0;
  double host = 0;

  bool operator==(const Result&) const = default;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The device work of a batch: some matrix products, and one number of the last.
DeviceOperation<double> device_work(const Shared& x) {
  DeviceOperation<Tensor<float>> product = std::get<0>(zip(empty<float>({size, size}), x, x).apply("matmul").unzip());
  for (int i = 0; i < 8; ++i) {
    auto [z, a, b] = zip(empty<float>({size, size}), x, std::move(product)).apply("matmul").unzip();
    product = std::move(z);
  }
  return std::move(product).to_host().map([](const std::vector<float>& host) { return double{host.back()}; });
}

// The host work: this many steps.
double host_work(int steps) {
  double x = 1;
  for (int i = 0; i < steps; ++i) x = std::sqrt(x + i);
  return x;
}

Result one_after_the_other(const Shared& x, int steps) {
  Result result;
  for (int i = 0; i < batches; ++i) {
    result.device += device_work(x).sync();
    result.host += host_work(steps);
  }
  return result;
}

Task<Result> overlapped(Shared x, int steps) {
  Result result;
  for (int i = 0; i < batches; ++i) {
    Spawned<double> running = spawn(device_work(x));
    result.host += host_work(steps);
    result.device += co_await std::move(running);
  }
  co_return result;
}

// The number of steps that takes as long as the device's work.
int matching_steps(const Shared& x) {
  device_work(x).sync();  // compiles
  const auto start = Clock::now();
  for (int i = 0; i < 3; ++i) device_work(x).sync();
  const double device = milliseconds_since(start) / 3;
  constexpr int trial = 200'000;
  const auto middle = Clock::now();
  const volatile double keep = host_work(trial);
  static_cast<void>(keep);
  return static_cast<int>(trial * device / milliseconds_since(middle));
}

}  // namespace

int main() {
  const Shared x = randn<float>({size, size}, 0.0F, 0.05F, 1).shared().sync();
  const int steps = matching_steps(x);

  const auto start = Clock::now();
  const Result sync = one_after_the_other(x, steps);
  const double sync_time = milliseconds_since(start);

  const auto middle = Clock::now();
  const Result async = sync_wait(overlapped(x, steps));
  const double async_time = milliseconds_since(middle);

  std::printf("sync:  %8.2f ms\n", sync_time);
  std::printf("async: %8.2f ms\n", async_time);
  std::printf("ratio %.2f\n", sync_time / async_time);
  std::printf("the results are %s\n", sync == async ? "the same" : "different");
}
