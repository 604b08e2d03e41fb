#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_traits.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/tensor.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// The nodes that are evaluated in the run of their parent. Not for user code.
namespace tessera::detail {

// A new tensor with undefined contents.
template <Element T>
class EmptyNode final : public TypedNode<Tensor<T>> {
 public:
  explicit EmptyNode(const Shape& shape) : shape_(shape), bytes_(shape.size_bytes(dtype_of<T>)) {
    this->allow_inline(0);
  }
  bool step(Evaluator& evaluator) override {
    if (!evaluator.has_memory_for(bytes_)) return false;
    this->value.emplace(evaluator.make(shape_, dtype_of<T>));
    return true;
  }

 private:
  Shape shape_;
  std::size_t bytes_;
};

// A new tensor that a kernel without inputs fills.
template <Element T>
class SourceNode final : public TypedNode<Tensor<T>> {
 public:
  SourceNode(std::string_view kernel, const Shape& shape, Params params)
      : kernel_(kernel), shape_(shape), bytes_(shape.size_bytes(dtype_of<T>)), params_(std::move(params)) {
    this->allow_inline(1);
  }
  bool step(Evaluator& evaluator) override {
    if (!evaluator.has_memory_for(bytes_)) return false;
    TensorHandle made = evaluator.make(shape_, dtype_of<T>);
    Params params = is_repeatable_ ? params_ : std::move(params_);
    evaluator.run({.name = kernel_, .output = &made, .params = &params});
    this->value.emplace(std::move(made));
    return true;
  }
  void make_repeatable() override { is_repeatable_ = true; }

 private:
  std::string_view kernel_;  // a string literal
  Shape shape_;
  std::size_t bytes_;
  Params params_;
  bool is_repeatable_ = false;
};

template <Element T>
class FromHostNode final : public TypedNode<Tensor<T>> {
 public:
  FromHostNode(std::vector<T> values, const Shape& shape)
      : values_(std::make_shared<const std::vector<T>>(std::move(values))), shape_(shape) {}
  bool step(Evaluator& evaluator) override {
    const auto bytes = std::as_bytes(std::span(*values_));
    if (!evaluator.has_memory_for(bytes.size())) return false;
    this->value.emplace(Tensor<T>(evaluator.upload(shape_, dtype_of<T>, bytes, values_)));
    return true;
  }

 private:
  std::shared_ptr<const std::vector<T>> values_;
  Shape shape_;
};

// A cheap function of the value that needs no device, such as partition() or shared().
template <class From, class To, class F>
class TransformNode final : public TypedNode<To> {
 public:
  TransformNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->allow_inline(0);
    this->add_child(std::move(source));
  }
  bool step(Evaluator&) override {
    this->value.emplace(function_(source_->take()));
    return true;
  }

 private:
  TypedNode<From>* source_;
  F function_;
};

// An argument of zip or a kernel: an operation, which becomes a child of the node that has the argument, or a value.
template <class T>
class OperationArgument {
 public:
  void set(OperationNode& parent, TypedNodePtr<T> operation) {
    node_ = operation.get();
    parent.add_child(std::move(operation));
  }
  void set(OperationNode& parent, T value) {
    value_.emplace(std::move(value));
    if (!parent.device()) parent.set_device(device_of(*value_));
  }
  T take(Evaluator& evaluator) { return !node_ && is_repeatable_ ? copy_of(*value_, evaluator) : take_written(); }
  // The same for a tensor that has just been overwritten: a repetition will overwrite it again, so it needs no copy.
  T take_written() {
    if (node_) return node_->take();
    if (is_repeatable_) return alias_of(*value_);
    T taken = std::move(*value_);
    value_.reset();
    return taken;
  }
  // The value, before it is taken or dropped.
  const T& look() const { return node_ ? *node_->value : *value_; }
  void drop() {
    if (node_) {
      node_->value.reset();
    } else if (!is_repeatable_) {
      value_.reset();
    }
  }
  void make_repeatable() noexcept { is_repeatable_ = true; }

 private:
  TypedNode<T>* node_ = nullptr;
  std::optional<T> value_;
  bool is_repeatable_ = false;
};

// Turns what a caller passed into an OperationArgument (device_operation.hpp, task.hpp).
template <class T>
struct AsOperation;

// All arguments of a node, `parent`.
template <class... T>
class OperationArguments {
 public:
  template <class... Op>
  explicit OperationArguments(OperationNode& parent, Op&&... operations) {
    std::apply([&](auto&... argument) { (AsOperation<Op>::set(argument, parent, std::forward<Op>(operations)), ...); },
               arguments_);
  }
  // Calls f with all of them.
  template <class F>
  decltype(auto) apply(F&& f) {
    return std::apply(std::forward<F>(f), arguments_);
  }
  template <std::size_t I>
  auto& get() {
    return std::get<I>(arguments_);
  }
  void make_repeatable() noexcept {
    apply([](auto&... argument) { (argument.make_repeatable(), ...); });
  }

 private:
  std::tuple<OperationArgument<T>...> arguments_;
};

// A value that exists already.
template <class T>
class ValueNode final : public TypedNode<T> {
 public:
  template <class Given>
  ValueNode(std::in_place_t, Given&& given) {
    this->allow_inline(0);
    AsOperation<Given>::set(argument_, *this, std::forward<Given>(given));
  }
  bool step(Evaluator& evaluator) override {
    this->value.emplace(argument_.take(evaluator));
    return true;
  }
  void make_repeatable() override { argument_.make_repeatable(); }

 private:
  OperationArgument<T> argument_;
};

template <class... T>
class ZipNode final : public TypedNode<std::tuple<T...>> {
 public:
  template <class... Op>
    requires(sizeof...(Op) == sizeof...(T))
  explicit ZipNode(Op&&... operations) : arguments_((this->allow_inline(0), *this), std::forward<Op>(operations)...) {}
  // The operations of these arguments become children later, by move_children_to().
  explicit ZipNode(OperationArguments<T...> arguments) : arguments_(std::move(arguments)) { this->allow_inline(0); }
  bool step(Evaluator& evaluator) override {
    this->value.emplace(
        arguments_.apply([&](auto&... argument) { return std::tuple<T...>(argument.take(evaluator)...); }));
    return true;
  }
  void make_repeatable() override { arguments_.make_repeatable(); }

 private:
  OperationArguments<T...> arguments_;
};

// The result of when_all(): void for operations without a value.
template <class T>
using WhenAllResult = std::conditional_t<std::is_void_v<T>, void, std::vector<Stored<T>>>;

template <class T>
class WhenAllNode final : public TypedNode<WhenAllResult<T>> {
 public:
  void add(TypedNodePtr<T> source) {
    sources_.push_back(source.get());
    this->add_child(std::move(source));
  }
  bool step(Evaluator&) override {
    std::vector<Stored<T>> values;
    values.reserve(sources_.size());
    for (TypedNode<T>* source : sources_) values.push_back(source->take());
    if constexpr (std::is_void_v<T>) {
      this->value.emplace();
    } else {
      this->value.emplace(std::move(values));
    }
    return true;
  }

 private:
  std::vector<TypedNode<T>*> sources_;
};

template <class F, class From>
decltype(auto) call_with_value(F& function, TypedNode<From>& source) {
  if constexpr (std::is_void_v<From>) {
    source.take();
    return std::invoke(function);
  } else {
    return std::invoke(function, source.take());
  }
}

// Calls a function with the value, which the device may not have written yet, and evaluates the operation it returns.
template <class From, class To, class F>
class ThenNode final : public TypedNode<To> {
 public:
  ThenNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->add_child(std::move(source));
  }
  bool step(Evaluator& evaluator) override {
    if (next_) {
      this->value.emplace(next_->take());
      next_ = nullptr;
      this->drop_children_after(1);
      return true;
    }
    TypedNodePtr<To> next = call_with_value(function_, *source_).take_node();
    next_ = next.get();
    evaluator.add_child(*this, std::move(next));
    return false;
  }
  void reset() override {
    TypedNode<To>::reset();
    next_ = nullptr;
    this->drop_children_after(1);
  }

 private:
  TypedNode<From>* source_;
  F function_;
  TypedNode<To>* next_ = nullptr;
};

// Calls a host function with the value once the device has written it.
template <class From, class To, class F>
class MapNode final : public TypedNode<To> {
 public:
  MapNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->add_child(std::move(source));
  }
  bool step(Evaluator& evaluator) override {
    if (this->value) return true;
    evaluator.run_on_host_after_device(*this);
    return false;
  }
  void run_on_host() override {
    if constexpr (std::is_void_v<To>) {
      call_with_value(function_, *source_);
      this->value.emplace();
    } else {
      this->value.emplace(call_with_value(function_, *source_));
    }
  }

 private:
  TypedNode<From>* source_;
  F function_;
};

template <class T, class F>
class InspectNode final : public TypedNode<T> {
 public:
  InspectNode(TypedNodePtr<T> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->add_child(std::move(source));
  }
  bool step(Evaluator& evaluator) override {
    if (this->value) return true;
    evaluator.run_on_host_after_device(*this);
    return false;
  }
  void run_on_host() override {
    Stored<T> inspected = source_->take();
    if constexpr (std::is_void_v<T>) {
      std::invoke(function_);
    } else {
      std::invoke(function_, std::as_const(inspected));
    }
    this->value.emplace(std::move(inspected));
  }

 private:
  TypedNode<T>* source_;
  F function_;
};

template <TensorLike T>
class ToHostNode final : public TypedNode<std::vector<ElementOf<T>>> {
 public:
  explicit ToHostNode(TypedNodePtr<T> source) : source_(source.get()) { this->add_child(std::move(source)); }
  bool step(Evaluator& evaluator) override {
    if (is_copying_) {
      is_copying_ = false;
      tensor_.reset();
      this->value.emplace(std::move(copy_));
      return true;
    }
    if (!tensor_) {
      tensor_.emplace(source_->take());
      shape_ = handle_of(*tensor_).shape();
    }
    const auto allocate = [this] {
      copy_.resize(static_cast<std::size_t>(shape_.elements()));
      return std::as_writable_bytes(std::span(copy_));
    };
    is_copying_ = evaluator.download(handle_of(*tensor_), allocate, *this);
    return false;
  }
  void reset() override {
    TypedNode<std::vector<ElementOf<T>>>::reset();
    tensor_.reset();
    is_copying_ = false;
  }
  const Shape& shape() const noexcept { return shape_; }

 private:
  TypedNode<T>* source_;
  std::optional<T> tensor_;
  std::vector<ElementOf<T>> copy_;
  Shape shape_;
  bool is_copying_ = false;
};

}  // namespace tessera::detail
