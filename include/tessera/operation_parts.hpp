#pragma once

#include <tessera/error.hpp>
#include <tessera/operation_node.hpp>
#include <tessera/tile.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
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

template <class...>
inline constexpr bool never = false;

// What a function makes of a value, or of nothing.
template <class F, class T>
struct CallResult : std::invoke_result<F&, T> {};
template <class F>
struct CallResult<F, void> : std::invoke_result<F&> {};
template <class F, class T>
using ResultWith = std::remove_cvref_t<typename CallResult<F, T>::type>;

template <class F, class T>
concept CallableWith = requires { typename CallResult<F, T>::type; };
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

template <class T>
concept is_operation =
    requires { typename T::value_type; } && std::derived_from<T, DeviceOperation<typename T::value_type>>;

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
DeviceState* device_of(const T& value) {
  DeviceState* device = nullptr;
  for_each_tensor(value, [&](const TensorHandle& tensor) {
    if (!device) device = tensor.device_state();
  });
  return device;
}

// The same value once more: for operations that are evaluated again.
template <class T>
T copy_of(const T& value) {
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
    return std::apply([](const auto&... item) { return T(copy_of(item)...); }, value);
  } else {
    throw Error(Errc::unsupported, "an operation cannot be retried that holds a value which cannot be copied");
  }
}

// A new tensor that nothing has written.
template <Element T>
class EmptyNode final : public TypedNode<Tensor<T>> {
 public:
  explicit EmptyNode(const Shape& shape) : shape_(shape) {
    shape.size_bytes(dtype_of<T>);  // throws if it does not fit
    this->set_direct(0);
  }
  bool step(Evaluation& evaluation) override {
    this->value.emplace(evaluation.make(shape_, dtype_of<T>));
    return true;
  }

 private:
  Shape shape_;
};

// A new tensor that a kernel without inputs fills.
template <Element T>
class SourceNode final : public TypedNode<Tensor<T>> {
 public:
  SourceNode(std::string_view kernel, const Shape& shape, Params params)
      : kernel_(kernel), shape_(shape), params_(std::move(params)) {
    shape.size_bytes(dtype_of<T>);  // throws if it does not fit
    this->set_direct(1);
  }
  bool step(Evaluation& evaluation) override {
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
  T take() {
    if (node_) return node_->take();
    if (is_kept_) return copy_of(*held_);
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
  bool step(Evaluation&) override {
    this->value.emplace(item_.take());
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
  bool step(Evaluation&) override {
    this->value.emplace(items_.apply([](auto&... item) { return std::tuple<T...>(item.take()...); }));
    return true;
  }
  void keep() override { items_.keep(); }

 private:
  Items<T...> items_;
};

template <class T>
class AllNode final : public TypedNode<std::vector<T>> {
 public:
  void add(TypedNodePtr<T> source) {
    sources_.push_back(source.get());
    this->add_child(std::move(source));
  }
  bool step(Evaluation&) override {
    std::vector<T> values;
    values.reserve(sources_.size());
    for (TypedNode<T>* source : sources_) values.push_back(source->take());
    this->value.emplace(std::move(values));
    return true;
  }

 private:
  std::vector<TypedNode<T>*> sources_;
};

template <class P>
struct ParameterTraits;
template <Element T>
struct ParameterTraits<tile::Out<T>> {
  template <class A>
  static constexpr bool check() {
    static_assert(!TensorTraits<A>::is_shared,
                  "a shared tensor cannot be written: give the kernel's tile::Out a tensor that it owns, as "
                  "zeros<T>(shape) or std::move(tensor)");
    if constexpr (!TensorTraits<A>::is_shared) {
      static_assert(TensorTraits<A>::is_owned && std::is_same_v<ElementOf<A>, T>,
                    "the kernel's tile::Out takes a Tensor or Partitioned of its own element type");
    }
    return TensorTraits<A>::is_owned && std::is_same_v<ElementOf<A>, T>;
  }
  template <class A>
  static void add(const A& argument, KernelWork& work, const TensorHandle**&, Value*&) {
    work.output = &handle_of(argument);
    if constexpr (requires { argument.tile(); }) work.tile = &argument.tile();
  }
};
template <Element T>
struct ParameterTraits<tile::In<T>> {
  template <class A>
  static constexpr bool check() {
    static_assert(std::is_same_v<ElementOf<A>, T>,
                  "the kernel's tile::In takes a tensor of its own element type: Tensor<T>, Partitioned<T> or "
                  "std::shared_ptr<const Tensor<T>>");
    return std::is_same_v<ElementOf<A>, T>;
  }
  template <class A>
  static void add(const A& argument, KernelWork&, const TensorHandle**& input, Value*&) {
    *input++ = &handle_of(argument);
  }
};
template <Element T, tile::detail::Name name>
struct ParameterTraits<tile::Scalar<T, name>> {
  template <class A>
  static constexpr bool check() {
    static_assert(std::is_arithmetic_v<A>, "the kernel's tile::Scalar takes a number");
    return std::is_arithmetic_v<A>;
  }
  template <class A>
  static void add(const A& argument, KernelWork&, const TensorHandle**&, Value*& value) {
    *value++ = Value(argument);
  }
};

// Whether a kernel with these parameters takes these values; if not, one line says why.
template <class... P, class... A>
constexpr bool check_arguments(const tile::KernelOf<P...>*, const std::tuple<A...>*) {
  static_assert(sizeof...(P) == sizeof...(A),
                "the kernel takes another number of values: one for each of its parameters, in their order");
  if constexpr (sizeof...(P) == sizeof...(A)) {
    return (ParameterTraits<P>::template check<A>() && ...);
  } else {
    return false;
  }
}

template <class... P, class T>
constexpr bool check_arguments(const tile::KernelOf<P...>*, const T*) {
  static_assert(never<T>, "a kernel is applied to several values: zip(output, inputs...).apply(kernel)");
  return false;
}

// Which of a kernel's parameters is its output.
template <class... Param>
constexpr std::size_t output_of() {
  constexpr std::array<bool, sizeof...(Param)> is_output = {std::derived_from<Param, tile::Output>...};
  for (std::size_t i = 0; i < is_output.size(); ++i) {
    if (is_output[i]) return i;
  }
  return 0;
}

// Runs a kernel on these values, one for each of its parameters.
template <class... Param, class... T>
void run_kernel(Evaluation& evaluation, const kernels::Kernel& kernel, const Shape* grid, const T&... values) {
  constexpr std::size_t input_count = (std::size_t{0} + ... + (std::derived_from<Param, tile::Input> ? 1 : 0));
  std::array<const TensorHandle*, input_count> inputs;
  std::array<Value, sizeof...(Param) - input_count - 1> scalars;
  KernelWork work{.kernel = &kernel, .inputs = inputs, .values = scalars, .grid = grid};
  const TensorHandle** input = inputs.data();
  Value* scalar = scalars.data();
  (ParameterTraits<Param>::add(values, work, input, scalar), ...);
  evaluation.run(work);
}

// A kernel on the values of a tuple.
template <class Tuple, class... Param>
struct KernelCall {
  const kernels::Kernel& kernel;
  std::unique_ptr<const Shape> grid;  // null: none
  void operator()(Evaluation& evaluation, const Tuple& values) {
    std::apply([&](const auto&... value) { run_kernel<Param...>(evaluation, kernel, grid.get(), value...); }, values);
  }
};

// The same by name: the first tensor is the output, the others are the inputs.
template <class Tuple>
struct NamedCall {
  std::string name;
  Params params;
  void operator()(Evaluation& evaluation, const Tuple& values) {
    std::vector<const TensorHandle*> tensors;
    for_each_tensor(values, [&](const TensorHandle& tensor) { tensors.push_back(&tensor); });
    if (tensors.empty()) throw Error(Errc::count_mismatch, "a kernel needs a tensor to write");
    Params given = params;
    evaluation.run({.name = name, .output = tensors[0], .inputs = std::span(tensors).subspan(1), .params = &given});
  }
};

// Runs a kernel on the values of a tuple, which it passes on.
template <class T, class Call>
class ApplyNode final : public TypedNode<T> {
 public:
  ApplyNode(TypedNodePtr<T> source, Call call) : source_(source.get()), call_(std::move(call)) {
    this->set_direct(1);
    this->add_child(std::move(source));
  }
  bool step(Evaluation& evaluation) override {
    T values = source_->take();
    call_(evaluation, values);
    this->value.emplace(std::move(values));
    return true;
  }

 private:
  TypedNode<T>* source_;
  Call call_;
};

// A kernel called with operations and values: passes its output on. All in one node, since programs make many of these.
template <class Tuple, class... Param>
class KernelNode;
template <class... T, class... Param>
class KernelNode<std::tuple<T...>, Param...> final
    : public TypedNode<std::tuple_element_t<output_of<Param...>(), std::tuple<T...>>> {
 public:
  using Tuple = std::tuple<T...>;

  template <class... Op>
  explicit KernelNode(const kernels::Kernel& kernel, std::unique_ptr<const Shape> grid, Op&&... operations)
      : kernel_(kernel),
        grid_(std::move(grid)),
        items_((this->set_direct(1), *this), std::forward<Op>(operations)...) {}
  bool step(Evaluation& evaluation) override {
    constexpr std::size_t output = output_of<Param...>();
    items_.apply([&](const auto&... item) { run_kernel<Param...>(evaluation, kernel_, grid_.get(), item.look()...); });
    this->value.emplace(items_.template get<output>().take());
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((I == output ? void() : items_.template get<I>().drop()), ...);
    }(std::index_sequence_for<Param...>{});
    return true;
  }
  void keep() override { items_.keep(); }

  // The same as a zip and a call, to pass all values on. It is of no use afterwards.
  TypedNodePtr<Tuple> take_all() {
    TypedNodePtr<Tuple> zip(new ZipNode<T...>(std::move(items_)));
    this->give_children_to(*zip);
    using Call = KernelCall<Tuple, Param...>;
    return TypedNodePtr<Tuple>(new ApplyNode<Tuple, Call>(std::move(zip), Call{kernel_, std::move(grid_)}));
  }

 private:
  const kernels::Kernel& kernel_;
  std::unique_ptr<const Shape> grid_;  // null: none
  Items<T...> items_;
};

// One of the values of a tuple whose making several operations share.
template <class Tuple, std::size_t I>
class PartNode final : public TypedNode<std::tuple_element_t<I, Tuple>> {
 public:
  PartNode(std::shared_ptr<SharedOperation> shared, TypedNode<Tuple>* source)
      : shared_(std::move(shared)), source_(source) {
    this->set_device(shared_->device());
    this->set_depth(shared_->depth());
  }
  bool step(Evaluation& evaluation) override {
    if (!shared_->join(evaluation, *this, shared_)) return false;
    auto& item = std::get<I>(*source_->value);
    for_each_tensor(item, [&](const TensorHandle& tensor) { evaluation.expect_sound(tensor); });
    this->value.emplace(std::move(item));
    shared_ = nullptr;  // with the last part the values go that nobody wants
    return true;
  }
  void keep() override {
    throw Error(Errc::unsupported, "a part of unzip() cannot be retried: retry what is unzipped");
  }

 private:
  std::shared_ptr<SharedOperation> shared_;
  TypedNode<Tuple>* source_;
};

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
    TypedNodePtr<To> next = call().take_node();
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
  auto call() {
    if constexpr (std::is_void_v<From>) {
      source_->take();
      return std::invoke(function_);
    } else {
      return std::invoke(function_, source_->take());
    }
  }
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
      call();
      this->value.emplace();
    } else {
      this->value.emplace(call());
    }
  }

 private:
  decltype(auto) call() {
    if constexpr (std::is_void_v<From>) {
      source_->take();
      return std::invoke(function_);
    } else {
      return std::invoke(function_, source_->take());
    }
  }
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
    if (tensor_) {
      tensor_.reset();
      this->value.emplace(std::move(copy_));
      return true;
    }
    tensor_.emplace(source_->take());
    const TensorHandle& handle = handle_of(*tensor_);
    shape_ = handle.shape();
    copy_.resize(static_cast<std::size_t>(shape_.elements()));
    evaluation.download(handle, std::as_writable_bytes(std::span(copy_)), *this);
    return false;
  }
  void reset() override {
    TypedNode<std::vector<ElementOf<T>>>::reset();
    tensor_.reset();
  }
  const Shape& shape() const noexcept { return shape_; }

 private:
  TypedNode<T>* source_;
  std::optional<T> tensor_;
  std::vector<ElementOf<T>> copy_;
  Shape shape_;
};

// Where a tree is evaluated.
template <class T>
class OnDeviceNode final : public TypedNode<T> {
 public:
  OnDeviceNode(TypedNodePtr<T> source, const Device& device) : source_(source.get()), on_(device) {
    this->set_direct(0);
    this->set_device(device.state());
    this->add_child(std::move(source));
  }
  bool step(Evaluation&) override {
    this->value.emplace(source_->take());
    return true;
  }

 private:
  TypedNode<T>* source_;
  Device on_;
};

// A node that runs another tree by itself and waits for its end, whatever that is.
template <class T>
class InnerNode : public TypedNode<T>, protected Run::Observer {
 public:
  void begin(Evaluation& evaluation) override {
    NodePtr root = make_root();
    if (!root) return OperationNode::begin(evaluation);
    start(evaluation, std::move(root));
    if (!is_waiting_) OperationNode::begin(evaluation);
  }

 protected:
  virtual NodePtr make_root() = 0;
  virtual void started(const Run&) {}

  void start(Evaluation& evaluation, NodePtr root) {
    run_ = Run::start(std::move(root), evaluation.inner_options());
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

 private:
  void run_over() noexcept override {
    const std::shared_ptr<Evaluation> outer = std::move(outer_);
    outer->wake(*this);
  }
  std::shared_ptr<Evaluation> outer_;
};

template <class T, class F>
class OrElseNode final : public InnerNode<T> {
 public:
  OrElseNode(TypedNodePtr<T> source, F function) : source_(std::move(source)), function_(std::move(function)) {
    this->set_device(source_->device());
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
  void keep() override {
    for_each_in_tree(*source_, [](OperationNode& node) { node.keep(); });
    throw Error(Errc::unsupported, "an operation with or_else() cannot be retried: retry what is before it");
  }

 private:
  NodePtr make_root() override { return std::move(source_); }
  TypedNodePtr<T> source_;
  F function_;
  TypedNode<T>* next_ = nullptr;
};

// Whether trying again can help: not if the caller is at fault, or does not want it any more.
TESSERA_API bool is_worth_retrying(const Error& error) noexcept;

template <class T>
class RetryNode final : public InnerNode<T> {
 public:
  RetryNode(TypedNodePtr<T> source, int times) : source_(std::move(source)), left_(times) {
    this->set_device(source_->device());
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
  void keep() override { throw Error(Errc::unsupported, "an operation with retry() cannot be retried as a whole"); }

 private:
  NodePtr make_root() override {
    for_each_in_tree(*source_, [](OperationNode& node) { node.keep(); });
    return std::move(source_);
  }
  TypedNodePtr<T> source_;
  int left_;
};

template <class T>
class TimeoutNode final : public InnerNode<T> {
 public:
  TimeoutNode(TypedNodePtr<T> source, std::chrono::nanoseconds time) : source_(std::move(source)), time_(time) {
    this->set_device(source_->device());
  }
  bool step(Evaluation&) override {
    const Run& run = this->ended();
    run.throw_if_failed();
    this->value.emplace(static_cast<TypedNode<T>&>(run.root()).take());
    return true;
  }
  void keep() override {
    throw Error(Errc::unsupported, "an operation with timeout() cannot be retried: retry what is before it");
  }

 private:
  NodePtr make_root() override { return std::move(source_); }
  void started(const Run& run) override { cancel_after(run, time_); }
  TypedNodePtr<T> source_;
  std::chrono::nanoseconds time_;
};

// Another device's memory, through the host's.
template <Element T>
class CopyToNode final : public InnerNode<Tensor<T>> {
 public:
  template <TensorLike From>
  CopyToNode(TypedNodePtr<From> source, const Device& to)
      : source_(new ToHostNode<From>(std::move(source))),
        shape_([](const OperationNode& node) { return static_cast<const ToHostNode<From>&>(node).shape(); }),
        to_(to) {
    this->set_device(to.state());
  }
  bool step(Evaluation& evaluation) override {
    const Run& run = this->ended();
    run.throw_if_failed();
    const Shape shape = shape_(run.root());
    auto values = std::make_shared<const std::vector<T>>(static_cast<TypedNode<std::vector<T>>&>(run.root()).take());
    if (&evaluation.device() == to_.state()) {
      this->value.emplace(evaluation.upload(shape, dtype_of<T>, std::as_bytes(std::span(*values)), values));
    } else {
      this->value.emplace(to_.buffer<T>(*values, shape));
    }
    return true;
  }
  void keep() override {
    throw Error(Errc::unsupported, "an operation with copy_to() cannot be retried: retry what is before it");
  }

 private:
  NodePtr make_root() override { return std::move(source_); }
  TypedNodePtr<std::vector<T>> source_;
  Shape (*shape_)(const OperationNode&);
  Device to_;
};

// The first of several that completes; the others are cancelled.
template <class T>
class AnyNode final : public TypedNode<std::pair<std::size_t, T>> {
 public:
  void add(TypedNodePtr<T> source) {
    if (!this->device()) this->set_device(source->device());
    sources_.push_back(std::move(source));
  }
  void begin(Evaluation& evaluation) override {
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
    this->value.emplace(*winner_, static_cast<TypedNode<T>&>(entries_[*winner_].run.root()).take());
    return true;
  }
  void keep() override { throw Error(Errc::unsupported, "when_any() cannot be retried"); }

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

}  // namespace detail
}  // namespace tessera
