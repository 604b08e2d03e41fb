#pragma once

#include "engine/device_state.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

// What submitting a command and submitting a run of a pipeline have in common (submit.cpp).
namespace tessera::detail::engine {

// Work that moves no more than this is done by the submitting thread, under the order lock, if nothing is ahead of it:
// 4 KiB take less than 0.2 µs, handing over to a worker 0.3 µs and more (bench: "independent tiny commands").
inline constexpr std::int64_t small_bytes = 4096;

// Nanoseconds of a command, roughly: 8 GB/s, and what a command costs itself.
std::uint64_t estimated_cost(std::int64_t bytes);
// And of one that has to be compiled first.
inline constexpr std::uint64_t compilation_cost = 20'000'000;

// A time beyond the clock's end never comes.
Clock::time_point from_now(std::chrono::nanoseconds time);

// Takes a place in the stream, if there is one. The failure if the stream is full and rejects; `is_dropped`, and the
// stream is null from then on, if the command must be cancelled for it.
core::FailurePtr enter(StreamState*& stream, std::string_view label, bool* is_dropped);
inline constexpr std::string_view dropped = "was dropped: its stream is full of started commands";

// All of these under the order lock.
//
// Gives a node its place among those that use its buffers; adds whom it has to wait for.
void find_earlier(Work& node, std::vector<Ordered*>& earlier);
// Makes it wait for those that are not over.
void wait_for_all(Work& node, const std::vector<Ordered*>& earlier);
// A command that is over before it could begin, or that was small enough to be done at once: the last one numbered.
Ref<Work> ended_command(DeviceState& device, std::string_view label, Status status, core::FailurePtr failure);

}  // namespace tessera::detail::engine
