#include "cases/tiny.hpp"

#include <tbb/task_group.h>

#include <future>
#include <memory>

namespace bench {

namespace {

constexpr int times = 2000;
constexpr int async_times = 200;  // each creates a thread

struct Ours {
  tessera::Buffer input = tiny_buffer();
  tessera::Buffer output = tiny_buffer();
};

struct Rival {
  TinyArray input{};
  TinyArray output{};
  tbb::task_group group;
};

// The time per repetition.
template <class Function>
double each(int count, Function&& function) {
  return nanoseconds([&] {
           for (int i = 0; i < count; ++i) function();
         }) /
         count;
}

std::function<double()> task_group(Kernel kernel) {
  return [kernel, rival = std::make_shared<Rival>()] {
    return each(times, [&] {
      rival->group.run(
          [kernel, rival = rival.get()] { by_hand(kernel, rival->input.data(), rival->output.data(), tiny_elements); });
      rival->group.wait();
    });
  };
}

}  // namespace

Sides run(Kernel kernel) {
  return {
      [kernel, ours = std::make_shared<Ours>()] {
        return each(times, [&] {
          if (kernel == Kernel::scale) {
            device().run("scale", {ours->input}, ours->output, {{"factor", 2.0}});
          } else {
            device().run("relu", {ours->input}, ours->output);
          }
        });
      },
      task_group(kernel),
  };
}

Sides submit_and_wait() {
  return {
      [ours = std::make_shared<Ours>()] {
        return each(times, [&] { submit(Kernel::scale, ours->input, ours->output).wait(); });
      },
      task_group(Kernel::scale),
  };
}

Sides submit_and_wait_async() {
  return {
      submit_and_wait().ours,
      [rival = std::make_shared<Rival>()] {
        return each(async_times, [&] {
          std::async(std::launch::async, [&] {
            by_hand(Kernel::scale, rival->input.data(), rival->output.data(), tiny_elements);
          }).get();
        });
      },
  };
}

}  // namespace bench
