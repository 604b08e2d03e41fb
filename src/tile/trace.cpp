#include "tile/trace.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "ir/rules.hpp"
#include "tile/context.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera::tile {

using core::text;

namespace {

thread_local Context* current = nullptr;
std::atomic<std::uint64_t> last_number{0};

// Makes a context the thread's current one during its lifetime.
class Scope {
 public:
  explicit Scope(Context& context) : outer_(std::exchange(current, &context)) {}
  ~Scope() { current = outer_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Context* outer_;
};

// Limits the longest chain of dependent operations: compilers recurse along it, and must not overflow a thread's stack.
void check_depth(const ir::Program& program) {
  constexpr int max_depth = 4000;
  std::vector<int> depths(program.ops.size());
  const auto below = [&](const std::vector<ir::Id>& ids) {
    int most = 0;
    for (const ir::Id id : ids) most = std::max(most, depths[static_cast<std::size_t>(id)]);
    return most;
  };
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    const ir::Op& op = program.ops[id];
    depths[id] = 1 + std::max(below(op.operands), below(op.shape));
    if (op.code != ir::Code::loop) continue;
    depths[id] += below(program.regions[static_cast<std::size_t>(op.index)].results);
  }
  if (const int depth = depths.back(); depth > max_depth) {
    ir::fail(program,
             text("a chain of ", depth, " dependent operations is too long; at most ", max_depth, " are allowed"));
  }
}

}  // namespace

Context& context() {
  if (!current)
    throw Error(Errc::invalid_kernel, "tiles can only be used inside a kernel, on the thread that calls it");
  return *current;
}

ir::Builder& builder() { return context().builder; }
void fail(std::string_view what) { ir::fail(builder().program(), what); }

ir::Program trace(std::string_view name, std::vector<ir::Buffer> buffers, std::vector<ir::Scalar> scalars,
                  const std::function<void()>& body, std::vector<std::int64_t> tile) {
  Context context{++last_number,
                  ir::Builder(std::string(name), std::move(buffers), std::move(scalars), std::move(tile))};
  const Scope scope(context);
  body();
  if (context.builder.is_in_loop()) fail("the body of a loop threw, and the kernel continued");
  if (context.stored == ir::none) fail("nothing is stored: the kernel must call store() of its output");
  ir::Program program = std::move(context.builder).store(context.stored);
  ir::verify(program);
  check_depth(program);
  return program;
}

Tile Access::tile(ir::Id id) {
  Tile tile;
  tile.trace_ = context().number;
  tile.id_ = id;
  return tile;
}

void Access::check(const Tile& tile) {
  if (tile.trace_ != context().number) fail("this tile belongs to another kernel, or to another call of it");
  if (!builder().is_visible(tile.id_))
    fail("this tile was created inside a loop and is used outside it: return it from the loop instead");
}

ir::Type Access::type(const Tile& tile) {
  if (!is_number(tile)) {
    check(tile);
    return builder()[tile.id_].type;
  }
  if (tile.is_truth_) return ir::Type::boolean;
  return tile.is_whole_ ? ir::Type::s64 : ir::Type::f32;
}

ir::Id Access::id(const Tile& tile, ir::Type type) {
  if (is_number(tile)) return constant(tile, type);
  check(tile);
  return tile.id_;
}

namespace {

bool fits(double number, ir::Type type) {
  const auto in = [&]<class T>(T) {
    // INT64_MAX is not representable as a double; 2^63 is.
    return number >= static_cast<double>(std::numeric_limits<T>::min()) &&
           number < std::ldexp(1.0, std::numeric_limits<T>::digits) && std::trunc(number) == number;
  };
  switch (type) {
    case ir::Type::f32:
      return !std::isfinite(number) || std::isfinite(static_cast<float>(number));
    case ir::Type::s32:
      return in(std::int32_t{});
    case ir::Type::s64:
      return in(std::int64_t{});
    case ir::Type::u32:
      return in(std::uint32_t{});
    case ir::Type::u8:
      return in(std::uint8_t{});
    default:
      return true;
  }
}

std::string_view article(ir::Type type) {
  return type == ir::Type::f32 || type == ir::Type::f64 || type == ir::Type::s32 || type == ir::Type::s64 ? "an" : "a";
}

}  // namespace

ir::Id Access::constant(const Tile& number, ir::Type type) {
  if (number.is_truth_ != (type == ir::Type::boolean)) {
    fail(number.is_truth_ ? text("cannot combine a bool with ", article(type), " ", to_string(type), " tile")
                          : text("cannot combine the number ", number.number_, " with a bool tile"));
  }
  if (type == ir::Type::boolean) return builder().integer(type, number.integer_);
  // Near the limits of s64, converting to double changes the number.
  const bool is_whole_s64 = type == ir::Type::s64 && number.is_whole_ && (number.integer_ < 0) == (number.number_ < 0);
  if (!is_whole_s64 && !fits(number.number_, type))
    fail(text("the number ", number.number_, " does not fit ", to_string(type),
              ", the type of the tile it is combined with"));
  if (ir::is_float(type)) return builder().number(type, number.number_);
  return builder().integer(type, number.is_whole_ ? number.integer_ : static_cast<std::int64_t>(number.number_));
}

int Access::buffer(const Input& input) {
  const auto count = static_cast<int>(builder().program().buffers.size()) - 1;
  if (input.number_ < 0 || input.number_ >= count)
    fail(text("there is no input ", input.number_, ": the kernel has ", count));
  return input.number_ + 1;
}

int Access::buffer(const Output& output) {
  if (output.number_ != 0) fail(text("there is no output ", output.number_, ": the kernel has one"));
  return 0;
}

ir::Type common_type(std::initializer_list<const Tile*> tiles) {
  const auto value = std::ranges::find_if(tiles, [](const Tile* tile) { return !Access::is_number(*tile); });
  if (value != tiles.end()) return Access::type(**value);
  // Plain numbers only: integers as s64, otherwise f32.
  ir::Type type = Access::type(**tiles.begin());
  for (const Tile* tile : tiles) {
    if (Access::type(*tile) == ir::Type::f32) type = ir::Type::f32;
  }
  return type;
}

ir::Id id_of(const Tile& tile) { return Access::id(tile, Access::type(tile)); }

ir::Id index_id(const Index& index) {
  const ir::Id id = Access::id(index, ir::Type::s64);
  const ir::Op& op = builder()[id];
  if (op.type != ir::Type::s64 || !op.shape.empty())
    fail(text("an index must be a single number of type s64, got ", ir::value_text(builder().program(), id)));
  return id;
}

std::vector<ir::Id> index_ids(const Indices& indices) {
  std::vector<ir::Id> ids;
  for (const Index& index : indices) ids.push_back(index_id(index));
  return ids;
}

int checked_axis(int axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank)
    fail(text("there is no axis ", axis, " of ", what, ", which has ", rank, rank == 1 ? " axis" : " axes"));
  return axis < 0 ? axis + rank : axis;
}

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

void check_kernel_name(std::string_view name) {
  if (!is_name(name))
    throw Error(Errc::invalid_kernel, text(core::in_quotes(name),
                                           " is not a valid kernel name: a letter, then letters, digits, '_' and '.'"));
  if (name.size() > longest_name)
    throw Error(Errc::invalid_kernel,
                text("the kernel name ", core::in_quotes(name), " is too long: at most ", longest_name, " letters"));
}

namespace {

void check(const Kernel::State& kernel) {
  check_kernel_name(kernel.name);
  for (const Parameter& parameter : kernel.parameters) {
    const auto is_same = [&](const Parameter& other) {
      return other.kind == Parameter::Kind::scalar && other.name == parameter.name;
    };
    if (parameter.kind == Parameter::Kind::scalar && std::ranges::count_if(kernel.parameters, is_same) > 1)
      throw Error(Errc::invalid_kernel,
                  text("[", kernel.name, "] there are two scalars ", core::in_quotes(parameter.name)));
  }
}

}  // namespace

Kernel::Kernel(std::string_view name, std::vector<Parameter> parameters, std::function<void()> body)
    : state_(std::make_shared<const State>(State{std::string(name), std::move(parameters), std::move(body)})) {
  check(*state_);
}

const std::string& Kernel::name() const noexcept { return state_->name; }

}  // namespace tessera::tile
