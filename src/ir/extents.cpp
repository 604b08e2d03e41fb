#include "ir/extents.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "ir/rules.hpp"

#include <algorithm>
#include <string>

namespace tessera::ir {

using core::text;

namespace {

// Shapes with up to this many points for each element of a buffer are not checked: points cannot overflow then, since
// no machine has 2^43 elements.
constexpr std::int64_t most_per_element = std::int64_t{1} << 20;

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

// An extent of the form axis, axis + constant or constant.
struct Plain {
  int buffer = -1;  // -1: no axis
  int axis = 0;
  std::int64_t factor = 1;  // how many times as long as the axis it is at most, if that is not empty
};

bool is_plain(const Program& program, Id extent, std::span<const std::int64_t> tile, Plain& plain) {
  const Op* op = &program[extent];
  std::int64_t more = 0, number = 0;
  while (op->code == Code::add && is_constant(program, op->operands[1], number)) {
    if (number < 0 || number >= most_per_element) return false;
    more = std::min(more + number, most_per_element);
    op = &program[op->operands[0]];
  }
  switch (op->code) {
    case Code::constant:
      plain.factor = saturated_sum(op->integer, more);
      return true;
    case Code::tile_dim: {
      const auto axis = static_cast<std::size_t>(op->axis);
      const std::int64_t fixed = tile[axis] != 0 ? tile[axis] : program.buffers.front().dims[axis];  // -1: any
      plain = {.buffer = 0, .axis = op->axis, .factor = more + 1};
      if (fixed >= 0) plain = {-1, 0, saturated_sum(fixed, more)};
      return true;
    }
    case Code::dim:
      plain = {.buffer = op->index, .axis = op->axis, .factor = more + 1};
      return true;
    default:
      return false;
  }
}

// Where the points of a shape come from.
enum class Source : std::uint8_t {
  one_buffer,  // different axes of one buffer, and small numbers: no check is needed
  buffers,     // axes of several buffers, and small numbers
  computed,    // anything
};

Source source_of(const Program& program, std::span<const Id> shape, std::span<const std::int64_t> tile) {
  int buffer = -1;
  std::vector<int> axes;
  std::int64_t factor = 1;
  Source source = Source::one_buffer;
  for (const Id extent : shape) {
    Plain plain;
    if (!is_plain(program, extent, tile, plain)) return Source::computed;
    factor = saturated_product(factor, std::max<std::int64_t>(plain.factor, 1));
    if (plain.buffer < 0) continue;
    if ((buffer >= 0 && buffer != plain.buffer) || std::ranges::find(axes, plain.axis) != axes.end())
      source = Source::buffers;
    buffer = plain.buffer;
    axes.push_back(plain.axis);
  }
  return factor > most_per_element ? Source::computed : source;
}

// "[8000000000,5]".
std::string extents_text(std::span<const KnownNumbers::Number> extents) {
  std::string list;
  for (const KnownNumbers::Number& extent : extents) list += text(list.empty() ? "" : ",", extent.value);
  return "[" + list + "]";
}

std::int64_t largest_buffer(const Program& program, const std::int64_t* dims) {
  std::int64_t largest = 0;
  for (const Buffer& buffer : program.buffers) {
    std::int64_t elements = 1;
    for (int axis = 0; axis < buffer.rank(); ++axis) elements = saturated_product(elements, *dims++);
    largest = std::max(largest, elements);
  }
  return largest;
}

}  // namespace

ExtentChecks::ExtentChecks(const Program& program, std::span<const std::int64_t> tile)
    : tile_(tile.begin(), tile.end()) {
  std::vector<Id> wanted;
  const auto is_known = [&](const Op& op) {
    return std::ranges::any_of(shapes_, [&](const Shape& shape) {
      const Op& other = program[shape.value];
      return other.shape == op.shape && bits_of(other.type) >= bits_of(op.type);
    });
  };
  for (Id id = 0; id < static_cast<Id>(program.ops.size()); ++id) {
    const Op& op = program[id];
    const Source source = source_of(program, op.shape, tile_);
    if (source != Source::one_buffer && !is_known(op)) shapes_.push_back(add(program, id, wanted));
    if (op.code != Code::reshape) continue;
    const Id from = op.operands[0];
    if (source == Source::computed || source_of(program, program[from].shape, tile_) == Source::computed)
      reshapes_.push_back({add(program, from, wanted), add(program, id, wanted)});
  }
  numbers_ = KnownNumbers(program, wanted);
}

ExtentChecks::Shape ExtentChecks::add(const Program& program, Id value, std::vector<Id>& wanted) {
  const std::vector<Id>& shape = program[value].shape;
  const Shape added{value, wanted.size(), source_of(program, shape, tile_) == Source::computed};
  wanted.insert(wanted.end(), shape.begin(), shape.end());
  return added;
}

// Saturates.
std::int64_t ExtentChecks::points(const Program& program, const Shape& shape, const Numbers& numbers) {
  std::int64_t points = 1;
  for (std::size_t i = 0; i < program[shape.value].shape.size(); ++i) {
    const std::int64_t extent = numbers[shape.first + i].value;
    if (extent <= 0) return 0;
    points = saturated_product(points, extent);
  }
  return points;
}

void ExtentChecks::check(const Program& program, const Shape& shape, const Numbers& numbers, const std::int64_t* dims,
                         std::int64_t most_points) const {
  const Op& op = program[shape.value];
  const std::span<const KnownNumbers::Number> extents =
      std::span(numbers.data(), numbers.size()).subspan(shape.first, op.shape.size());
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (!extents[axis].has_overflowed) continue;
    throw Error(Errc::overflow, text("[", program.name, "] the extent ", extent_text(program, op.shape[axis]), " of ",
                                     value_text(program, shape.value), " overflows an s64"));
  }
  const std::int64_t count = points(program, shape, numbers), bytes = bits_of(op.type) / 8;
  const auto which = [&] { return text(value_text(program, shape.value), " has the extents ", extents_text(extents)); };
  // A tile of a whole buffer is as large as that.
  const bool is_too_large = shape.is_computed && count > largest_tile_bytes / bytes &&
                            count > saturated_product(2, largest_buffer(program, dims));
  if (is_too_large || count > most_tile_points) {
    throw Error(Errc::out_of_memory, text("[", program.name, "] its tiles do not fit in memory: ", which()));
  }
  if (count > most_points) {
    throw Error(Errc::unsupported, text("[", program.name, "] its tiles have more elements than the ", most_points,
                                        " that the device can count: ", which()));
  }
}

void ExtentChecks::run(const Program& program, const std::int64_t* dims, std::int64_t most_points) const {
  const Numbers numbers = numbers_.evaluate({.dims = dims, .tile = tile_});
  for (const Shape& shape : shapes_) check(program, shape, numbers, dims, most_points);
  for (const auto& [from, to] : reshapes_) {
    if (points(program, from, numbers) == points(program, to, numbers)) continue;
    const auto described = [&](const Shape& shape) {
      return text(
          shape_text(program, program[shape.value].shape), " = ",
          extents_text(
              std::span(numbers.data(), numbers.size()).subspan(shape.first, program[shape.value].shape.size())));
    };
    throw Error(Errc::shape_mismatch, text("[", program.name, "] a tile of shape ", described(from),
                                           " cannot be reshaped to ", described(to), ": negative extents count as 0"));
  }
}

}  // namespace tessera::ir
