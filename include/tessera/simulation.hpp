#pragma once

#include <tessera/status.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// A fault that a simulated device injects into a command.
struct InjectedFault {
  enum class Kind : std::uint8_t {
    fail,           // the command fails with Errc::device_failure
    delay,          // the command takes longer
    out_of_memory,  // the command fails with Errc::out_of_memory
  };

  CommandId command = 0;  // the id it will have; a device's first command is 1
  Kind kind = Kind::fail;
  std::chrono::nanoseconds delay{0};
};

// A device for tests that behaves like another one on a bad day: Device::simulated(options).
//
// It runs the same kernels on the same memory, but starts ready commands in a random order drawn from the seed,
// ignoring priority and age. It injects faults, and it checks that no two commands use a buffer at the same time while
// one of them writes it (Errc::internal).
struct SimulationOptions {
  std::uint64_t seed = 0;
  std::string backend = "cpu";  // the device underneath
  // Number of worker threads, which pause at random between commands. 0: deterministic. Commands then run only inside
  // poll, wait, run, read and synchronize, on the calling thread, in an order that depends on the seed and the calls
  // alone; destroying the last Device handle runs the rest.
  unsigned workers = 2;
  std::vector<InjectedFault> faults = {};
  double fail_rate = 0;  // fraction of commands that fail at random, drawn from the seed
  // The number of the allocation, from 1, that fails with Errc::out_of_memory; 0: none.
  std::uint64_t out_of_memory_at_allocation = 0;
};

}  // namespace tessera
