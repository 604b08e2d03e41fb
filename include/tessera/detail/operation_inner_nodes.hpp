#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_nodes.hpp>
#include <tessera/detail/operation_run.hpp>
#include <tessera/device.hpp>
#include <tessera/error.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// The nodes that evaluate a tree in a run of its own, whose failure they can handle. Not for user code.
namespace tessera::detail {

// Starts an inner run and waits until it finishes, whatever the outcome.
template <class T>
class InnerRunNode : public TypedNode<T>, protected RunObserver {
 public:
  explicit InnerRunNode(NodePtr source) noexcept : source_(std::move(source)) {}
  void begin(Evaluator& evaluator) override {
    if (!evaluator.has_memory_for(Evaluator::min_memory_check)) return;
    start(evaluator, std::move(source_));
    if (!is_waiting_) OperationNode::begin(evaluator);
  }
  void reset() override {
    TypedNode<T>::reset();
    if (NodePtr root = run_.take_root()) source_ = std::move(root);  // even if the run could not begin
    run_ = OperationRun();
  }
  void make_repeatable() override { source_->forbid_inline(); }  // copying retained tensors takes more kernel calls
  void append_inner_trees(std::vector<OperationNode*>& nodes) override {
    if (source_) nodes.push_back(source_.get());
  }

 protected:
  OperationNode* inner() const noexcept { return source_.get(); }
  void set_inner(NodePtr source) noexcept { source_ = std::move(source); }
  virtual void started(const OperationRun&) {}

  void start(Evaluator& evaluator, NodePtr&& root) {
    RunOptions options = evaluator.inner_options();
    if (uses_own_device_ && root->device() && root->device() != &evaluator.device()) {
      options.stream = {};
      options.is_stream_fixed = false;
    }
    run_ = OperationRun(std::move(root));
    run_.begin(std::move(options));
    evaluator.add_inner_run(run_);
    is_waiting_ = !run_.is_finished();
    if (!is_waiting_) return;
    evaluator.suspend(*this);
    outer_ = evaluator.share();
    if (!run_.add_observer(*this)) return run_finished();
    started(run_);
  }
  // For step(): the inner run, which has finished.
  const OperationRun& finished() {
    is_waiting_ = false;
    return run_;
  }

  OperationRun run_;
  bool is_waiting_ = false;
  bool uses_own_device_ = false;  // the inner tree runs on its own device, if it has one, not on this node's

 private:
  NodePtr source_;  // until it runs
  void run_finished() noexcept override {
    const std::shared_ptr<Evaluator> outer = std::move(outer_);
    outer->resume(*this);
  }
  std::shared_ptr<Evaluator> outer_;
};

template <class T, class F>
class OrElseNode final : public InnerRunNode<T> {
 public:
  OrElseNode(TypedNodePtr<T> source, F function) : InnerRunNode<T>(std::move(source)), function_(std::move(function)) {
    this->set_device(this->inner()->device());
  }
  bool step(Evaluator& evaluator) override {
    if (next_) {
      this->value.emplace(next_->take());
      next_ = nullptr;
      this->drop_children_after(0);
      return true;
    }
    const OperationRun& run = this->finished();
    if (!run.failure()) {
      this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
      return true;
    }
    const Error error = error_of(run.failure());
    using Next = std::invoke_result_t<F&, const Error&>;
    if constexpr (is_operation<Next>) {
      auto next = std::invoke(function_, error).take_node();
      next_ = next.get();
      evaluator.add_child(*this, std::move(next));
      return false;
    } else if constexpr (std::is_void_v<T>) {
      std::invoke(function_, error);
      this->value.emplace();
      return true;
    } else {
      this->value.emplace(std::invoke(function_, error));
      return true;
    }
  }
  void reset() override {
    InnerRunNode<T>::reset();
    next_ = nullptr;
    this->drop_children_after(0);
  }

 private:
  F function_;
  TypedNode<T>* next_ = nullptr;
};

// Whether a retry can help: not if the caller is at fault or has cancelled.
TESSERA_API bool is_worth_retrying(const Error& error) noexcept;

template <class T>
class RetryNode final : public InnerRunNode<T> {
 public:
  RetryNode(TypedNodePtr<T> source, int times) : InnerRunNode<T>(std::move(source)), times_(times), left_(times) {
    this->set_device(this->inner()->device());
  }
  void begin(Evaluator& evaluator) override {
    this->make_repeatable();
    for_each_in_tree(*this->inner(), [](OperationNode& node) { node.make_repeatable(); });
    InnerRunNode<T>::begin(evaluator);
  }
  bool step(Evaluator& evaluator) override {
    while (true) {
      const OperationRun& run = this->finished();
      if (!run.failure()) {
        this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
        return true;
      }
      if (left_ == 0 || !is_worth_retrying(error_of(run.failure()))) std::rethrow_exception(run.failure());
      --left_;
      for_each_in_tree(run.root(), [](OperationNode& node) { node.reset(); });
      this->start(evaluator, run.take_root());
      if (this->is_waiting_) return false;
    }
  }
  void reset() override {
    InnerRunNode<T>::reset();
    left_ = times_;
  }

 private:
  const int times_;
  int left_;
};

template <class T>
class TimeoutNode final : public InnerRunNode<T> {
 public:
  TimeoutNode(TypedNodePtr<T> source, std::chrono::nanoseconds time) : InnerRunNode<T>(std::move(source)), time_(time) {
    this->set_device(this->inner()->device());
  }
  bool step(Evaluator&) override {
    const OperationRun& run = this->finished();
    run.throw_if_failed();
    this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
    return true;
  }

 private:
  void started(const OperationRun& run) override { cancel_after(run, time_); }
  std::chrono::nanoseconds time_;
};

// Chooses the device of a tree. Inside a tree on another device it becomes an inner run.
template <class T>
class OnDeviceNode final : public InnerRunNode<T> {
 public:
  OnDeviceNode(TypedNodePtr<T> source, const Device& device)
      : InnerRunNode<T>(nullptr), tree_(source.get()), on_(device) {
    this->uses_own_device_ = true;
    this->allow_inline(0);
    this->set_device(Access::get(device));
    this->add_child(std::move(source));
  }
  void begin(Evaluator& evaluator) override {
    if (!this->inner()) {
      if (evaluator.evaluates_on(*Access::get(on_))) return OperationNode::begin(evaluator);
      this->set_inner(this->take_child());
      this->forbid_inline();  // without a child it would count as a leaf
      tree_->set_device(Access::get(on_));
    }
    InnerRunNode<T>::begin(evaluator);
  }
  bool step(Evaluator&) override {
    if (this->run_) this->finished().throw_if_failed();
    this->value.emplace(tree_->take());
    return true;
  }
  void make_repeatable() override { tree_->forbid_inline(); }

 private:
  TypedNode<T>* tree_;  // a child, or the root of the inner run
  Device on_;
};

// Copies a tensor to another device through host memory.
template <Element T>
class CopyToNode final : public InnerRunNode<Tensor<T>> {
 public:
  template <TensorLike From>
  CopyToNode(TypedNodePtr<From> source, const Device& to)
      : InnerRunNode<Tensor<T>>(NodePtr(new ToHostNode<From>(std::move(source)))),
        shape_([](const OperationNode& node) { return static_cast<const ToHostNode<From>&>(node).shape(); }),
        to_(to) {
    this->set_device(Access::get(to));
    this->uses_own_device_ = true;
  }
  bool step(Evaluator& evaluator) override {
    const OperationRun& run = this->finished();
    run.throw_if_failed();
    const Shape shape = shape_(run.root());
    if (!evaluator.has_memory_for(shape.size_bytes(dtype_of<T>))) return false;
    auto values = std::make_shared<const std::vector<T>>(static_cast<TypedNode<std::vector<T>>&>(run.root()).take());
    if (&evaluator.device() == Access::get(to_)) {
      this->value.emplace(evaluator.upload(shape, dtype_of<T>, std::as_bytes(std::span(*values)), values));
    } else {
      this->value.emplace(to_.buffer<T>(*values, shape));
    }
    return true;
  }

 private:
  Shape (*shape_)(const OperationNode&);
  Device to_;
};

// The result of when_any(): the index of the first to complete, and its value if it has one.
template <class T>
using WhenAnyResult = std::conditional_t<std::is_void_v<T>, std::size_t, std::pair<std::size_t, Stored<T>>>;

template <class T>
class WhenAnyNode final : public TypedNode<WhenAnyResult<T>> {
 public:
  void add(TypedNodePtr<T> source) {
    if (!this->device()) this->set_device(source->device());
    sources_.push_back(std::move(source));
  }
  void begin(Evaluator& evaluator) override {
    if (!evaluator.has_memory_for(Evaluator::min_memory_check)) return;
    entries_ = std::vector<Entry>(sources_.size());
    evaluator.suspend(*this);
    outer_ = evaluator.share();
    unfinished_ = sources_.size();
    for (std::size_t i = 0; i < sources_.size(); ++i) {  // a run that finishes early looks at all entries
      entries_[i].node = this;
      entries_[i].index = i;
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Entry& entry = entries_[i];
      OperationRun run;
      try {
        RunOptions options = evaluator.inner_options();
        run = OperationRun(std::move(sources_[i]));
        run.begin(std::move(options));
      } catch (...) {  // the others may have begun, and are waited for
        entry.failure = std::current_exception();
        if (NodePtr root = run.take_root()) sources_[i].reset(static_cast<TypedNode<T>*>(root.release()));
        entry.run_finished();
        continue;
      }
      evaluator.add_inner_run(run);
      bool is_late = false;
      {
        const std::scoped_lock lock(mutex_);
        entry.run = std::move(run);
        is_late = winner_.has_value();
      }
      if (is_late) entry.run.cancel(Errc::cancelled, too_late);
      if (!entry.run.add_observer(entry)) entry.run_finished();
    }
  }
  bool step(Evaluator&) override {
    if (!winner_) std::rethrow_exception(entries_[0].why_failed());
    if constexpr (std::is_void_v<T>) {
      this->value.emplace(*winner_);
    } else {
      this->value.emplace(*winner_, static_cast<TypedNode<T>&>(entries_[*winner_].run.root()).take());
    }
    return true;
  }
  void make_repeatable() override {
    for (const TypedNodePtr<T>& source : sources_) source->forbid_inline();  // as in InnerRunNode
  }
  void reset() override {
    TypedNode<WhenAnyResult<T>>::reset();
    winner_.reset();
    for (Entry& entry : entries_) {
      if (entry.run) sources_[entry.index].reset(static_cast<TypedNode<T>*>(entry.run.take_root().release()));
    }
    entries_.clear();
  }
  void append_inner_trees(std::vector<OperationNode*>& nodes) override {
    for (const TypedNodePtr<T>& source : sources_) {
      if (source) nodes.push_back(source.get());
    }
  }

 private:
  static constexpr std::string_view too_late = "another operation of when_any() completed first";
  struct Entry final : RunObserver {
    WhenAnyNode* node = nullptr;
    std::size_t index = 0;
    OperationRun run;
    std::exception_ptr failure;  // if the run could not begin
    const std::exception_ptr& why_failed() const noexcept { return failure ? failure : run.failure(); }
    void run_finished() noexcept override { node->finished(index); }
  };

  void finished(std::size_t index) noexcept {
    bool has_won = false;
    {
      const std::scoped_lock lock(mutex_);
      has_won = !winner_ && !entries_[index].why_failed();
      if (has_won) winner_ = index;
    }
    if (has_won) cancel_others(index);
    {
      const std::scoped_lock lock(mutex_);
      if (--unfinished_ != 0) return;  // from here on the last one may destroy this node
    }
    const std::shared_ptr<Evaluator> outer = std::move(outer_);  // it owns this node
    outer->resume(*this);
  }

  void cancel_others(std::size_t winner) noexcept {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      OperationRun loser;
      {
        const std::scoped_lock lock(mutex_);
        if (i != winner) loser = entries_[i].run;
      }
      if (loser) loser.cancel(Errc::cancelled, too_late);
    }
  }

  std::vector<TypedNodePtr<T>> sources_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t unfinished_ = 0;
  std::optional<std::size_t> winner_;
  std::shared_ptr<Evaluator> outer_;
};

}  // namespace tessera::detail
