#pragma once

#include <tessera/kernel_info.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/tile.hpp>

#include "core/inline_vector.hpp"
#include "ir/ir.hpp"

#include <algorithm>
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

// The value of a parameter, checked against its ParamSpec.
struct Argument {
  double number = 0;
  std::int64_t integer = 0;  // the exact value, if it is a whole number
  bool is_integer = false;
  bool is_given = false;         // by the caller; otherwise this is the default
  const Value* value = nullptr;  // the original value, for strings and lists; borrowed from the caller

  bool boolean() const { return value->boolean(); }
  std::string_view string() const { return value->string(); }
  // The items of a list; a single number counts as a list of one.
  std::vector<double> numbers() const;
  std::vector<std::int64_t> integers() const;
};

// A scalar as a launch passes it: the bits of a double for float types, of an s64 for integer types.
inline std::uint64_t scalar_bits(DType dtype, const Argument& argument) {
  if (is_float(dtype)) return std::bit_cast<std::uint64_t>(argument.number);
  return static_cast<std::uint64_t>(argument.integer);
}

// The arguments of a call; the first four need no allocation.
using Arguments = core::InlineVector<Argument, 4>;

// The parameters passed to a call: either some by name, or all of them in the kernel's order. A view: it borrows them.
class ParamsView {
 public:
  ParamsView(const Params& params) noexcept : params_(&params) {}  // NOLINT(google-explicit-constructor)
  explicit ParamsView(std::span<const Value> values) noexcept : values_(values) {}

  const Params* params() const noexcept { return params_; }  // null: values() in order
  std::span<const Value> values() const noexcept { return values_; }
  Params named(const Kernel& kernel) const;

 private:
  const Params* params_ = nullptr;
  std::span<const Value> values_;
};

struct ParamSpec {
  // numbers and integers are lists; a colour is three numbers or a text (builtin/color_text.hpp).
  enum class Kind : std::uint8_t { number, integer, boolean, string, numbers, integers, color };

  std::string name;
  Kind kind = Kind::number;
  Value default_value;
  std::string documentation;
  // The inclusive range of a number or of each item of a list. Without limits, NaN and infinities are allowed too.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // for strings
  bool is_required = false;               // has no default
  std::vector<std::string> aliases = {};  // other names, of which a call gives at most one

  // As min and max: greater than 0 and finite.
  static constexpr double above_zero = std::numeric_limits<double>::denorm_min();
  static constexpr double greatest = std::numeric_limits<double>::max();
  bool is_positive() const noexcept { return min == above_zero && max == greatest; }

  bool has_name(std::string_view given) const noexcept {
    return name == given || std::ranges::find(aliases, given) != aliases.end();
  }
  bool allows(double number) const noexcept {
    return (std::isinf(min) && std::isinf(max)) || (number >= min && number <= max);
  }
};

// The type and shape of an input or output.
struct Operand {
  DType dtype;
  const Shape* shape;
};

// One call with checked parameters: the input of Kernel::lower.
struct Call {
  const Kernel& kernel;
  std::span<const Operand> inputs;
  Operand output;
  std::span<const Argument> arguments;      // in the order of the kernel's params, defaults included
  std::span<const std::int64_t> tile = {};  // the tile shape the caller chose, for user kernels that depend on it

  const Argument& operator[](std::string_view param) const;
};

// A call lowered to a tile program and the arguments it runs with. Two lowerings of a kernel with the same types,
// ranks, extents of 1, fixed extents, tile and variant share one compiled program; everything else may differ between
// calls.
struct Lowering {
  // The shapes as the program sees them, output first, then inputs. They may be other views of the same elements in the
  // same order, such as [H,W*4] for [H,W,4].
  std::vector<Shape> shapes;
  // Extents (buffer, axis) that are compiled in as constants. Extents of 1 always are.
  std::vector<std::pair<int, int>> fixed;
  // Anything else the body depends on: a key, such as "bicubic".
  std::string variant;
  // Each output element depends only on the input elements at the same index (it uses load_like and no other
  // index-dependent operation), so axes may be merged.
  bool is_pointwise = false;
  // For a pointwise lowering: as long as all operands have the same type and shape, parameters affect only the scalars,
  // and each scalar is the parameter of that name. Such calls are lowered once per type.
  bool only_scalars_vary = false;
  // The body is user code: whether it is pointwise is derived from the program.
  bool is_user_code = false;
  // Runtime scalars, in the order of tile::detail::scalar(0), (1), …
  struct Scalar {
    std::string_view name;
    DType dtype;
    Argument value;
    std::uint64_t bits() const { return scalar_bits(dtype, value); }
  };
  std::vector<Scalar> scalars;
  std::vector<std::int64_t> tile;  // if the caller or the kernel chose one; 0: the whole axis
  ir::Idiom idiom;
  // Records the program in the tile language: tile::Output z; tile::Input x(0); z.store(…).
  std::function<void()> body;
};

// A kernel: its signature, and how a call of it is lowered.
struct Kernel {
  std::string name;
  std::vector<std::string> inputs = {};
  std::size_t optional_inputs = 0;  // how many trailing inputs may be omitted
  std::vector<ParamSpec> params = {};
  std::vector<DType> dtypes;  // of the output, for info(); `lower` does the checking
  std::string documentation;
  std::vector<std::string> aliases = {};    // other names
  std::vector<std::string> nicknames = {};  // other names that users may take for their own kernels
  // Checks types and shapes and lowers the call. Throws an Error that names the offending operand: use the checks
  // below.
  std::function<Lowering(const Call& call)> lower;

  // Set by add() and adopt().
  std::size_t number = 0;               // unique and small
  std::vector<Argument> defaults = {};  // in the order of `params`
  void set_defaults();

  void check_count(std::size_t given) const {
    if (given > inputs.size() || given + optional_inputs < inputs.size()) [[unlikely]]
      throw_count(given);
  }
  // Checks the given parameters and appends all arguments in the order of `params`, defaults included.
  void bind(const ParamsView& given, Arguments& arguments) const;
  KernelInfo info() const;

  [[noreturn]] void throw_count(std::size_t given) const;
};

// "[name] input 0 (x)": the start of a message.
std::string describe_input(const Call& call, std::size_t index);
// Errc::dtype_mismatch or shape_mismatch: "[relu] input 0 (x) must be f32[4] like the output, got s32[4]".
void check_same_as_output(const Call& call, std::size_t index);
void check_dtype(const Call& call, std::size_t index, DType wanted);
void check_dtype_in(const Call& call, DType given, std::string_view what, std::span<const DType> allowed);
void check_output_shape(const Call& call, const Shape& wanted);
void check_output_dtype(const Call& call, DType wanted);
// The tile must have the output's rank and extents of at least 1.
void check_tile(const Kernel& kernel, const Operand& output, std::span<const std::int64_t> tile);
void check_rank(const Call& call, std::size_t index, int least, int most);
[[noreturn]] void fail(const Call& call, Errc code, std::string_view what);  // "[name] what"
// The axis 0…rank-1 given by a parameter, which may count from the end; Errc::invalid_parameter.
int checked_axis(const Call& call, std::string_view param, int rank);
// A lowering with the operands' shapes, no scalars and no fixed extents.
Lowering plain_lowering(const Call& call, std::function<void()> body);
// The lowering of an element-wise kernel. The inputs broadcast as in NumPy; the output must have their broadcast shape.
Lowering pointwise_lowering(const Call& call, std::function<void()> body);

// The kernel with this name or alias; Errc::unknown_kernel, with the nearest name, if there is none. Kernels are never
// destroyed: a reference stays valid even if the name is registered again.
const Kernel& find(std::string_view name);
// All registered kernels, sorted by name.
std::vector<const Kernel*> all();
// Registers a kernel, replacing a user kernel of the same name. Built-in names cannot be replaced
// (Errc::invalid_argument), only their nicknames.
const Kernel& add(Kernel kernel);
// Stores a kernel and makes it callable without registering its name.
const Kernel& adopt(Kernel kernel);

// The built-in kernels, one file per group.
std::vector<Kernel> elementwise_kernels();
std::vector<Kernel> reduction_kernels();
std::vector<Kernel> linear_kernels();
std::vector<Kernel> generator_kernels();
std::vector<Kernel> image_filter_kernels();
std::vector<Kernel> image_color_kernels();
std::vector<Kernel> image_geometry_kernels();
std::vector<Kernel> sound_kernels();

// Merges adjacent axes that all shapes traverse alike and drops axes of extent 1, for pointwise lowerings. The first
// shape is the output's, to which the others broadcast; all get the same rank, at least 1.
void merge_axes(std::vector<Shape>& shapes);

// Records the program of a lowering for buffers of these extents (-1: any). Throws Errc::invalid_kernel.
ir::Program trace(const Call& call, const Lowering& lowering, const std::vector<std::vector<std::int64_t>>& dims);

// The kernel of a user's tile kernel, for registration.
Kernel from_tile_kernel(const tile::Kernel& kernel);
// The same for calls that pass the tile kernel itself: always the same object for a handle and its copies.
const Kernel& of(const tile::Kernel& kernel);
// A kernel from an expression such as "max(x, 0) * scale".
Kernel from_text(std::string_view name, std::vector<std::string> inputs, std::string_view expression,
                 const Params& params);

}  // namespace tessera::kernels
