#pragma once

#include <tessera/detail/operation_unzip.hpp>

#include <memory>
#include <vector>

namespace tessera::detail::operation {

// The sources of unzip() that a run produces for others, or waits for. Guarded by the run's mutex; only the pumping
// thread adds.
struct UnzipSources {
  std::vector<std::weak_ptr<UnzipSource>> produced;
  std::vector<std::weak_ptr<UnzipSource>> awaited;

  void add_produced(const std::shared_ptr<UnzipSource>& source) {
    if (produced.size() == produced.capacity()) drop_expired(produced);
    produced.push_back(source);
  }
  void add_awaited(const std::shared_ptr<UnzipSource>& source) {
    drop_expired(awaited);
    awaited.push_back(source);
  }
  void reset() noexcept {
    produced.clear();
    awaited.clear();
  }

 private:
  static void drop_expired(std::vector<std::weak_ptr<UnzipSource>>& sources) {
    std::erase_if(sources, [](const std::weak_ptr<UnzipSource>& one) { return one.expired(); });
  }
};

}  // namespace tessera::detail::operation
