#pragma once

#include <tessera/detail/operation_node.hpp>
#include <tessera/error.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// The nodes that DeviceOperation's members make: for operation.hpp, not for programs.
namespace tessera {

template <class T>
class DeviceOperation;

namespace detail {

// What a function makes of a value, or of nothing.
template <class F, class T>
struct CallResult : std::invoke_result<F&, T> {};
template <class F>
struct CallResult<F, void> : std::invoke_result<F&> {};
template <class F, class T>
using ResultWith = std::remove_cvref_t<typename CallResult<F, T>::type>;

template <class F, class T>
concept CallableWith = requires { typename CallResult<F, T>::type; };
template <class F, class T>
concept CanInspect = CallableWith<F, std::conditional_t<std::is_void_v<T>, void, const Stored<T>&>>;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

template <class T>
concept is_operation =
    requires { typename T::value_type; } && std::derived_from<T, DeviceOperation<typename T::value_type>>;

template <class T>
struct ResultOf {
  using Type = T;
};
template <is_operation T>
struct ResultOf<T> {
  using Type = typename T::value_type;
};
// Whether what a function returns, an operation or a value, can stand for a value of type T.
template <class Returned, class T>
inline constexpr bool takes_the_place =
    is_operation<Returned> ? std::is_same_v<typename ResultOf<Returned>::Type, T>
                           : std::is_void_v<T> || std::is_constructible_v<Stored<T>, Stored<Returned>>;

// The element of Tensor<T>, Partitioned<T>, std::shared_ptr<const Tensor<T>>; void for anything else.
template <class T>
struct TensorTraits {
  using Element = void;
  static constexpr bool is_owned = false, is_shared = false;
};
template <Element T>
struct TensorTraits<Tensor<T>> {
  using Element = T;
  static constexpr bool is_owned = true, is_shared = false;
};
template <Element T>
struct TensorTraits<Partitioned<T>> : TensorTraits<Tensor<T>> {};
template <Element T>
struct TensorTraits<std::shared_ptr<const Tensor<T>>> {
  using Element = T;
  static constexpr bool is_owned = false, is_shared = true;
};
template <class T>
using ElementOf = typename TensorTraits<T>::Element;
template <class T>
concept TensorLike = !std::is_void_v<ElementOf<T>>;

template <TensorLike T>
const TensorHandle& handle_of(const T& tensor) {
  if constexpr (TensorTraits<T>::is_shared) {
    if (!tensor) throw Error(Errc::invalid_argument, "a shared tensor is an empty pointer");
    return tensor->handle();
  } else {
    return tensor.handle();
  }
}

// Calls f(handle) for each tensor in a value.
template <class T, class F>
void for_each_tensor(const T& value, F&& f) {
  if constexpr (TensorLike<T>) {
    f(handle_of(value));
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... item) { (for_each_tensor(item, f), ...); }, value);
  }
}

// Where a value's tensors are, if it has any.
template <class T>
engine::DeviceState* device_of(const T& value) {
  engine::DeviceState* device = nullptr;
  for_each_tensor(value, [&](const TensorHandle& tensor) {
    if (!device) device = tensor.device_state();
  });
  return device;
}

// The same value once more, for operations that are evaluated again; the same memory too.
template <class T>
T same_as(const T& value) {
  if constexpr (std::is_copy_constructible_v<T>) {
    return value;
  } else if constexpr (requires {
                         typename T::element_type;
                         value.tile();
                       }) {
    return T(Tensor<typename T::element_type>(value.handle()), value.tile());
  } else if constexpr (TensorLike<T>) {
    return T(value.handle());
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([](const auto&... item) { return T(same_as(item)...); }, value);
  } else {
    throw Error(Errc::unsupported, "an operation cannot be retried that holds a value which cannot be copied");
  }
}

// The same with other memory for the tensors that are owned: whoever gets them may write them.
template <class T>
T copy_of(const T& value, Evaluation& evaluation) {
  if constexpr (TensorTraits<T>::is_owned) {
    using Element = ElementOf<T>;
    TensorHandle copy = evaluation.make(value.shape(), dtype_of<Element>);
    const TensorHandle* const input = &value.handle();
    Params none;
    evaluation.run({.name = "copy", .output = &copy, .inputs = {&input, 1}, .params = &none});
    if constexpr (requires { value.tile(); }) {
      return T(Tensor<Element>(std::move(copy)), value.tile());
    } else {
      return T(std::move(copy));
    }
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([&](const auto&... item) { return T(copy_of(item, evaluation)...); }, value);
  } else {
    return same_as(value);
  }
}

// A new tensor that nothing has written.
template <Element T>
class EmptyNode final : public TypedNode<Tensor<T>> {
 public:
  explicit EmptyNode(const Shape& shape) : shape_(shape), bytes_(shape.size_bytes(dtype_of<T>)) { this->set_direct(0); }
  bool step(Evaluation& evaluation) override {
    if (!evaluation.has_room(bytes_)) return false;
    this->value.emplace(evaluation.make(shape_, dtype_of<T>));
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
    this->set_direct(1);
  }
  bool step(Evaluation& evaluation) override {
    if (!evaluation.has_room(bytes_)) return false;
    TensorHandle made = evaluation.make(shape_, dtype_of<T>);
    Params params = is_kept_ ? params_ : std::move(params_);
    evaluation.run({.name = kernel_, .output = &made, .params = &params});
    this->value.emplace(std::move(made));
    return true;
  }
  void keep() override { is_kept_ = true; }

 private:
  std::string_view kernel_;  // one of the library's names
  Shape shape_;
  std::size_t bytes_;
  Params params_;
  bool is_kept_ = false;
};

template <Element T>
class FromHostNode final : public TypedNode<Tensor<T>> {
 public:
  FromHostNode(std::vector<T> values, const Shape& shape)
      : values_(std::make_shared<const std::vector<T>>(std::move(values))), shape_(shape) {}
  bool step(Evaluation& evaluation) override {
    const auto bytes = std::as_bytes(std::span(*values_));
    if (!evaluation.has_room(bytes.size())) return false;
    this->value.emplace(Tensor<T>(evaluation.upload(shape_, dtype_of<T>, bytes, values_)));
    return true;
  }

 private:
  std::shared_ptr<const std::vector<T>> values_;
  Shape shape_;
};

// A function of the value that needs no device: cutting into tiles, sharing.
template <class From, class To, class F>
class TransformNode final : public TypedNode<To> {
 public:
  TransformNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->set_direct(0);
    this->add_child(std::move(source));
  }
  bool step(Evaluation&) override {
    this->value.emplace(function_(source_->take()));
    return true;
  }

 private:
  TypedNode<From>* source_;
  F function_;
};

// What zip and kernels are given: an operation, which becomes a child of the node that has the item, or a value that
// needs none.
template <class T>
class Item {
 public:
  void set(OperationNode& parent, TypedNodePtr<T> operation) {
    node_ = operation.get();
    parent.add_child(std::move(operation));
  }
  void set(OperationNode& parent, T value) {
    held_.emplace(std::move(value));
    if (!parent.device()) parent.set_device(device_of(*held_));
  }
  T take(Evaluation& evaluation) { return !node_ && is_kept_ ? copy_of(*held_, evaluation) : take_written(); }
  // What has been written as a whole by now: if it is evaluated again, that is written again.
  T take_written() {
    if (node_) return node_->take();
    if (is_kept_) return same_as(*held_);
    T taken = std::move(*held_);
    held_.reset();
    return taken;
  }
  // Looks at it, before it is taken or dropped.
  const T& look() const { return node_ ? *node_->value : *held_; }
  void drop() {
    if (node_) {
      node_->value.reset();
    } else if (!is_kept_) {
      held_.reset();
    }
  }
  void keep() noexcept { is_kept_ = true; }

 private:
  TypedNode<T>* node_ = nullptr;
  std::optional<T> held_;
  bool is_kept_ = false;
};

// How something becomes an item (operation.hpp).
template <class T>
struct AsOperation;

// Those of a node, which this adds them to.
template <class... T>
class Items {
 public:
  template <class... Op>
  explicit Items(OperationNode& parent, Op&&... operations) {
    std::apply([&](auto&... item) { (AsOperation<Op>::set(item, parent, std::forward<Op>(operations)), ...); }, items_);
  }
  // Calls f with all of them.
  template <class F>
  decltype(auto) apply(F&& f) {
    return std::apply(std::forward<F>(f), items_);
  }
  template <std::size_t I>
  auto& get() {
    return std::get<I>(items_);
  }
  void keep() noexcept {
    apply([](auto&... item) { (item.keep(), ...); });
  }

 private:
  std::tuple<Item<T>...> items_;
};

// A value that is there.
template <class T>
class ValueNode final : public TypedNode<T> {
 public:
  template <class Given>
  ValueNode(std::in_place_t, Given&& given) {
    this->set_direct(0);
    AsOperation<Given>::set(item_, *this, std::forward<Given>(given));
  }
  bool step(Evaluation& evaluation) override {
    this->value.emplace(item_.take(evaluation));
    return true;
  }
  void keep() override { item_.keep(); }

 private:
  Item<T> item_;
};

template <class... T>
class ZipNode final : public TypedNode<std::tuple<T...>> {
 public:
  template <class... Op>
    requires(sizeof...(Op) == sizeof...(T))
  explicit ZipNode(Op&&... operations) : items_((this->set_direct(0), *this), std::forward<Op>(operations)...) {}
  // Of items whose operations are given to it.
  explicit ZipNode(Items<T...> items) : items_(std::move(items)) { this->set_direct(0); }
  bool step(Evaluation& evaluation) override {
    this->value.emplace(items_.apply([&](auto&... item) { return std::tuple<T...>(item.take(evaluation)...); }));
    return true;
  }
  void keep() override { items_.keep(); }

 private:
  Items<T...> items_;
};

// The values of several operations: nothing, of operations without one.
template <class T>
using AllOf = std::conditional_t<std::is_void_v<T>, void, std::vector<Stored<T>>>;

template <class T>
class AllNode final : public TypedNode<AllOf<T>> {
 public:
  void add(TypedNodePtr<T> source) {
    sources_.push_back(source.get());
    this->add_child(std::move(source));
  }
  bool step(Evaluation&) override {
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

// One of the values of a tuple whose making several operations share.
template <class Tuple, std::size_t I>
class PartNode final : public TypedNode<std::tuple_element_t<I, Tuple>> {
 public:
  PartNode(std::shared_ptr<SharedOperation> shared, TypedNode<Tuple>* source)
      : shared_(std::move(shared)), source_(source) {
    this->set_device(shared_->device());
    this->set_depth(shared_->depth());
    shared_->add_unused();
  }
  ~PartNode() override { stop_being_unused(); }
  PartNode(const PartNode&) = delete;
  PartNode& operator=(const PartNode&) = delete;

  void begin(Evaluation& evaluation) override {
    stop_being_unused();
    TypedNode<std::tuple_element_t<I, Tuple>>::begin(evaluation);
  }
  bool step(Evaluation& evaluation) override {
    std::unique_lock lock = shared_->join(evaluation, *this, shared_);
    if (!lock) return false;
    auto& item = std::get<I>(*source_->value);
    for_each_tensor(item, [&](const TensorHandle& tensor) { evaluation.expect_sound(tensor); });
    if (is_kept_) {
      this->value.emplace(copy_of(item, evaluation));
      return true;
    }
    this->value.emplace(std::move(item));
    lock.unlock();
    shared_ = nullptr;  // with the last part the values go that nobody wants
    return true;
  }
  void keep() override {
    is_kept_ = true;
    shared_->keep();
  }
  void reset() override {
    TypedNode<std::tuple_element_t<I, Tuple>>::reset();
    shared_->reset();
  }

 private:
  void stop_being_unused() noexcept {
    if (std::exchange(is_unused_, false)) shared_->remove_unused();
  }

  bool is_unused_ = true;
  bool is_kept_ = false;
  std::shared_ptr<SharedOperation> shared_;
  TypedNode<Tuple>* source_;
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

// Calls a function with the value, which the device may not have made yet; goes on with the operation it returns.
template <class From, class To, class F>
class ThenNode final : public TypedNode<To> {
 public:
  ThenNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->add_child(std::move(source));
  }
  bool step(Evaluation& evaluation) override {
    if (next_) {
      this->value.emplace(next_->take());
      next_ = nullptr;
      this->drop_children_after(1);
      return true;
    }
    TypedNodePtr<To> next = call_with_value(function_, *source_).take_node();
    next_ = next.get();
    evaluation.add_child(*this, std::move(next));
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

// Calls a function with the value when the device has made it.
template <class From, class To, class F>
class MapNode final : public TypedNode<To> {
 public:
  MapNode(TypedNodePtr<From> source, F function) : source_(source.get()), function_(std::move(function)) {
    this->add_child(std::move(source));
  }
  bool step(Evaluation& evaluation) override {
    if (this->value) return true;
    evaluation.after_device(*this);
    return false;
  }
  void work() override {
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
  bool step(Evaluation& evaluation) override {
    if (this->value) return true;
    evaluation.after_device(*this);
    return false;
  }
  void work() override {
    Stored<T> seen = source_->take();
    if constexpr (std::is_void_v<T>) {
      std::invoke(function_);
    } else {
      std::invoke(function_, std::as_const(seen));
    }
    this->value.emplace(std::move(seen));
  }

 private:
  TypedNode<T>* source_;
  F function_;
};

template <TensorLike T>
class ToHostNode final : public TypedNode<std::vector<ElementOf<T>>> {
 public:
  explicit ToHostNode(TypedNodePtr<T> source) : source_(source.get()) { this->add_child(std::move(source)); }
  bool step(Evaluation& evaluation) override {
    if (is_copying_) {
      is_copying_ = false;
      tensor_.reset();
      this->value.emplace(std::move(copy_));
      return true;
    }
    if (!tensor_) {
      tensor_.emplace(source_->take());
      shape_ = handle_of(*tensor_).shape();
      copy_.resize(static_cast<std::size_t>(shape_.elements()));
    }
    is_copying_ = evaluation.download(handle_of(*tensor_), std::as_writable_bytes(std::span(copy_)), *this);
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

}  // namespace detail
}  // namespace tessera
