#pragma once

#include "compile/compile.hpp"
#include "compile/passes/split_reduction.hpp"
#include "driver/driver.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace tessera::driver::cpu {

// Runs a program that reduces a long axis to few elements: parts of the axis are reduced in parallel, and their partial
// results combined in order.
class SplitReduction {
 public:
  // Null for programs that cannot be split.
  static std::unique_ptr<SplitReduction> of(const ir::Program& program);

  // How the axis is divided.
  struct Split {
    std::int64_t extent = 0;
    std::int64_t steps = 0;  // extent of every part but the last
    std::int64_t parts = 0;
  };
  // nullopt where splitting does not pay. Depends on the extents only, so results do not vary with the thread count.
  std::optional<Split> split(const Launch& launch) const;
  std::size_t partial_bytes(const Launch& launch, const Split& split) const;

  // Must have returned before run() and finish(). Blocks; thread-safe. After an Error the next call tries again.
  void compile();
  // Reduces one part into launch.partial.
  void run(const Launch& launch, const Split& split, std::int64_t part) const;
  // Combines the partial results into the output.
  void finish(const Launch& launch, const Split& split) const;

  // The extent of the reduced axis.
  std::int64_t extent(const Launch& launch) const;

 private:
  SplitReduction(compile::SplitReduction programs, compile::Tiling tiling, int weight);
  std::int64_t bytes_read(const Launch& launch) const;
  std::int64_t partial_elements(const Launch& launch) const;
  std::size_t partial_bytes(const Launch& launch, const Split& split, std::size_t reduction) const;
  std::size_t rank() const { return programs_.is_kept.size(); }
  std::int64_t partial_dim(const Launch& launch, std::size_t axis) const {
    return programs_.is_kept[axis] ? launch.dims[axis] : 1;
  }

  const compile::SplitReduction programs_;
  const compile::Tiling tiling_;  // of the unsplit program
  const int weight_;              // its cost per byte
  std::mutex mutex_;
  std::atomic<bool> is_compiled_{false};
  std::vector<std::shared_ptr<const compile::Compiled>> partial_;
  std::shared_ptr<const compile::Compiled> finish_;
};

}  // namespace tessera::driver::cpu
