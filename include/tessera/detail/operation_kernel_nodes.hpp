#pragma once

#include <tessera/detail/operation_evaluator.hpp>
#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_nodes.hpp>
#include <tessera/detail/operation_traits.hpp>
#include <tessera/error.hpp>
#include <tessera/tile.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// The nodes that call kernels. Not for user code.
namespace tessera::detail {

// How a value is passed to a kernel parameter of type P. check<A>() explains in one line why a value of type A does not
// fit.
template <class P>
struct ParameterTraits;
template <Element T>
struct ParameterTraits<tile::Out<T>> {
  template <class A>
  static constexpr bool check() {
    static_assert(!TensorTraits<A>::is_shared,
                  "a kernel cannot write a shared tensor: pass an owned tensor for its tile::Out, such as "
                  "zeros<T>(shape) or std::move(tensor)");
    if constexpr (!TensorTraits<A>::is_shared) {
      static_assert(TensorTraits<A>::is_owned && std::is_same_v<ElementOf<A>, T>,
                    "the kernel's tile::Out<T> takes a Tensor<T> or Partitioned<T> of the same element type");
    }
    return TensorTraits<A>::is_owned && std::is_same_v<ElementOf<A>, T>;
  }
  template <class A>
  static void add(const A& argument, KernelInvocation& call, const TensorHandle**&, Value*&) {
    call.output = &handle_of(argument);
    if constexpr (requires { argument.tile(); }) call.tile = &argument.tile();
  }
};
template <Element T>
struct ParameterTraits<tile::In<T>> {
  template <class A>
  static constexpr bool check() {
    static_assert(std::is_same_v<ElementOf<A>, T>,
                  "the kernel's tile::In<T> takes a tensor of the same element type: Tensor<T>, Partitioned<T> or "
                  "std::shared_ptr<const Tensor<T>>");
    return std::is_same_v<ElementOf<A>, T>;
  }
  template <class A>
  static void add(const A& argument, KernelInvocation&, const TensorHandle**& input, Value*&) {
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
  static void add(const A& argument, KernelInvocation&, const TensorHandle**&, Value*& value) {
    *value++ = Value(argument);
  }
};

// Whether a kernel with parameters P takes values of types A; if not, a static_assert says why.
template <class... P, class... A>
constexpr bool check_arguments(const tile::KernelOf<P...>*, const std::tuple<A...>*) {
  static_assert(sizeof...(P) == sizeof...(A),
                "wrong number of values for the kernel: pass one for each of its parameters, in order");
  if constexpr (sizeof...(P) == sizeof...(A)) {
    return (ParameterTraits<P>::template check<A>() && ...);
  } else {
    return false;
  }
}

template <class... P, class T>
constexpr bool check_arguments(const tile::KernelOf<P...>*, const T*) {
  static_assert(never<T>, "apply() needs a tuple of values: write zip(output, inputs...).apply(kernel)");
  return false;
}

// The index of a kernel's output among its parameters.
template <class... Param>
constexpr std::size_t output_index() {
  constexpr std::array<bool, sizeof...(Param)> is_output = {std::derived_from<Param, tile::Output>...};
  for (std::size_t i = 0; i < is_output.size(); ++i) {
    if (is_output[i]) return i;
  }
  return 0;
}

// Calls a kernel with one value for each of its parameters.
template <class... Param, class... T>
void run_kernel(Evaluator& evaluator, const KnownKernel& kernel, const Shape* grid, const T&... values) {
  constexpr std::size_t input_count = (std::size_t{0} + ... + (std::derived_from<Param, tile::Input> ? 1 : 0));
  std::array<const TensorHandle*, input_count> inputs;
  std::array<Value, sizeof...(Param) - input_count - 1> scalars;
  KernelInvocation call{.kernel = &kernel, .inputs = inputs, .values = scalars, .grid = grid};
  const TensorHandle** input = inputs.data();
  Value* scalar = scalars.data();
  (ParameterTraits<Param>::add(values, call, input, scalar), ...);
  evaluator.run(call);
}

// A tile kernel, to be called with the values of a tuple.
template <class Tuple, class... Param>
struct TileKernelCaller {
  const KnownKernel& kernel;
  std::unique_ptr<const Shape> grid;  // null: none
  void operator()(Evaluator& evaluator, const Tuple& values) {
    std::apply([&](const auto&... value) { run_kernel<Param...>(evaluator, kernel, grid.get(), value...); }, values);
  }
};

// A kernel by name: the first tensor is the output, the others are the inputs.
template <class Tuple>
struct NamedKernelCaller {
  std::string name;
  Params params;
  void operator()(Evaluator& evaluator, const Tuple& values) {
    std::vector<const TensorHandle*> tensors;
    for_each_tensor(values, [&](const TensorHandle& tensor) { tensors.push_back(&tensor); });
    if (tensors.empty()) throw Error(Errc::count_mismatch, "[" + name + "] a kernel needs a tensor to write");
    Params given = params;
    evaluator.run({.name = name, .output = tensors[0], .inputs = std::span(tensors).subspan(1), .params = &given});
  }
};

// Calls a kernel with the values of a tuple and passes the tuple on.
template <class T, class Caller>
class ApplyNode final : public TypedNode<T> {
 public:
  ApplyNode(TypedNodePtr<T> source, Caller caller) : source_(source.get()), caller_(std::move(caller)) {
    this->allow_inline(1);
    this->add_child(std::move(source));
  }
  bool step(Evaluator& evaluator) override {
    T values = source_->take();
    caller_(evaluator, values);
    this->value.emplace(std::move(values));
    return true;
  }

 private:
  TypedNode<T>* source_;
  Caller caller_;
};

// A kernel called with operations and values; passes on its output. The same as zip, apply and a choice in one node,
// since programs build many of these.
template <class Tuple, class... Param>
class KernelNode;
template <class... T, class... Param>
class KernelNode<std::tuple<T...>, Param...> final
    : public TypedNode<std::tuple_element_t<output_index<Param...>(), std::tuple<T...>>> {
 public:
  using Tuple = std::tuple<T...>;

  template <class... Op>
  explicit KernelNode(const KnownKernel& kernel, std::unique_ptr<const Shape> grid, Op&&... operations)
      : kernel_(kernel),
        grid_(std::move(grid)),
        arguments_((this->allow_inline(1), *this), std::forward<Op>(operations)...) {}
  bool step(Evaluator& evaluator) override {
    constexpr std::size_t output = output_index<Param...>();
    arguments_.apply(
        [&](const auto&... argument) { run_kernel<Param...>(evaluator, kernel_, grid_.get(), argument.look()...); });
    this->value.emplace(arguments_.template get<output>().take_written());
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((I == output ? void() : arguments_.template get<I>().drop()), ...);
    }(std::index_sequence_for<Param...>{});
    return true;
  }
  void make_repeatable() override { arguments_.make_repeatable(); }

  // Converts this node into a zip and an apply, which pass on all values. Leaves this node unusable.
  TypedNodePtr<Tuple> take_all() {
    TypedNodePtr<Tuple> zip(new ZipNode<T...>(std::move(arguments_)));
    this->move_children_to(*zip);
    using Caller = TileKernelCaller<Tuple, Param...>;
    return TypedNodePtr<Tuple>(new ApplyNode<Tuple, Caller>(std::move(zip), Caller{kernel_, std::move(grid_)}));
  }

 private:
  const KnownKernel& kernel_;
  std::unique_ptr<const Shape> grid_;  // null: none
  OperationArguments<T...> arguments_;
};

}  // namespace tessera::detail
