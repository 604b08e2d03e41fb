#pragma once

#include <tessera/tessera.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace demo {

// One command of the trace; times in milliseconds since the first was submitted.
struct Span {
  tessera::CommandId command = 0;
  std::string kernel;
  std::string thread;  // who ran it
  tessera::Priority priority = tessera::Priority::normal;
  double queued = 0;
  double start = 0;
  double end = 0;
  std::size_t bytes = 0;
};

struct Timeline {
  std::vector<Span> spans;           // by their start
  std::vector<std::string> threads;  // that ran any
  double submitted = 0;              // when the last command was submitted
  double end = 0;                    // when the last one was over
};

// Reads what tessera::trace wrote of these commands.
Timeline read_timeline(const std::filesystem::path& trace,
                       const std::map<tessera::CommandId, tessera::Priority>& priorities);

struct Figures {
  struct Wait {
    std::size_t commands = 0;
    double mean = 0;  // milliseconds from the submission to the start
  };
  std::size_t overlapped = 0;   // commands that ran while another one ran
  std::size_t bytes = 0;        // read and written
  std::array<Wait, 3> waiting;  // by priority
};
Figures figures_of(const Timeline& timeline);

// A chart in text: a row a thread, each column the priority that took most of its time.
std::string chart(const Timeline& timeline);

}  // namespace demo
