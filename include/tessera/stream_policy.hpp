#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/device.hpp>
#include <tessera/stream.hpp>

#include <cstdint>
#include <memory>

namespace tessera {

// Chooses the stream of an operation that was started without one.
class TESSERA_API StreamPolicy {
 public:
  virtual ~StreamPolicy();
  // The stream for an operation that starts on this device; an empty Stream means none. `task` identifies the Task that
  // runs the operation, 0 if there is none. Called from any thread.
  virtual Stream stream_for(const Device& device, std::uint64_t task) = 0;
};
// Uses `count` streams of each device in turn. Errc::invalid_argument if it is 0.
TESSERA_API std::shared_ptr<StreamPolicy> round_robin_streams(unsigned count = 4);
// Uses one stream of each device.
TESSERA_API std::shared_ptr<StreamPolicy> single_stream();
// Uses a stream for each Task, and one for operations outside tasks. (A task's id selects one of 64 streams.)
TESSERA_API std::shared_ptr<StreamPolicy> stream_per_task();
// Sets the policy of the process, for operations that start from now on. Null restores the default: four streams of
// each device in turn. The policies above hold their streams, and the streams' devices, as long as they live.
TESSERA_API void set_stream_policy(std::shared_ptr<StreamPolicy> policy);

}  // namespace tessera
