// Streams: a display that shows the newest frames and drops the rest, a deadline, and background work.
// Expect: dropped: 0 1 2 3.*shown: 4 5.*the screen shows 5.*late: deadline_exceeded.*background: [0-9]+ of 32 were done
// Differs: background: [0-9]+ of
#include <tessera/tessera.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using tessera::Buffer;
using tessera::Command;
using tessera::Priority;
using tessera::Status;
using tessera::Stream;
using tessera::WhenFull;

int main() {
  tessera::Device device = tessera::Device::best();
  Buffer screen = device.zeros({480, 640});

  // Background work. It needs no order: every command has its own buffer.
  Stream background = device.stream({.priority = Priority::low, .in_order = false});
  std::vector<Command> thumbnails;
  for (int i = 0; i < 32; ++i) {
    thumbnails.push_back(background.submit("fill", {}, device.empty({480, 640}), {{"value", i}}));
  }

  // The display: at most two frames in flight; a newer frame replaces the oldest that has not started.
  Stream display = device.stream({.priority = Priority::high, .max_in_flight = 2, .when_full = WhenFull::drop_oldest});
  std::vector<Command> frames;
  {
    const auto held = screen.map<float>();  // the screen is busy: frames pile up, and submit still returns at once
    for (int i = 0; i < 6; ++i) frames.push_back(display.submit("fill", {}, screen, {{"value", i}}));
  }
  display.synchronize();
  const auto over = std::ranges::count_if(thumbnails, [](const Command& c) { return is_terminal(c.poll()); });

  std::string shown, dropped;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    (frames[i].poll() == Status::completed ? shown : dropped) += ' ' + std::to_string(i);
  }
  std::cout << "frames dropped:" << dropped << '\n';
  std::cout << "  " << frames[0].error()->what() << '\n';
  std::cout << "frames shown:" << shown << '\n';
  std::cout << "the screen shows " << screen.read<float>()[0] << '\n';  // frame 3 poisoned it, frame 4 overwrote it

  // A deadline: a command that cannot start in time is cancelled.
  Stream punctual = device.stream({.deadline = 5ms});
  {
    const auto held = screen.map<float>();
    const Command late = punctual.submit("fill", {}, screen, {{"value", 6}});
    while (!is_terminal(late.poll())) std::this_thread::sleep_for(1ms);
    std::cout << "late: " << to_string(late.error()->code()) << '\n';
  }

  wait_all(thumbnails);
  std::cout << "background: " << over << " of 32 were done when the last frame was shown, and now all are\n";
}
