// spawn overlaps: while the first batch is processed, the second is prepared.
// Expect: ^batch 1: 4096 values, the first is 3.batch 2: 4096 values, the first is 5
#include <tessera/tessera.hpp>

#include <iostream>
#include <utility>
#include <vector>

using namespace tessera;

namespace {

using Batch = Tensor<float>;

const auto twice_and_one = tile::kernel(
    "twice_and_one", [](tile::Out<float> z, tile::In<float> x) { z.store(2.0F * tile::load_like(x, z) + 1.0F); });

// Both only describe work; nothing runs yet.
DeviceOperation<Batch> prepare(float number) { return full<float>({4096}, number); }
DeviceOperation<std::vector<float>> process(Batch batch) {
  const Shape shape = batch.shape();
  return twice_and_one(empty<float>(shape), std::move(batch)).to_host();
}

Task<void> program() {
  DeviceOperation<Batch> prepare1 = prepare(1);
  DeviceOperation<Batch> prepare2 = prepare(2);

  Batch batch1 = co_await std::move(prepare1);
  Spawned<std::vector<float>> running1 = spawn(process(std::move(batch1)));  // starts without waiting

  Batch batch2 = co_await std::move(prepare2);  // while batch 1 is processed
  const std::vector<float> result2 = co_await process(std::move(batch2));
  const std::vector<float> result1 = co_await std::move(running1);

  std::cout << "batch 1: " << result1.size() << " values, the first is " << result1[0] << '\n';
  std::cout << "batch 2: " << result2.size() << " values, the first is " << result2[0] << '\n';
}

}  // namespace

int main() { sync_wait(program()); }
