#pragma once

#include <tessera/status.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// What goes wrong with a command of a simulated device while it runs.
struct InjectedFault {
  enum class Kind : std::uint8_t {
    fail,           // it fails with Errc::device_failure
    delay,          // it takes longer
    out_of_memory,  // it fails with Errc::out_of_memory
  };

  CommandId command = 0;  // which: the id it will have; the first command of a device is 1
  Kind kind = Kind::fail;
  std::chrono::nanoseconds delay{0};
};

// A device that behaves as another one on a bad day, for tests: Device::simulated(options).
//
// It runs the same kernels on the same memory, but starts the commands that could start in an order drawn from the
// seed, whatever their priority and age; it checks that no two commands ever touch one buffer at the same time while
// one of them writes it (Errc::internal); and it injects faults.
struct SimulationOptions {
  std::uint64_t seed = 0;
  std::string backend = "cpu";  // the device it stands on
  // 0: deterministic. Nothing runs by itself; poll, wait, run, read and synchronize run commands on the caller's
  // thread in an order that depends on the seed and the calls alone, and dropping the last Device handle runs the
  // rest. Otherwise so many threads run commands, with random pauses between them.
  unsigned workers = 2;
  std::vector<InjectedFault> faults = {};
  double fail_rate = 0;  // the share of commands that fail by chance, drawn from the seed
  // The allocation that fails with Errc::out_of_memory, counted from 1; 0: none.
  std::uint64_t out_of_memory_at_allocation = 0;
};

}  // namespace tessera
