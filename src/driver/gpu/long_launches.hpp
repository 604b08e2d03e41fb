#pragma once

#include "compile/gpu/source.hpp"
#include "driver/gpu/api.hpp"

#include <cstdint>
#include <span>
#include <vector>

// Systems reset a GPU that works on one submission for more than some seconds. Long launches are therefore cut into
// several dispatches, and these put into several submissions, none of which has more work than Api::most_work(). That
// also shows the watchdog that the device makes progress.
namespace tessera::driver::gpu {

// How much a launch has to do.
struct LaunchSize {
  std::int64_t pieces = 1;      // of work, each for a workgroup
  std::int64_t steps = 1;       // of loops that an invocation needs for one of them
  std::int64_t operations = 1;  // in the program: a measure of what a step costs
};

// Appends a dispatch that does all of a launch, or if that is too much several that do it one after the other.
void add_cut(std::vector<Dispatch>& calls, Dispatch whole, const compile::gpu::Kernel& kernel, const LaunchSize& size,
             std::int64_t most_work);

// The calls of each submission, in order; an empty one if there are no calls. Later submissions wait for earlier ones.
std::vector<std::span<Dispatch>> split_into_submissions(std::span<Dispatch> calls, std::int64_t most_work);

}  // namespace tessera::driver::gpu
