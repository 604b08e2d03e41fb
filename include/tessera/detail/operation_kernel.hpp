#pragma once

#include <tessera/detail/operation_node.hpp>
#include <tessera/detail/operation_parts.hpp>
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

// The nodes that run kernels: for operation.hpp, not for programs.
namespace tessera::detail {

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
    if (tensors.empty()) throw Error(Errc::count_mismatch, "[" + name + "] a kernel needs a tensor to write");
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
    this->value.emplace(items_.template get<output>().take_written());
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

}  // namespace tessera::detail
