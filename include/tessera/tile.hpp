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

// Kernels written as tile programs. A kernel is a lambda that computes one tile of the output:
//
//   const auto saxpy = tile::kernel(
//       "saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y, tile::Scalar<float, "a"> a) {
//         z.store(a * tile::load_like(x, z) + tile::load_like(y, z));
//       });
//   device.run(saxpy, {x, y}, z, {{"a", 2.0}});
//
// The lambda runs once for each combination of types, ranks and extents of 1, to record a program, which is then
// compiled for the device. So C++ control flow cannot depend on the contents of tiles: use select() and loop().
// Ordinary C++ loops and functions are fine; loops are unrolled.
//
// Extents of tiles are numbers, or computed from dim() and tile_dim(): x.dim(0) - 2. A negative one counts as 0. One
// that overflows is Errc::overflow, and one that makes a tile of more than 8 GiB Errc::out_of_memory, before anything
// runs.
//
// An error in a kernel (tiles that do not broadcast, an axis that does not exist) is Errc::invalid_kernel at the first
// call.
namespace tessera::tile {

// An array of elements that the kernel computes with; a single element if its rank is 0. A plain number takes the type
// of the tile it is combined with: x's in `x / 9.0f` and `2 * x`. Tiles broadcast as NumPy arrays do: shapes are
// aligned at the last axis, and extents of 1 are repeated. Operands must have the same type: cast<T>() one of them.
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
  Tile dim(int axis) const;  // the extent, as an Index

 private:
  friend struct Access;
  Tile() = default;

  std::uint64_t trace_ = 0;  // 0: a plain number, which has no type yet
  std::int32_t id_ = -1;
  bool is_whole_ = false;
  bool is_truth_ = false;
  std::int64_t integer_ = 0;
  double number_ = 0;
};

// An integer, such as an extent or a coordinate: a Tile of rank 0 and type s64.
using Index = Tile;

// A list of them, such as {z.block(0), k}.
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

// Arithmetic. Integers wrap around; dividing one by zero yields 0; shift amounts are taken modulo the bit width.
TESSERA_API Tile operator+(const Tile& a, const Tile& b);
TESSERA_API Tile operator-(const Tile& a, const Tile& b);
TESSERA_API Tile operator*(const Tile& a, const Tile& b);
TESSERA_API Tile operator/(const Tile& a, const Tile& b);
TESSERA_API Tile operator%(const Tile& a, const Tile& b);
TESSERA_API Tile operator-(const Tile& a);
TESSERA_API Tile operator&(const Tile& a, const Tile& b);  // integers and booleans
TESSERA_API Tile operator|(const Tile& a, const Tile& b);
TESSERA_API Tile operator^(const Tile& a, const Tile& b);
TESSERA_API Tile operator~(const Tile& a);
TESSERA_API Tile operator!(const Tile& a);  // booleans
TESSERA_API Tile operator<<(const Tile& a, const Tile& b);
TESSERA_API Tile operator>>(const Tile& a, const Tile& b);

// Comparisons yield booleans, for select.
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
TESSERA_API Tile fma(const Tile& a, const Tile& b,
                     const Tile& c);  // a * b + c, rounded once or twice, whichever is faster

// Converts to another element type. In an integer type, out-of-range values saturate and NaN becomes 0. From float to
// integer, cast truncates and round_cast rounds to the nearest, halves away from zero.
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

TESSERA_API Tile constant(DType type, const Tile& number);  // rank 0, of this type
template <Element T>
Tile constant(T number) {
  return constant(dtype_of<T>, number);
}
TESSERA_API Tile iota(const Indices& shape, int axis);  // s64: each element's index along the axis
TESSERA_API Tile broadcast(const Tile& x, const Indices& shape);
TESSERA_API Tile reshape(const Tile& x, const Indices& shape);  // the same elements in row-major order
TESSERA_API Tile transpose(const Tile& x);                      // the last two axes
TESSERA_API Tile transpose(const Tile& x, const std::vector<int>& axes);
// The part of x that starts at `start`; 0 outside x.
TESSERA_API Tile slice(const Tile& x, const Indices& start, const Indices& shape);

// Reductions along an axis (negative: from the end), which remains with extent 1.
TESSERA_API Tile reduce_sum(const Tile& x, int axis);
TESSERA_API Tile reduce_product(const Tile& x, int axis);
TESSERA_API Tile reduce_max(const Tile& x, int axis);
TESSERA_API Tile reduce_min(const Tile& x, int axis);
TESSERA_API Tile argmax(const Tile& x, int axis);  // s64: index of the first maximum

// Matrix product: sum[m,n] + a[m,k] * b[k,n]. Leading axes are batches.
TESSERA_API Tile mma(const Tile& a, const Tile& b, const Tile& sum);

TESSERA_API Index ceil_div(const Index& a, const Index& b);

// A buffer that the kernel reads. In<T> below also fixes its type.
class TESSERA_API Input {
 public:
  explicit Input(int number) noexcept : number_(number) {}

  DType dtype() const;
  int rank() const;
  Index dim(int axis) const;

  // The tile of these extents at these tile coordinates: it starts at coordinate * extent along each axis.
  Tile load(const Indices& extent, const Indices& coordinates, Border border = Border::zero) const;
  // Gathers the elements at these indices: one s64 tile per axis, broadcast together. With a step, the border rule
  // treats the last axis as groups of that many elements: on [H,W*3] with step 3 it repeats pixels, not channels.
  Tile at(const Indices& indices, Border border = Border::zero, int step = 1) const;

 private:
  friend struct Access;
  int number_;
};

// The buffer that the kernel writes. Out<T> below also fixes its type.
class TESSERA_API Output {
 public:
  explicit Output(int number = 0) noexcept : number_(number) {}

  DType dtype() const;
  int rank() const;
  Index dim(int axis) const;       // of the whole output
  Index tile_dim(int axis) const;  // of the tile
  Index block(int axis) const;     // the tile's coordinate
  // s64: the output index along the axis of each element of the tile; the other extents are 1. `before` and `after`
  // extend it by that many elements on either side, for stencils.
  Tile index(int axis, int before = 0, int after = 0) const;

  // Writes the tile. Called once per kernel. Elements outside the output are masked.
  void store(const Tile& value) const;

 private:
  friend struct Access;
  int number_;
};

// The part of x at the indices of z's tile. x must have z's shape or broadcast to it.
TESSERA_API Tile load_like(const Input& x, const Output& z);
// The same, shifted by an offset for each axis of z: element p is x[p + offset]. For `step` see Input::at.
TESSERA_API Tile load_shifted(const Input& x, const Output& z, const Indices& offset, Border border = Border::zero,
                              int step = 1);
// A tile with z's type and tile shape, filled with a number.
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

// Runs the body `count` times and returns its last result. The body takes the iteration's number and the previous
// result, at first `initial`. To carry several values, use a std::tuple of Tiles.
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

// The parameters of a kernel's lambda: one Out and any number of In and Scalar. A call passes the inputs in this order,
// and scalars as named parameters.
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

// A kernel. A shared handle that any thread may use.
class TESSERA_API Kernel {
 public:
  // `body` records the program. It may be called at any time, from any thread.
  Kernel(std::string_view name, std::vector<Parameter> parameters, std::function<void()> body);

  const std::string& name() const noexcept;

  struct State;
  const std::shared_ptr<const State>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

// A kernel with typed parameters, which operations (operation.hpp) can be built from.
template <class... Param>
class KernelOf : public Kernel {
 public:
  using Kernel::Kernel;

  // Returns the operation that runs the kernel on the results of these operations, one per parameter, and yields its
  // output.
  //
  //   Tensor<float> z = co_await add(zeros<float>({32, 32}), x, y);
  template <class... Op>
  auto operator()(Op&&... operations) const;
  // Sets the number of tiles along each axis of the output, overriding its partition.
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

// For each parameter, its index among those of the same kind.
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

// Makes a kernel of a lambda; see the top of this file.
template <class F>
auto kernel(std::string_view name, F body) {
  return detail::from_call_operator(name, std::move(body), &F::operator());
}

}  // namespace tessera::tile
