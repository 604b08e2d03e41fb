// Commands that take longer than their scheduling.
#include "cases/tiny.hpp"

#include <tbb/task_group.h>

#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace bench {

namespace {

constexpr std::size_t middling_commands = 256;   // per thread
constexpr std::size_t middling_elements = 4096;  // 16 KiB read and 16 KiB written

constexpr std::size_t large_elements = std::size_t{16} << 20;  // 64 MiB of floats

// Runs function(index) on this many threads; µs, without creating and joining them.
template <class Function>
double in_threads(unsigned count, Function&& function) {
  std::latch ready(count + 1);
  std::latch done(count);
  std::vector<std::jthread> threads;
  for (unsigned index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      ready.arrive_and_wait();
      function(index);
      done.count_down();
    });
  }
  return nanoseconds([&] {
           ready.arrive_and_wait();
           done.wait();
         }) /
         1000;
}

struct OurThread {
  OurThread() {
    for (std::size_t i = 0; i < middling_commands; ++i) outputs.push_back(device().zeros({middling_elements}));
  }
  tessera::Buffer input = device().zeros({middling_elements});
  std::vector<tessera::Buffer> outputs;
};

struct RivalThread {
  std::vector<float> input = std::vector<float>(middling_elements);
  std::vector<std::vector<float>> outputs{middling_commands, std::vector<float>(middling_elements)};
};

}  // namespace

Sides middling(unsigned threads) {
  const double commands = static_cast<double>(middling_commands) * threads;
  return {
      [=, ours = std::make_shared<std::vector<OurThread>>(threads)] {
        return in_threads(threads,
                          [&](unsigned index) {
                            const OurThread& thread = (*ours)[index];
                            std::vector<tessera::Command> submitted;
                            submitted.reserve(middling_commands);
                            for (const tessera::Buffer& output : thread.outputs) {
                              submitted.push_back(submit(Kernel::scale, thread.input, output));
                            }
                            tessera::wait_all(submitted);
                          }) /
               commands;
      },
      [=, rival = std::make_shared<std::vector<RivalThread>>(threads)] {
        return in_threads(threads,
                          [&](unsigned index) {
                            RivalThread& thread = (*rival)[index];
                            tbb::task_group group;
                            for (std::vector<float>& output : thread.outputs) {
                              group.run([input = thread.input.data(), to = output.data()] {
                                by_hand(Kernel::scale, input, to, middling_elements);
                              });
                            }
                            group.wait();
                          }) /
               commands;
      },
  };
}

Sides large() {
  struct Buffers {
    tessera::Buffer input = device().zeros({large_elements});
    tessera::Buffer output = device().zeros({large_elements});
  };
  constexpr double moved = 2.0 * sizeof(float) * large_elements;
  const auto buffers = std::make_shared<Buffers>();
  return {
      [=] { return moved / nanoseconds([&] { tessera::scale(buffers->input, 2, buffers->output); }); },
      [=] {
        const auto input = buffers->input.map<float>();
        const auto output = buffers->output.map<float>();
        const auto scale_half = [&](std::size_t begin) {
          by_hand(Kernel::scale, input.data() + begin, output.data() + begin, large_elements / 2);
        };
        return moved / nanoseconds([&] {
                 const std::jthread other(scale_half, large_elements / 2);
                 scale_half(0);
               });
      },
  };
}

}  // namespace bench
