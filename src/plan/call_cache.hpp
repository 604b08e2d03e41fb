#pragma once

#include "core/spin_lock.hpp"
#include "driver/driver.hpp"
#include "kernels/kernel.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::plan {

// One program of a kernel on a device. Calls share it unless they differ in something that is compiled into it.
struct CallProgram {
  const driver::Executable* executable = nullptr;
  ir::Program program;
  std::uint64_t in_place = 0;                // bit i: input i may be the same buffer as the output
  bool is_merged = false;                    // it uses merged axes
  bool sees_tiles = false;                   // its results may depend on the tiles
  std::vector<ir::SameExtent> same_extents;  // for the call's own axes

  bool may_be_in_place(std::size_t input) const noexcept { return input < 64 && (in_place >> input & 1) != 0; }
};

// Resolves calls of kernels on a device to a program and its launch arguments. Any thread.
//
// There are three levels. *Ready* calls, of a pointwise kernel with operands of one type and shape, need neither a lock
// nor an allocation. *Known* calls have the same shapes, types and parameters as an earlier one. For other calls the
// kernel makes a plan, whose *program* may exist already. Only a new program is traced.
class CallCache {
 public:
  explicit CallCache(driver::Driver& driver) : driver_(driver) {}
  ~CallCache();
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;

  // Checks a call (the output is the first operand) and sets the launch's executable, extents, scalars and cost. Throws
  // an Error that names the culprit. `tile` is the tile that the caller chose, if any.
  const CallProgram& resolve(const kernels::Kernel& kernel, std::span<const kernels::Operand> operands,
                             const kernels::ParamsView& params, driver::Launch& launch,
                             std::span<const std::int64_t> tile = {});

 private:
  struct Ready {
    const CallProgram* program = nullptr;
    std::int64_t weight = 1;  // its cost per byte
    int rank = -1;            // of the operands; -1: any rank
    struct Scalar {
      std::size_t param;
      DType dtype;
    };
    std::vector<Scalar> scalars;
  };
  struct Known {
    const CallProgram* program = nullptr;
    std::int64_t cost = 0;
    std::vector<std::int64_t> dims;
    std::vector<std::uint64_t> scalars;
  };
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using KnownCalls = std::unordered_map<std::string, std::shared_ptr<const Known>, TextHash, std::equal_to<>>;

  // By kernel number and type: blocks of rows, allocated when they are needed.
  static constexpr std::size_t block_size = 64, blocks = 256;
  using Row = std::array<std::atomic<const Ready*>, std::size(all_dtypes)>;
  using Block = std::array<Row, block_size>;
  const Ready* ready(const kernels::Kernel& kernel, DType dtype) const noexcept;
  void set_ready(const kernels::Kernel& kernel, DType dtype, Ready entry);

  const CallProgram& resolve_known(const kernels::Call& call, driver::Launch& launch);
  std::shared_ptr<const Known> plan(const kernels::Call& call);
  const CallProgram& program_of(const kernels::Call& call, const kernels::Lowering& lowering);
  std::unique_ptr<CallProgram> make_program(const kernels::Call& call, const kernels::Lowering& lowering);
  void note_ready(const kernels::Call& call, const kernels::Lowering& lowering, const CallProgram& program);

  driver::Driver& driver_;
  std::array<std::atomic<Block*>, blocks> ready_{};
  core::SpinLock known_lock_;
  KnownCalls known_;
  std::mutex mutex_;  // guards the rest
  std::unordered_map<std::string, std::unique_ptr<CallProgram>> programs_;
  std::vector<std::unique_ptr<const Ready>> ready_entries_;
};

// Errc::invalid_argument if an input must not share the output's memory: because the kernel reads neighbouring
// elements, or because the two have different types or shapes. The message begins with "[label] ", if there is a label.
void check_alias(const CallProgram& program, std::string_view label, std::size_t input, const kernels::Operand& read,
                 const kernels::Operand& written);

}  // namespace tessera::plan
