#pragma once

#include <tessera/tessera.hpp>

#include "fractal.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <thread>
#include <vector>

namespace demo {

// All strips of the picture: four threads submit them on three streams.
class Job {
 public:
  static constexpr std::size_t threads = 4;
  static constexpr std::size_t strips_per_thread = strips / threads;
  // The last one of a strip adds its counts to a buffer that all threads share.
  static constexpr std::size_t commands_per_thread =
      strips_per_thread * (iterations * Strip::commands_per_iteration + 1);
  static constexpr std::size_t commands = threads * commands_per_thread;

  explicit Job(const tessera::Device& device);

  // Returns at once: the threads submit, the device works.
  void start();
  // How many are over by now. Never blocks: it polls what has been submitted.
  std::size_t commands_over() const;

  // The results; these block until they are there.
  std::vector<float> counts() const;
  double mean_count() const;

  // Once all are submitted.
  std::map<tessera::CommandId, tessera::Priority> priorities() const;

 private:
  struct Entry {
    tessera::Command command;
    tessera::Priority priority = tessera::Priority::normal;
  };
  // What one thread has submitted so far; others may look at the first `count`.
  struct Submitted {
    std::vector<Entry> entries = std::vector<Entry>(commands_per_thread);
    std::atomic<std::size_t> count{0};
    std::jthread thread;

    void add(tessera::Command command, tessera::Priority priority);
  };
  void submit_all(std::size_t thread);

  std::array<tessera::Stream, 3> streams_;  // by priority
  tessera::Buffer sum_;                     // of all strips' counts
  std::vector<Strip> strips_;
  std::array<Submitted, threads> submitted_;
};

}  // namespace demo
