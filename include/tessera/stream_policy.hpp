#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/device.hpp>
#include <tessera/stream.hpp>

#include <cstdint>
#include <memory>

namespace tessera {

// Chooses the streams of operations that are given none.
class TESSERA_API StreamPolicy {
 public:
  virtual ~StreamPolicy();
  // The stream for an operation that begins on this device; an empty one: no stream. `task` tells tasks apart, 0 is
  // none. Any thread.
  virtual Stream stream_for(const Device& device, std::uint64_t task) = 0;
};
// So many streams in turn; one for all; one for each Task, and one for what is awaited elsewhere. They keep the streams
// of the devices that they have seen.
TESSERA_API std::shared_ptr<StreamPolicy> round_robin_streams(unsigned count = 4);
TESSERA_API std::shared_ptr<StreamPolicy> single_stream();
TESSERA_API std::shared_ptr<StreamPolicy> stream_per_task();
// Of the process, from now on; null: the one it begins with, four streams of each device in turn.
TESSERA_API void set_stream_policy(std::shared_ptr<StreamPolicy> policy);

}  // namespace tessera
