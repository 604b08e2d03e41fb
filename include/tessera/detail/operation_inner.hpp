#pragma once

#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_parts.hpp>
#include <tessera/error.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// The nodes that run other trees by themselves, whose failure is theirs alone: for operation.hpp, not for programs.
namespace tessera::detail {

// A node that runs another tree by itself and waits for its end, whatever that is.
template <class T>
class InnerNode : public TypedNode<T>, protected Run::Observer {
 public:
  explicit InnerNode(NodePtr source) noexcept : source_(std::move(source)) {}
  void begin(Evaluation& evaluation) override {
    if (!evaluation.has_room(Evaluation::least_room)) return;
    start(evaluation, std::move(source_));
    if (!is_waiting_) OperationNode::begin(evaluation);
  }
  void reset() override {
    TypedNode<T>::reset();
    if (!run_) return;
    source_ = run_.take_root();
    run_ = Run();
  }
  void keep() override { source_->set_indirect(); }  // copies of what it keeps are calls more
  void add_inner_to(std::vector<OperationNode*>& nodes) override {
    if (source_) nodes.push_back(source_.get());
  }

 protected:
  OperationNode* inner() const noexcept { return source_.get(); }
  void set_inner(NodePtr source) noexcept { source_ = std::move(source); }
  virtual void started(const Run&) {}

  void start(Evaluation& evaluation, NodePtr root) {
    RunOptions options = evaluation.inner_options();
    if (is_elsewhere_ && root->device() && root->device() != &evaluation.device()) {
      options.stream = {};
      options.keeps_to_stream = false;
    }
    run_ = Run::start(std::move(root), std::move(options));
    evaluation.add_inner(run_);
    started(run_);
    outer_ = evaluation.share();
    is_waiting_ = run_.add_observer(*this);
    if (is_waiting_) {
      evaluation.hold(*this);
    } else {
      outer_ = nullptr;  // it keeps this node
    }
  }
  // At a step: what the inner tree's end was.
  const Run& ended() {
    is_waiting_ = false;
    return run_;
  }

  Run run_;
  bool is_waiting_ = false;
  bool is_elsewhere_ = false;  // the inner tree runs on its own device, if it has one, and not on that of this node

 private:
  NodePtr source_;  // until it runs
  void run_over() noexcept override {
    const std::shared_ptr<Evaluation> outer = std::move(outer_);
    outer->wake(*this);
  }
  std::shared_ptr<Evaluation> outer_;
};

template <class T, class F>
class OrElseNode final : public InnerNode<T> {
 public:
  OrElseNode(TypedNodePtr<T> source, F function) : InnerNode<T>(std::move(source)), function_(std::move(function)) {
    this->set_device(this->inner()->device());
  }
  bool step(Evaluation& evaluation) override {
    if (next_) {
      this->value.emplace(next_->take());
      next_ = nullptr;
      this->drop_children_after(0);
      return true;
    }
    const Run& run = this->ended();
    if (!run.failure()) {
      this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
      return true;
    }
    const Error error = error_of(run.failure());
    using Next = std::invoke_result_t<F&, const Error&>;
    if constexpr (is_operation<Next>) {
      auto next = std::invoke(function_, error).take_node();
      next_ = next.get();
      evaluation.add_child(*this, std::move(next));
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
    InnerNode<T>::reset();
    next_ = nullptr;
    this->drop_children_after(0);
  }

 private:
  F function_;
  TypedNode<T>* next_ = nullptr;
};

// Whether trying again can help: not if the caller is at fault, or does not want it any more.
TESSERA_API bool is_worth_retrying(const Error& error) noexcept;

template <class T>
class RetryNode final : public InnerNode<T> {
 public:
  RetryNode(TypedNodePtr<T> source, int times) : InnerNode<T>(std::move(source)), times_(times), left_(times) {
    this->set_device(this->inner()->device());
  }
  void begin(Evaluation& evaluation) override {
    this->keep();
    for_each_in_tree(*this->inner(), [](OperationNode& node) { node.keep(); });
    InnerNode<T>::begin(evaluation);
  }
  bool step(Evaluation& evaluation) override {
    while (true) {
      const Run& run = this->ended();
      if (!run.failure()) {
        this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
        return true;
      }
      if (left_ == 0 || !is_worth_retrying(error_of(run.failure()))) std::rethrow_exception(run.failure());
      --left_;
      NodePtr again = run.take_root();
      for_each_in_tree(*again, [](OperationNode& node) { node.reset(); });
      this->start(evaluation, std::move(again));
      if (this->is_waiting_) return false;
    }
  }
  void reset() override {
    InnerNode<T>::reset();
    left_ = times_;
  }

 private:
  const int times_;
  int left_;
};

template <class T>
class TimeoutNode final : public InnerNode<T> {
 public:
  TimeoutNode(TypedNodePtr<T> source, std::chrono::nanoseconds time) : InnerNode<T>(std::move(source)), time_(time) {
    this->set_device(this->inner()->device());
  }
  bool step(Evaluation&) override {
    const Run& run = this->ended();
    run.throw_if_failed();
    this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
    return true;
  }

 private:
  void started(const Run& run) override { cancel_after(run, time_); }
  std::chrono::nanoseconds time_;
};

// Where a tree is evaluated. As a part of another tree, which is evaluated elsewhere, it is run by itself.
template <class T>
class OnDeviceNode final : public InnerNode<T> {
 public:
  OnDeviceNode(TypedNodePtr<T> source, const Device& device) : InnerNode<T>(nullptr), tree_(source.get()), on_(device) {
    this->is_elsewhere_ = true;
    this->set_direct(0);
    this->set_device(Access::get(device));
    this->add_child(std::move(source));
  }
  void begin(Evaluation& evaluation) override {
    if (!this->inner()) {
      if (evaluation.runs_on(*Access::get(on_))) return OperationNode::begin(evaluation);
      this->set_inner(this->take_child());
      this->set_indirect();  // without a child it would be taken for a leaf
      tree_->set_device(Access::get(on_));
    }
    InnerNode<T>::begin(evaluation);
  }
  bool step(Evaluation&) override {
    if (this->run_) this->ended().throw_if_failed();
    this->value.emplace(tree_->take());
    return true;
  }
  void keep() override { tree_->set_indirect(); }

 private:
  TypedNode<T>* tree_;  // a child, or run by itself
  Device on_;
};

// Another device's memory, through the host's.
template <Element T>
class CopyToNode final : public InnerNode<Tensor<T>> {
 public:
  template <TensorLike From>
  CopyToNode(TypedNodePtr<From> source, const Device& to)
      : InnerNode<Tensor<T>>(NodePtr(new ToHostNode<From>(std::move(source)))),
        shape_([](const OperationNode& node) { return static_cast<const ToHostNode<From>&>(node).shape(); }),
        to_(to) {
    this->set_device(Access::get(to));
    this->is_elsewhere_ = true;
  }
  bool step(Evaluation& evaluation) override {
    const Run& run = this->ended();
    run.throw_if_failed();
    const Shape shape = shape_(run.root());
    if (!evaluation.has_room(shape.size_bytes(dtype_of<T>))) return false;
    auto values = std::make_shared<const std::vector<T>>(static_cast<TypedNode<std::vector<T>>&>(run.root()).take());
    if (&evaluation.device() == Access::get(to_)) {
      this->value.emplace(evaluation.upload(shape, dtype_of<T>, std::as_bytes(std::span(*values)), values));
    } else {
      this->value.emplace(to_.buffer<T>(*values, shape));
    }
    return true;
  }

 private:
  Shape (*shape_)(const OperationNode&);
  Device to_;
};

// Which of several completed first, and its value, if it has one.
template <class T>
using FirstOf = std::conditional_t<std::is_void_v<T>, std::size_t, std::pair<std::size_t, Stored<T>>>;

// The first of several that completes; the others are cancelled.
template <class T>
class AnyNode final : public TypedNode<FirstOf<T>> {
 public:
  void add(TypedNodePtr<T> source) {
    if (!this->device()) this->set_device(source->device());
    sources_.push_back(std::move(source));
  }
  void begin(Evaluation& evaluation) override {
    if (!evaluation.has_room(Evaluation::least_room)) return;
    outer_ = evaluation.share();
    left_ = sources_.size();
    entries_ = std::vector<Entry>(sources_.size());
    evaluation.hold(*this);
    for (std::size_t i = 0; i < sources_.size(); ++i) {  // one that is over looks at all of them
      entries_[i].node = this;
      entries_[i].number = i;
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Entry& entry = entries_[i];
      Run run = Run::start(std::move(sources_[i]), evaluation.inner_options());
      evaluation.add_inner(run);
      bool is_late = false;
      {
        const std::scoped_lock lock(mutex_);
        entry.run = std::move(run);
        is_late = winner_.has_value();
      }
      if (is_late) entry.run.cancel(Errc::cancelled, too_late);
      if (!entry.run.add_observer(entry)) entry.run_over();
    }
  }
  bool step(Evaluation&) override {
    if (!winner_) std::rethrow_exception(entries_[0].run.failure());
    if constexpr (std::is_void_v<T>) {
      this->value.emplace(*winner_);
    } else {
      this->value.emplace(*winner_, static_cast<TypedNode<T>&>(entries_[*winner_].run.root()).take());
    }
    return true;
  }
  void keep() override {
    for (const TypedNodePtr<T>& source : sources_) source->set_indirect();  // copies of what it keeps are calls more
  }
  void reset() override {
    TypedNode<FirstOf<T>>::reset();
    winner_.reset();
    for (Entry& entry : entries_) {
      if (entry.run) sources_[entry.number].reset(static_cast<TypedNode<T>*>(entry.run.take_root().release()));
    }
    entries_.clear();
  }
  void add_inner_to(std::vector<OperationNode*>& nodes) override {
    for (const TypedNodePtr<T>& source : sources_) {
      if (source) nodes.push_back(source.get());
    }
  }

 private:
  static constexpr std::string_view too_late = "another operation of when_any() was first";
  struct Entry final : Run::Observer {
    AnyNode* node = nullptr;
    std::size_t number = 0;
    Run run;
    void run_over() noexcept override { node->over(number); }
  };

  void over(std::size_t number) noexcept {
    std::vector<Run> losers;
    bool is_last = false;
    {
      const std::scoped_lock lock(mutex_);
      is_last = --left_ == 0;
      if (!winner_ && !entries_[number].run.failure()) {
        winner_ = number;
        for (const Entry& entry : entries_) {
          if (entry.number != number && entry.run) losers.push_back(entry.run);
        }
      }
    }
    for (const Run& run : losers) run.cancel(Errc::cancelled, too_late);
    if (!is_last) return;
    const std::shared_ptr<Evaluation> outer = std::move(outer_);  // which keeps this node
    outer->wake(*this);
  }

  std::vector<TypedNodePtr<T>> sources_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::size_t left_ = 0;
  std::optional<std::size_t> winner_;
  std::shared_ptr<Evaluation> outer_;
};

}  // namespace tessera::detail
