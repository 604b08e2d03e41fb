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

// A program that reduces a long axis to few elements, done in parts of that axis.
class Parts {
 public:
  // Nothing for other programs.
  static std::unique_ptr<Parts> of(const ir::Program& program);

  // How the axis is cut.
  struct Cut {
    std::int64_t extent = 0;
    std::int64_t steps = 0;  // the extent of all parts but the last
    std::int64_t parts = 0;
  };
  // Nothing where it is not worth it. It depends on the extents alone: neither the number of threads nor chance has a
  // say in what comes out.
  std::optional<Cut> cut(const Launch& launch) const;
  std::size_t partial_bytes(const Launch& launch, const Cut& cut) const;

  // What needs code comes after this. Blocks; several threads may come at a time. After an Error the next one tries
  // again.
  void compile();
  void run(const Launch& launch, const Cut& cut, std::int64_t part) const;
  void finish(const Launch& launch, const Cut& cut) const;

  // Of the axis that is reduced.
  std::int64_t extent(const Launch& launch) const;

 private:
  Parts(compile::SplitReduction programs, compile::Tiling tiling, int weight);
  std::int64_t bytes_read(const Launch& launch) const;
  std::int64_t partial_elements(const Launch& launch) const;
  std::size_t partial_bytes(const Launch& launch, const Cut& cut, std::size_t reduction) const;
  std::size_t rank() const { return programs_.is_kept.size(); }
  std::int64_t partial_dim(const Launch& launch, std::size_t axis) const {
    return programs_.is_kept[axis] ? launch.dims[axis] : 1;
  }

  const compile::SplitReduction programs_;
  const compile::Tiling tiling_;  // of the whole program
  const int weight_;              // and what a byte costs there
  std::mutex mutex_;
  std::atomic<bool> is_compiled_{false};
  std::vector<std::shared_ptr<const compile::Compiled>> partial_;
  std::shared_ptr<const compile::Compiled> finish_;
};

}  // namespace tessera::driver::cpu
