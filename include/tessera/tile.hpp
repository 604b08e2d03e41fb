#pragma once

#include <tessera/border.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

class Shape;
template <class... Param>
struct GridKernel;

}  // namespace tessera

// Kernels written as tile programs. A kernel is a lambda that says what one tile of the output becomes:
//
//   const auto saxpy = tile::kernel(
//       "saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
//         z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
//       });
//   device.run(saxpy, {x, y}, z, {{"a", 2.0}});
//
// The lambda is called once for each kind of call (types, ranks, which extents are 1), to write the program down; the
// program is then compiled for the device. So nothing in it may depend on the contents of tiles other than through the
// operations below; ordinary C++ loops and functions are fine, and are unrolled.
//
// A mistake in a kernel (tiles that do not fit, an axis that is not there) is Errc::invalid_kernel at the first call.
namespace tessera::tile {

// A box of elements that the kernel computes with; an element, if its rank is 0. A number becomes one of the type of
// the tile that it meets: in `x / 9.0f` and `2 * x` both have x's type. Tiles meet as arrays in NumPy do: aligned at
// the last axis, an extent of 1 is repeated. Their types must be equal: cast<T>() one.
class TESSERA_API Tile {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  Tile(T number) noexcept  // NOLINT(google-explicit-constructor): 2 * x
      : is_whole_(std::is_integral_v<T>), is_truth_(std::is_same_v<T, bool>) {
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<std::int64_t>(number);
    number_ = static_cast<double>(number);
  }

  int rank() const;
  Tile dim(int axis) const;  // an extent, as an Index

 private:
  friend struct Access;
  Tile() = default;

  std::uint64_t trace_ = 0;  // 0: a number that has no type yet
  std::int32_t id_ = -1;
  bool is_whole_ = false;
  bool is_truth_ = false;
  std::int64_t integer_ = 0;
  double number_ = 0;
};

// An integer that is the same for the whole tile: a Tile of rank 0 and type s64.
using Index = Tile;

// Several of them, as in {z.block(0), k}.
class Indices {
 public:
  Indices() = default;
  template <class... Item>
    requires(sizeof...(Item) >= 1 && (std::convertible_to<const Item&, Index> && ...))
  Indices(const Item&... items) : items_{Index(items)...} {}  // NOLINT(google-explicit-constructor)
  explicit Indices(std::vector<Index> items) : items_(std::move(items)) {}

  std::size_t size() const noexcept { return items_.size(); }
  const Index& operator[](std::size_t i) const noexcept { return items_[i]; }
  const Index* begin() const noexcept { return items_.data(); }
  const Index* end() const noexcept { return items_.data() + items_.size(); }

 private:
  std::vector<Index> items_;
};

// Arithmetic. Integers wrap around; divided by zero they give 0; shifts are by the amount modulo the width.
TESSERA_API Tile operator+(const Tile& a, const Tile& b);
TESSERA_API Tile operator-(const Tile& a, const Tile& b);
TESSERA_API Tile operator*(const Tile& a, const Tile& b);
TESSERA_API Tile operator/(const Tile& a, const Tile& b);
TESSERA_API Tile operator%(const Tile& a, const Tile& b);
TESSERA_API Tile operator-(const Tile& a);
TESSERA_API Tile operator&(const Tile& a, const Tile& b);  // integers, and truths
TESSERA_API Tile operator|(const Tile& a, const Tile& b);
TESSERA_API Tile operator^(const Tile& a, const Tile& b);
TESSERA_API Tile operator~(const Tile& a);
TESSERA_API Tile operator!(const Tile& a);  // truths
TESSERA_API Tile operator<<(const Tile& a, const Tile& b);
TESSERA_API Tile operator>>(const Tile& a, const Tile& b);

// Truths, for select.
TESSERA_API Tile operator==(const Tile& a, const Tile& b);
TESSERA_API Tile operator!=(const Tile& a, const Tile& b);
TESSERA_API Tile operator<(const Tile& a, const Tile& b);
TESSERA_API Tile operator<=(const Tile& a, const Tile& b);
TESSERA_API Tile operator>(const Tile& a, const Tile& b);
TESSERA_API Tile operator>=(const Tile& a, const Tile& b);
TESSERA_API Tile select(const Tile& condition, const Tile& yes, const Tile& no);

TESSERA_API Tile exp(const Tile& x);
TESSERA_API Tile log(const Tile& x);
TESSERA_API Tile sqrt(const Tile& x);
TESSERA_API Tile rsqrt(const Tile& x);  // 1 / sqrt(x)
TESSERA_API Tile sin(const Tile& x);
TESSERA_API Tile cos(const Tile& x);
TESSERA_API Tile tanh(const Tile& x);
TESSERA_API Tile erf(const Tile& x);
TESSERA_API Tile pow(const Tile& x, const Tile& y);
TESSERA_API Tile abs(const Tile& x);
TESSERA_API Tile floor(const Tile& x);
TESSERA_API Tile ceil(const Tile& x);
TESSERA_API Tile round(const Tile& x);  // halves away from zero
TESSERA_API Tile min(const Tile& a, const Tile& b);
TESSERA_API Tile max(const Tile& a, const Tile& b);
TESSERA_API Tile fma(const Tile& a, const Tile& b, const Tile& c);  // a * b + c; rounded in between or not

// To another element type. What does not fit becomes the nearest that does, NaN becomes 0. From floats to integers
// cast goes towards zero, round_cast to the nearest, halves away from zero.
TESSERA_API Tile cast(const Tile& x, DType to);
TESSERA_API Tile round_cast(const Tile& x, DType to);
template <Element T>
Tile cast(const Tile& x) {
  return cast(x, dtype_of<T>);
}
template <Element T>
Tile round_cast(const Tile& x) {
  return round_cast(x, dtype_of<T>);
}

TESSERA_API Tile constant(DType type, const Tile& number);  // an element of this type
template <Element T>
Tile constant(T number) {
  return constant(dtype_of<T>, number);
}
TESSERA_API Tile iota(const Indices& shape, int axis);  // s64: each point's coordinate along the axis
TESSERA_API Tile broadcast(const Tile& x, const Indices& shape);
TESSERA_API Tile reshape(const Tile& x, const Indices& shape);  // the same elements in row-major order
TESSERA_API Tile transpose(const Tile& x);                      // the last two axes
TESSERA_API Tile transpose(const Tile& x, const std::vector<int>& axes);
// The part of x that begins at `start`; what is outside of x is 0.
TESSERA_API Tile slice(const Tile& x, const Indices& start, const Indices& shape);

// Along an axis (negative: from the end), which stays with extent 1.
TESSERA_API Tile reduce_sum(const Tile& x, int axis);
TESSERA_API Tile reduce_product(const Tile& x, int axis);
TESSERA_API Tile reduce_max(const Tile& x, int axis);
TESSERA_API Tile reduce_min(const Tile& x, int axis);
TESSERA_API Tile argmax(const Tile& x, int axis);  // s64: where the greatest is first

// sum[m,n] + a[m,k] * b[k,n]; more axes in front are a batch.
TESSERA_API Tile mma(const Tile& a, const Tile& b, const Tile& sum);

TESSERA_API Index ceil_div(const Index& a, const Index& b);

// A buffer that the kernel reads, of any type.
class TESSERA_API Input {
 public:
  explicit Input(int number) noexcept : number_(number) {}

  DType dtype() const;
  int rank() const;
  Index dim(int axis) const;

  // The tile of this extent at these tile coordinates, that is, from coordinate * extent on.
  Tile load(const Indices& extent, const Indices& coordinates, Border border = Border::zero) const;
  // The elements at these indices, one tile of s64 for each axis, which meet as operands do. With a step the border
  // takes the last axis as groups of so many elements: of [H,W*3] with step 3 it repeats pixels, not channels.
  Tile at(const Indices& indices, Border border = Border::zero, int step = 1) const;

 private:
  friend struct Access;
  int number_;
};

// The buffer that the kernel writes, of any type.
class TESSERA_API Output {
 public:
  explicit Output(int number = 0) noexcept : number_(number) {}

  DType dtype() const;
  int rank() const;
  Index dim(int axis) const;       // of the whole output
  Index tile_dim(int axis) const;  // of the tile
  Index block(int axis) const;     // which tile
  // s64: where each point of the tile is in the output along the axis. Its other extents are 1. Widened: also that many
  // points before and after the tile, for the surroundings of points.
  Tile index(int axis, int before = 0, int after = 0) const;

  // What the tile becomes, once in a kernel. Points outside of the output are left out.
  void store(const Tile& value) const;

 private:
  friend struct Access;
  int number_;
};

// The part of x that belongs to z's tile. x's shape must be z's, or broadcast to it as in NumPy.
TESSERA_API Tile load_like(const Input& x, const Output& z);
// The same moved by an offset for each axis of z: the point p is x[p + offset]. The step is that of Input::at.
TESSERA_API Tile load_shifted(const Input& x, const Output& z, const Indices& offset, Border border = Border::zero,
                              int step = 1);
// A tile of z's type and tile shape.
TESSERA_API Tile full_like(const Output& z, const Tile& number);
inline Tile zeros_like(const Output& z) { return full_like(z, 0); }

namespace detail {

TESSERA_API Tile scalar(int number);
TESSERA_API std::vector<Tile> loop(
    const Index& count, const std::vector<Tile>& initial,
    const std::function<std::vector<Tile>(const Index&, const std::vector<Tile>&)>& body);

template <std::size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value); }  // NOLINT(google-explicit-constructor)
  char value[N] = {};
};

}  // namespace detail

// Runs the body `count` times; what it returns is what it gets the next time, and in the end the result. Several values
// go as a std::tuple of Tiles.
//
//   tile::loop(n, zeros_like(z), [&](tile::Index k, auto sum) { return sum + …; })
template <class Body>
Tile loop(const Index& count, const Tile& initial, Body&& body) {
  return detail::loop(count, {initial}, [&](const Index& k, const std::vector<Tile>& carried) {
    return std::vector<Tile>{body(k, carried[0])};
  })[0];
}
template <class... T, class Body>
  requires(std::convertible_to<T, Tile> && ...)
std::tuple<std::conditional_t<true, Tile, T>...> loop(const Index& count, const std::tuple<T...>& initial,
                                                      Body&& body) {
  using Tiles = std::tuple<std::conditional_t<true, Tile, T>...>;
  const auto to_vector = [](const auto& tuple) {
    return std::apply([](const auto&... item) { return std::vector<Tile>{Tile(item)...}; }, tuple);
  };
  const auto to_tuple = [](const std::vector<Tile>& tiles) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Tiles(tiles[I]...);
    }(std::index_sequence_for<T...>{});
  };
  return to_tuple(detail::loop(count, to_vector(initial), [&](const Index& k, const std::vector<Tile>& carried) {
    return to_vector(Tiles(body(k, to_tuple(carried))));
  }));
}

// The parameters of a kernel's lambda: one Out, any number of In and Scalar. Inputs are given in the order in which
// they stand; a scalar is a parameter of the call, by its name.
template <Element T>
struct Out : Output {
  using Output::Output;
};
template <Element T>
struct In : Input {
  using Input::Input;
};
template <Element T, detail::Name name>
struct Scalar : Tile {
  explicit Scalar(int number) : Tile(detail::scalar(number)) {}
};

struct Parameter {
  enum class Kind : std::uint8_t { output, input, scalar };
  Kind kind;
  DType dtype;
  std::string name;  // of a scalar
};

// A kernel: a shared handle. Any thread may use it.
class TESSERA_API Kernel {
 public:
  // What `body` does is write one program down; it may be called at any time, from any thread.
  Kernel(std::string_view name, std::vector<Parameter> parameters, std::function<void()> body);

  const std::string& name() const noexcept;

  struct State;
  const std::shared_ptr<const State>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

// A kernel that knows the types of its parameters: what operations (operation.hpp) are made of.
template <class... Param>
class KernelOf : public Kernel {
 public:
  using Kernel::Kernel;

  // The operation that runs it on the values of these operations, one for each parameter, and gives its output.
  //
  //   Tensor<float> z = co_await add(zeros<float>({32, 32}), x, y);
  template <class... Op>
  auto operator()(Op&&... operations) const;
  // With so many tiles along each axis of the output, instead of those that the output is partitioned into.
  GridKernel<Param...> grid(const Shape& counts) const;
};

namespace detail {

template <class P>
struct Traits;
template <Element T>
struct Traits<Out<T>> {
  static Parameter parameter() { return {Parameter::Kind::output, dtype_of<T>, {}}; }
};
template <Element T>
struct Traits<In<T>> {
  static Parameter parameter() { return {Parameter::Kind::input, dtype_of<T>, {}}; }
};
template <Element T, Name name>
struct Traits<Scalar<T, name>> {
  static Parameter parameter() { return {Parameter::Kind::scalar, dtype_of<T>, name.value}; }
};

template <class P>
concept KernelParameter = requires { Traits<P>::parameter(); };

// The number of the first `i` parameters that are of the same kind: what a handle is made from.
template <class... P>
constexpr auto numbers() {
  constexpr std::array<int, sizeof...(P)> kinds = {
      (std::derived_from<P, Output> ? 0 : (std::derived_from<P, Input> ? 1 : 2))...};
  std::array<int, sizeof...(P)> result{};
  int counts[3] = {};
  for (std::size_t i = 0; i < sizeof...(P); ++i) result[i] = counts[kinds[i]]++;
  return result;
}

template <class F, class... P>
KernelOf<P...> make_kernel(std::string_view name, F body) {
  static_assert((KernelParameter<P> && ...), "a kernel takes tile::Out<T>, tile::In<T> and tile::Scalar<T, \"name\">");
  static_assert((std::size_t{0} + ... + (std::derived_from<P, Output> ? 1 : 0)) == 1, "a kernel has one tile::Out");
  return KernelOf<P...>(name, {Traits<P>::parameter()...}, [body = std::move(body)] {
    constexpr auto number = numbers<P...>();
    [&]<std::size_t... I>(std::index_sequence<I...>) { body(P(number[I])...); }(std::index_sequence_for<P...>{});
  });
}

template <class F, class R, class Class, class... P>
auto from_call_operator(std::string_view name, F body, R (Class::*)(P...) const) {
  return make_kernel<F, std::remove_cvref_t<P>...>(name, std::move(body));
}

}  // namespace detail

// Inputs are numbered from 0 in the order in which they stand in the lambda's parameters.
template <class F>
auto kernel(std::string_view name, F body) {
  return detail::from_call_operator(name, std::move(body), &F::operator());
}

}  // namespace tessera::tile
