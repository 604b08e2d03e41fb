#include "cases/tiny.hpp"

#include <tbb/task_group.h>

#include <memory>
#include <optional>
#include <vector>

namespace bench {

namespace {

struct Ours {
  explicit Ours(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) outputs.push_back(tiny_buffer());
  }
  tessera::Buffer input = tiny_buffer();
  std::vector<tessera::Buffer> outputs;
};

struct Rival {
  explicit Rival(std::size_t count) : outputs(count) {}
  TinyArray input{};
  std::vector<TinyArray> outputs;
  tbb::task_group group;
};

// Calls function(output) this many times, cycling through the outputs; ns per call, including `end`.
template <class Outputs, class Function, class End>
double each(std::size_t times, Outputs& outputs, Function&& function, End&& end) {
  const double all = nanoseconds([&] {
    for (std::size_t done = 0; done < times; done += outputs.size()) {
      for (auto& output : outputs) function(output);
    }
    end();
  });
  return all / static_cast<double>(times);
}

}  // namespace

Sides independent(Kernel kernel, std::size_t commands, std::size_t outputs, Ahead ahead) {
  return {
      [=, ours = std::make_shared<Ours>(outputs)] {
        std::optional<tessera::Mapped<float>> view;
        if (ahead == Ahead::map) view.emplace(ours->input.map<float>());
        tessera::Command last;
        return each(
            commands, ours->outputs, [&](const tessera::Buffer& output) { last = submit(kernel, ours->input, output); },
            [&] {
              view.reset();
              last.wait();  // throws if it failed
              device().synchronize();
            });
      },
      [=, rival = std::make_shared<Rival>(outputs)] {
        return each(
            commands, rival->outputs,
            [&](TinyArray& output) {
              rival->group.run([kernel, input = rival->input.data(), to = output.data()] {
                by_hand(kernel, input, to, tiny_elements);
              });
            },
            [&] { rival->group.wait(); });
      },
  };
}

}  // namespace bench
