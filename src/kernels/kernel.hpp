#pragma once

#include <tessera/kernel_info.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/tile.hpp>

#include "core/inline_vector.hpp"
#include "ir/ir.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::kernels {

struct Kernel;

// The value of a parameter as a kernel gets it: checked against its ParamSpec.
struct Argument {
  double number = 0;
  std::int64_t integer = 0;  // the exact value, if it is a whole number
  bool is_integer = false;
  bool is_given = false;         // by the caller, not the default
  const Value* value = nullptr;  // the whole of it, for strings and lists; lives as long as the call is looked at

  bool boolean() const { return value->boolean(); }
  std::string_view string() const { return value->string(); }
  // Of a list; a single number counts as a list of one.
  std::vector<double> numbers() const;
  std::vector<std::int64_t> integers() const;
};

// What a launch has for a scalar: the bits of a double for a float, else of an s64.
inline std::uint64_t scalar_bits(DType dtype, const Argument& argument) {
  if (is_float(dtype)) return std::bit_cast<std::uint64_t>(argument.number);
  return static_cast<std::uint64_t>(argument.integer);
}

// Those of a call; the first few need no allocation.
using Arguments = core::InlineVector<Argument, 4>;

// The parameters that a call is given: some by their names, or all of them, in the kernel's order. Looks at what others
// hold.
class Given {
 public:
  Given(const Params& params) noexcept : params_(&params) {}  // NOLINT(google-explicit-constructor)
  explicit Given(std::span<const Value> values) noexcept : values_(values) {}

  const Params* params() const noexcept { return params_; }  // null: in order
  std::span<const Value> values() const noexcept { return values_; }
  Params named(const Kernel& kernel) const;

 private:
  const Params* params_ = nullptr;
  std::span<const Value> values_;
};

struct ParamSpec {
  enum class Kind : std::uint8_t { number, integer, boolean, string, numbers, integers };  // the last two: lists

  std::string name;
  Kind kind = Kind::number;
  Value default_value;
  std::string documentation;
  // What a number, or each of a list, may be, both ends included; without limits also NaN and the infinities.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // of a string
  bool is_required = false;               // there is no default

  // Greater than 0 and finite: as limits.
  static constexpr double above_zero = std::numeric_limits<double>::denorm_min();
  static constexpr double greatest = std::numeric_limits<double>::max();
  bool is_positive() const noexcept { return min == above_zero && max == greatest; }

  bool allows(double number) const noexcept {
    return (std::isinf(min) && std::isinf(max)) || (number >= min && number <= max);
  }
};

// One operand of a call.
struct Operand {
  DType dtype;
  const Shape* shape;
};

// One call, its parameters already checked: what a kernel's `plan` looks at.
struct Call {
  const Kernel& kernel;
  std::span<const Operand> inputs;
  Operand output;
  std::span<const Argument> arguments;      // in the order of the kernel's params, defaults included
  std::span<const std::int64_t> tile = {};  // the tiles that the caller wants: for kernels that see theirs

  const Argument& operator[](std::string_view param) const;
};

// How a call is done: a program, and what it is run with. Two plans of a kernel with the same types, ranks, extents of
// 1, fixed extents, tile and variant have the same program, which is compiled once; all else may differ from call to
// call.
struct Plan {
  // The shapes that the program sees: the output's, then the inputs'. They may be other views of the same elements in
  // the same order: [H,W,4] as [H,W*4].
  std::vector<Shape> shapes;
  // The extents (buffer, axis) that the program is made for; extents of 1 are so anyway.
  std::vector<std::pair<int, int>> fixed;
  // What else of the parameters and shapes the body depends on.
  std::string variant;
  // Every point depends on the same point of the inputs only (load_like and nothing else that knows of places): axes
  // may be merged.
  bool is_pointwise = false;
  // For a pointwise plan: while all operands have one type and one shape, the parameters change nothing but the
  // scalars, each of which is the parameter of its name as it is. Such calls are then planned once for each type.
  bool only_scalars_vary = false;
  // The body is a user's: whether it is pointwise is found out from the program.
  bool is_unknown = false;
  // Runtime scalars, in the order of tile::detail::scalar(0), (1), …
  struct Scalar {
    std::string_view name;
    DType dtype;
    Argument value;
    std::uint64_t bits() const { return scalar_bits(dtype, value); }
  };
  std::vector<Scalar> scalars;
  std::vector<std::int64_t> tile;  // if the caller chose it
  ir::Idiom idiom;
  // Writes the program down with the tile language: tile::Output z; tile::Input x(0); z.store(…).
  std::function<void()> body;
};

// A kernel by name: what it takes, and how a call of it is done.
struct Kernel {
  std::string name;
  std::vector<std::string> inputs = {};
  std::size_t optional_inputs = 0;  // how many of the last ones may be left out
  std::vector<ParamSpec> params = {};
  std::vector<DType> dtypes;  // of the output: what info() tells; `plan` checks
  std::string documentation;
  std::vector<std::string> aliases = {};    // its other names
  std::vector<std::string> nicknames = {};  // names that it has until another kernel takes them
  // Checks types and shapes and says how it is done. Throws an Error that names the culprit: use the functions below.
  std::function<Plan(const Call& call)> plan;

  // Set by add() and adopt().
  std::size_t number = 0;               // tells kernels apart; small
  std::vector<Argument> defaults = {};  // in the order of `params`
  void set_defaults();

  void check_count(std::size_t given) const {
    if (given > inputs.size() || given + optional_inputs < inputs.size()) [[unlikely]]
      throw_count(given);
  }
  // The parameters' values, in the order of `params`, with their defaults.
  void bind(const Given& given, Arguments& arguments) const;
  KernelInfo info() const;

  [[noreturn]] void throw_count(std::size_t given) const;
};

// "[name] input 0 (x)", "[name] output": the beginning of a message.
std::string describe_input(const Call& call, std::size_t index);
// Errc::dtype_mismatch or shape_mismatch: "[relu] input 0 (x) must be f32[4] like the output, got s32[4]".
void check_same_as_output(const Call& call, std::size_t index);
void check_dtype(const Call& call, std::size_t index, DType wanted);
void check_dtype_in(const Call& call, DType given, std::string_view what, std::span<const DType> allowed);
void check_output_shape(const Call& call, const Shape& wanted);
void check_output_dtype(const Call& call, DType wanted);
// Tiles of a call's output: as many axes, of one point at least.
void check_tile(const Kernel& kernel, const Operand& output, std::span<const std::int64_t> tile);
void check_rank(const Call& call, std::size_t index, int least, int most);
[[noreturn]] void fail(const Call& call, Errc code, std::string_view what);  // "[name] what"
// The axis 0…rank-1 of a parameter that may be negative; Errc::invalid_parameter.
int checked_axis(const Call& call, std::string_view param, int rank);
// Shapes as they are, no scalars, nothing fixed.
Plan plain_plan(const Call& call, std::function<void()> body);
// The plan of an element-wise kernel: the inputs broadcast to the output (NumPy), whose shape must be theirs together.
Plan pointwise_plan(const Call& call, std::function<void()> body);

// The kernel of a name or alias; Errc::unknown_kernel with the nearest name. Kernels are never destroyed: a reference
// stays good, also if another is registered under the name.
const Kernel& find(std::string_view name);
// All of them, by name.
std::vector<const Kernel*> all();
// Adds a kernel; one that was added before under its name is replaced, a built-in one is not, but for its nicknames:
// Errc::invalid_argument.
const Kernel& add(Kernel kernel);
// Makes a kernel that has no name in the registry ready for calls.
const Kernel& adopt(Kernel kernel);

// The built-in ones, a file each.
std::vector<Kernel> elementwise_kernels();
std::vector<Kernel> reduction_kernels();
std::vector<Kernel> linear_kernels();
std::vector<Kernel> making_kernels();
std::vector<Kernel> image_filter_kernels();
std::vector<Kernel> image_color_kernels();
std::vector<Kernel> image_geometry_kernels();

// Adjacent axes that all of these step through alike become one, and extents of 1 that all have go: for pointwise
// plans. The first is the output's, to which the others broadcast; all get its rank, at least 1.
void merge_axes(std::vector<Shape>& shapes);

// The program of a call's plan, made for buffers of these extents (-1: any). Errc::invalid_kernel.
ir::Program trace(const Call& call, const Plan& plan, const std::vector<std::vector<std::int64_t>>& dims);

// A kernel of the user's, and one from text. of() is that of calls which name no kernel but bring it: always the same
// one for a handle and its copies.
Kernel from_tile_kernel(const tile::Kernel& kernel);
const Kernel& of(const tile::Kernel& kernel);
Kernel from_text(std::string_view name, std::vector<std::string> inputs, std::string_view expression,
                 const Params& params);

}  // namespace tessera::kernels
