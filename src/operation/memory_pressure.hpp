#pragma once

#include <cstddef>

namespace tessera::detail::operation {

// Whether a run has to wait for memory (memory_pressure.cpp). Used by the pumping thread only.
struct MemoryPressure {
  std::size_t unchecked_bytes = 0;  // taken since the device's memory was last looked at
  // There is no memory for the next step, but work in flight will release some: nothing is begun or stepped until then.
  bool is_starved = false;
  bool has_timer = false;  // which will make the run look again

  void reset() noexcept { *this = {}; }
};

}  // namespace tessera::detail::operation
