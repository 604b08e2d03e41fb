#include "job.hpp"

#include <cstdlib>
#include <numeric>
#include <utility>

namespace demo {

using tessera::Buffer;
using tessera::Command;
using tessera::Priority;

namespace {

// The middle of the picture first.
Priority priority_of(std::size_t strip) {
  const int distance = std::abs(2 * static_cast<int>(strip) - (strips - 1)) / 2;
  return static_cast<Priority>(distance * 3 / (strips / 2));
}

}  // namespace

Job::Job(const tessera::Device& device) : sum_(device.zeros({strip_height, width})) {
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    streams_[static_cast<std::size_t>(priority)] = device.stream({.priority = priority, .in_order = false});
  }
  const Buffer minus_four =
      device.buffer<float>(std::vector<float>(strip_height * width, -4.0F), {strip_height, width});
  for (int index = 0; index < strips; ++index) strips_.emplace_back(device, index, minus_four);
}

void Job::start() {
  for (std::size_t thread = 0; thread < threads; ++thread) {
    submitted_[thread].thread = std::jthread([this, thread] { submit_all(thread); });
  }
}

void Job::Submitted::add(Command command, Priority priority) {
  const std::size_t index = count.load(std::memory_order_relaxed);
  entries[index] = {std::move(command), priority};
  count.store(index + 1, std::memory_order_release);
}

void Job::submit_all(std::size_t thread) {
  const auto submit_for = [&](std::size_t strip) {
    return [&, priority = priority_of(strip)](std::string_view kernel, const tessera::BufferList& inputs,
                                              const Buffer& output, const tessera::Params& params) {
      const tessera::Stream& stream = streams_[static_cast<std::size_t>(priority)];
      submitted_[thread].add(stream.submit(kernel, inputs, output, params), priority);
    };
  };
  for (int i = 0; i < iterations; ++i) {
    for (std::size_t strip = thread; strip < strips; strip += threads) strips_[strip].iterate(submit_for(strip));
  }
  for (std::size_t strip = thread; strip < strips; strip += threads) {
    submit_for(strip)("elementwise_add", {sum_, strips_[strip].counts()}, sum_, {});
  }
}

std::size_t Job::commands_over() const {
  std::size_t over = 0;
  for (const Submitted& part : submitted_) {
    const std::size_t count = part.count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) over += is_terminal(part.entries[i].command.poll()) ? 1 : 0;
  }
  return over;
}

std::vector<float> Job::counts() const {
  std::vector<float> all;
  for (const Strip& strip : strips_) {
    const std::vector<float> counts = strip.counts().read<float>();
    all.insert(all.end(), counts.begin(), counts.end());
  }
  return all;
}

double Job::mean_count() const {
  const std::vector<float> sum = sum_.read<float>();
  return std::accumulate(sum.begin(), sum.end(), 0.0) / (width * height);
}

std::map<tessera::CommandId, Priority> Job::priorities() const {
  std::map<tessera::CommandId, Priority> priorities;
  for (const Submitted& part : submitted_) {
    for (const Entry& entry : part.entries) priorities[entry.command.id()] = entry.priority;
  }
  return priorities;
}

}  // namespace demo
