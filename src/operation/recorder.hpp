#pragma once

#include <tessera/detail/operation_node.hpp>

#include "core/failure.hpp"
#include "core/pooled.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/submission.hpp"
#include "pipeline/pipeline_state.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::detail {

class KeyWriter;
class Recorder;

// What tensors point at: memory, or only the promise of it as long as what writes it is recorded and not submitted. Any
// thread.
struct TensorState : core::Pooled<TensorState> {
  // Recorded only.
  TensorState(engine::DeviceState& on, const Shape& with_shape, DType with_dtype,
              const std::shared_ptr<Recorder>& recorder)
      : device(&on), shape(with_shape), dtype(with_dtype), recorder_(recorder) {}
  explicit TensorState(Buffer memory);
  // Another shape for the same memory.
  TensorState(TensorState& of, const Shape& seen);

  std::atomic<std::uint32_t> refs{1};
  engine::DeviceState* const device;  // which its recorder or its memory keeps; if there is neither, it does itself
  const Shape shape;
  const DType dtype;

  // The one whose memory it is, which all of the rest is about: itself, if it is not another's reshaped.
  TensorState& memory() noexcept { return base_ ? *base_ : *this; }

  // The memory, if there is any, or why it has not what it should have.
  struct Contents {
    Buffer buffer;
    core::FailurePtr failure;
  };
  Contents contents();  // as it is now
  // The same without a count or a lock, if nothing is recorded and nothing is wrong: good as long as one holds it.
  const Buffer* plain() const noexcept {
    return is_plain_.load(std::memory_order_acquire) ? &contents_.buffer : nullptr;
  }
  // What is recorded and uses it has to be submitted before anybody else uses it.
  std::shared_ptr<Recorder> recorder();
  void set_recorder(const std::shared_ptr<Recorder>& recorder);
  // The recorder has submitted it, or has not, for a reason. Without a buffer the memory stays what it was.
  void settle(const Recorder& recorder, const Buffer& memory, const core::FailurePtr& why);

  std::size_t number = 0;  // in the recorder that made it

 private:
  const Ref<TensorState> base_;
  Ref<engine::DeviceState> kept_device_;
  core::SpinLock lock_;
  std::atomic<bool> is_plain_{false};
  Contents contents_;
  std::shared_ptr<Recorder> recorder_;
};

// The tiles that a call wants: its own, those of its grid, or none.
void set_tile(const KernelWork& work, std::vector<std::int64_t>& tile);

// The plan of some calls, and which of its numbers are those that the calls bring: they may be others each time.
struct OperationPlan {
  std::shared_ptr<const engine::PlanVariant> variant;  // with the numbers that it was made for
  struct Scalar {
    std::size_t group;   // of the plan
    std::size_t number;  // in its launch
    std::size_t value;   // of those of all such calls, one after the other
  };
  std::vector<Scalar> scalars;  // of tile kernels: their parameters as they are
  std::vector<Scalar> planned;  // of kernels with named parameters: what those make of them
};

// What the operations of a device have in common: goes with the device's last handle.
struct OperationCache {
  static constexpr std::size_t lanes = 4;
  using Key = std::vector<std::uint64_t>;  // all that a plan depends on

  std::array<Stream, lanes> streams;
  std::atomic<std::uint32_t> next_stream{0};
  const std::shared_ptr<engine::RunLog> log = std::make_shared<engine::RunLog>();

  std::shared_ptr<const OperationPlan> find(const Key& key);
  void add(const Key& key, std::shared_ptr<const OperationPlan> plan);

  // Null if the device has no handle any more: nothing would end its life then.
  static std::shared_ptr<OperationCache> of(engine::DeviceState& device);

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Entry {
    std::shared_ptr<const OperationPlan> plan;
    std::uint64_t last_use;
  };
  std::mutex mutex_;
  std::unordered_map<Key, Entry, Hash> plans_;
  std::uint64_t uses_ = 0;
};

// Writes calls of kernels down, and submits them together: one as a command, several as a pipeline, whose plan is made
// once for all that are alike. Tensors that nobody holds any more by then are temporaries: if fusion makes them
// unnecessary, they never have memory. Any thread.
class Recorder {
 public:
  // Before anything else; and back to the beginning, with all room kept.
  void open(engine::DeviceState& device, const Stream& stream, const std::shared_ptr<Recorder>& self);
  void close() noexcept;

  TensorHandle make(const Shape& shape, DType dtype);
  void add(const KernelWork& work);
  // A graph that pins too much memory is cut and run: submits all if so much more would be too much for what is
  // recorded.
  void check_room(std::size_t bytes);
  // What it will need for tensors that are held, or more.
  std::size_t promised();
  // Submits all, whatever comes of it.
  void flush() noexcept;
  // The same. If there is not enough memory for all of it: with `can_wait` nothing that there is no memory for, else
  // at least one call, or it has failed; the rest stays recorded.
  struct Flushed {
    std::size_t next_command;
    core::FailurePtr failure;
    bool is_short;  // of memory: there is a rest
  };
  // `commands` gets those from this number on.
  Flushed flush(bool can_wait, std::size_t from, std::vector<Ref<engine::Work>>& commands) noexcept;
  // Submits nothing, for this reason.
  void give_up(const core::FailurePtr& why) noexcept;

  // Work of the host's on memory that is there, unless it is small and has been done.
  void submit_host(engine::HostWork work);

 private:
  struct Operand {
    Ref<TensorState> tensor;
    Buffer buffer;              // the memory, if there is any
    bool is_promised = false;   // there was none when it was recorded
    std::size_t writer = none;  // the last call that writes it
    bool is_read = false;       // since then
    bool is_early = false;      // read before anything was written into it
    bool is_needed = false;     // by somebody who holds it, or by a call that is
    std::size_t last_use = 0;   // the last call that uses it

    bool is_held() const noexcept { return tensor->refs.load(std::memory_order_acquire) > 1; }
  };
  struct Use {
    std::size_t operand;
    std::unique_ptr<const Shape> seen;  // if it is another one than the operand's
  };
  struct Call {
    const kernels::Kernel* kernel = nullptr;  // null: nobody needs it
    std::vector<Use> uses;                    // the output, then the inputs
    Params params;                            // by their names; or
    std::vector<Value> values;                // of all parameters
    std::vector<std::int64_t> tile;

    kernels::Given given() const noexcept { return values.empty() ? kernels::Given(params) : kernels::Given(values); }
  };
  static constexpr std::size_t none = ~std::size_t{0};

  // All under the mutex.
  std::size_t operand_of(const TensorHandle& tensor);
  Use use_of(const TensorHandle& tensor);
  const Shape& shape_of(const Operand& operand) const noexcept;
  const Shape& shape_of(const Use& use) const noexcept;
  void make_room(std::size_t bytes);
  std::size_t pinned() const noexcept;
  std::span<Call> calls() noexcept { return {calls_.data(), call_count_}; }
  std::span<const Call> calls() const noexcept { return {calls_.data(), call_count_}; }
  bool try_flush(bool can_wait) noexcept;
  void flush_locked() noexcept;
  void submit_all();
  void submit_one_by_one();
  void cut() noexcept;
  void drop_unneeded();
  void give_memory(bool is_single);
  void give_memory(Operand& operand);
  void submit_one(const Call& call);
  void submit_plan();
  void check_memory() const;
  void submitted(Ref<engine::Work> command);
  void set_key();
  void set_form_key(std::span<const kernels::Lowering> plans);
  template <class AddParams>
  void write_key(KeyWriter& key, AddParams&& add_params) const;
  std::shared_ptr<const engine::PlanVariant> find_or_make_variant(OperationCache* cache);
  kernels::Lowering plan_of(const Call& call) const;
  std::shared_ptr<const OperationPlan> plan(std::span<const kernels::Lowering> plans) const;
  std::shared_ptr<const engine::PlanVariant> variant_of(const OperationPlan& plan,
                                                            std::span<const kernels::Lowering> plans);
  const std::shared_ptr<Recorder>& self();
  Buffer buffer_of(const Use& use) const;
  void settle(const core::FailurePtr& why) noexcept;

  std::recursive_mutex mutex_;  // a kernel's body is user code, and may look at tensors
  engine::DeviceState* device_ = nullptr;
  Stream stream_;
  std::weak_ptr<Recorder> self_;
  std::shared_ptr<Recorder> held_self_;  // as long as there are operands, which hold it too
  std::vector<Operand> operands_;
  std::vector<Call> calls_;  // the first `call_count_`; the others are room for more
  std::size_t call_count_ = 0;
  std::vector<std::size_t> numbers_;  // of operands in the plan
  OperationCache::Key key_;
  std::vector<std::uint64_t> bits_;  // of the calls' values
  std::size_t promised_ = 0;         // bytes: what was pinned at the last look, and all since then
  bool is_cut_ = false;              // there was no memory for all calls at once: they are submitted one by one
  std::vector<Ref<engine::Work>> commands_;
  core::FailurePtr failure_;
};

}  // namespace tessera::detail
