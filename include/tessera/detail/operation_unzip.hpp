#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_traits.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

// What unzip() leaves: parts that share the evaluation of one source. Not for user code.
namespace tessera::detail {

// The common source of some parts. The first part to be evaluated evaluates the source in its own run, the *producer*.
// Parts in that run continue at once; parts in other runs wait until the producer's commands have finished. A producer
// that is cancelled goes on until the source has its value if other runs may need it.
class TESSERA_API UnzipSource {
 public:
  explicit UnzipSource(NodePtr source);
  ~UnzipSource();
  UnzipSource(const UnzipSource&) = delete;
  UnzipSource& operator=(const UnzipSource&) = delete;

  // Called by a part's step(). If the source has its value, returns a lock under which the part may take it. Otherwise
  // the part waits, and its step() is called again. `self` owns this object; `is_unused` is the part's own flag.
  [[nodiscard]] std::unique_lock<std::mutex> join(Evaluator& evaluator, OperationNode& part,
                                                  const std::shared_ptr<UnzipSource>& self, bool& is_unused);
  engine::DeviceState* device() const noexcept;
  std::uint32_t depth() const noexcept;

  // Counts the parts that exist and have not joined: they may need the value. A part that joins becomes a user under
  // the same lock, so that there is no moment at which a producer misses it.
  void add_unused() noexcept { unused_.fetch_add(1, std::memory_order_relaxed); }
  void remove_unused() noexcept { unused_.fetch_sub(1, std::memory_order_relaxed); }

  // Lets the source be evaluated again after a failure, unless it has begun already.
  void make_repeatable();
  // If it has failed and is repeatable, the next part evaluates it again.
  void reset();

 private:
  friend class operation::RunState;
  struct Root;
  struct WaitingPart {
    std::shared_ptr<operation::RunState> run;  // null: in the producer itself
    OperationNode* part;
  };
  // fresh: nobody evaluates it. claimed: its producer is evaluating it. ready: it has its value. failed: it has none.
  enum class State : std::uint8_t { fresh, claimed, ready, failed };
  // Whether other runs need the value from a producer: no; yes, and it is there; yes, and it is being computed.
  enum class Demand : std::uint8_t { none, produced, producing };

  bool claim(operation::RunState& run, OperationNode& part, const std::shared_ptr<UnzipSource>& self, bool& is_unused);
  void make_room_for_waiting();
  void add_user(const std::shared_ptr<operation::RunState>& run);
  void prepare(bool is_again);
  // Called by the producer: the source has its value; and the producer has failed or finished.
  void produced(operation::RunState& run);
  void finish(const std::exception_ptr& failure, bool is_usable) noexcept;
  // Under the run's lock. `seen` keeps what was looked at alive until the lock is released.
  Demand demand_on(const operation::RunState& run, std::vector<std::shared_ptr<const void>>& seen);
  // A run that is cancelled no longer waits. Returns the producer.
  std::shared_ptr<operation::RunState> leave(const operation::RunState& run) noexcept;

  NodePtr root_;                          // its child is the source
  std::atomic<std::uint32_t> unused_{0};  // parts
  std::mutex mutex_;                      // lock order: the producer's, then this
  State state_ = State::fresh;
  bool is_repeatable_ = false;
  bool has_begun_ = false;                                 // must be reset before it begins again
  std::shared_ptr<operation::RunState> producer_;          // until that has finished
  std::vector<std::weak_ptr<operation::RunState>> users_;  // other runs that need it
  std::exception_ptr failure_;
  std::vector<WaitingPart> waiting_;
};

// One element of the source's tuple.
template <class Tuple, std::size_t I>
class UnzipNode final : public TypedNode<std::tuple_element_t<I, Tuple>> {
 public:
  UnzipNode(std::shared_ptr<UnzipSource> source, TypedNode<Tuple>* tuple) : source_(std::move(source)), tuple_(tuple) {
    this->set_device(source_->device());
    this->set_depth(source_->depth());
    source_->add_unused();
  }
  ~UnzipNode() override {
    if (is_unused_) source_->remove_unused();
  }
  UnzipNode(const UnzipNode&) = delete;
  UnzipNode& operator=(const UnzipNode&) = delete;

  bool step(Evaluator& evaluator) override {
    std::unique_lock lock = source_->join(evaluator, *this, source_, is_unused_);
    if (!lock) return false;
    auto& element = std::get<I>(*tuple_->value);
    for_each_tensor(element, [&](const TensorHandle& tensor) { evaluator.throw_if_poisoned(tensor); });
    if (is_repeatable_) {
      this->value.emplace(copy_of(element, evaluator));
      return true;
    }
    this->value.emplace(std::move(element));
    lock.unlock();
    source_ = nullptr;  // the last part drops the values that nobody took
    return true;
  }
  void make_repeatable() override {
    is_repeatable_ = true;
    source_->make_repeatable();
  }
  void reset() override {
    TypedNode<std::tuple_element_t<I, Tuple>>::reset();
    source_->reset();
    if (!std::exchange(is_unused_, true)) source_->add_unused();
  }

 private:
  bool is_unused_ = true;  // it may be evaluated, and has not joined the source
  bool is_repeatable_ = false;
  std::shared_ptr<UnzipSource> source_;
  TypedNode<Tuple>* tuple_;
};

}  // namespace tessera::detail
