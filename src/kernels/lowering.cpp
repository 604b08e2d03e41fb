// Checks and helpers shared by the kernels' lowerings.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/diagnostics.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::kernels {

using core::text;

namespace {

std::string to_text(const Operand& operand) { return to_string(operand.dtype, *operand.shape); }

// "2", or "2 to 4".
std::string ranks(int least, int most) { return least == most ? std::to_string(least) : text(least, " to ", most); }

// The extent of an axis counted from the last one; missing axes have extent 1.
std::int64_t extent_from_end(const Shape& shape, int from_end) {
  return from_end < shape.rank() ? shape[shape.rank() - 1 - from_end] : 1;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 0; i < from.rank(); ++i) {
    const std::int64_t extent = extent_from_end(from, i);
    if (extent != 1 && extent != extent_from_end(to, i)) return false;
  }
  return true;
}

// The common shape of the inputs, each of which broadcasts to the output.
Shape broadcast_shape(std::span<const Operand> inputs) {
  std::array<std::int64_t, Shape::max_rank> dims{};
  int rank = 0;
  for (const Operand& input : inputs) rank = std::max(rank, input.shape->rank());
  for (int i = 0; i < rank; ++i) {
    std::int64_t& dim = dims[static_cast<std::size_t>(rank - 1 - i)];
    dim = 1;
    for (const Operand& input : inputs) {
      if (dim == 1) dim = extent_from_end(*input.shape, i);
    }
  }
  return Shape(std::span(dims.data(), static_cast<std::size_t>(rank)));
}

thread_local Diagnostics* diagnostics = nullptr;

// Reports an error after which the lowering can continue: throws it, unless someone collects Diagnostics.
void report(Errc code, std::string what) {
  if (!diagnostics) throw Error(code, std::move(what));
  diagnostics->add(Error(code, std::move(what)));
}
void report(const Call& call, Errc code, std::string_view what) {
  report(code, text("[", call.kernel.name, "] ", what));
}

}  // namespace

Diagnostics::Diagnostics() noexcept : outer_(std::exchange(diagnostics, this)) {}
Diagnostics::~Diagnostics() { diagnostics = outer_; }

void fail(const Call& call, Errc code, std::string_view what) {
  throw Error(code, text("[", call.kernel.name, "] ", what));
}

std::string describe_input(const Call& call, std::size_t index) {
  const std::string& name = call.kernel.inputs[index];
  return text("[", call.kernel.name, "] input ", index, name.empty() ? "" : text(" (", name, ")"));
}

void check_same_as_output(const Call& call, std::size_t index) {
  const Operand& input = call.inputs[index];
  const bool has_dtype = input.dtype == call.output.dtype;
  if (has_dtype && *input.shape == *call.output.shape) return;
  report(
      has_dtype ? Errc::shape_mismatch : Errc::dtype_mismatch,
      text(describe_input(call, index), " must be ", to_text(call.output), " like the output, got ", to_text(input)));
  diagnostics->mark_reported(index);
}

void check_dtype(const Call& call, std::size_t index, DType wanted) {
  const Operand& input = call.inputs[index];
  if (input.dtype == wanted) return;
  report(Errc::dtype_mismatch,
         text(describe_input(call, index), " must be ", to_string(wanted), ", got ", to_text(input)));
}

void check_dtype_in(const Call& call, DType given, std::string_view what, std::span<const DType> allowed) {
  if (std::ranges::find(allowed, given) != allowed.end()) return;
  std::string types;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    types += text(i == 0 ? "" : i + 1 == allowed.size() ? " or " : ", ", to_string(allowed[i]));
  }
  report(call, Errc::dtype_mismatch, text(what, " must be ", types, ", got ", to_string(given)));
}

void check_output_shape(const Call& call, const Shape& wanted) {
  if (*call.output.shape == wanted) return;
  report(call, Errc::shape_mismatch,
         text("output must be ", to_string(call.output.dtype, wanted), ", got ", to_text(call.output)));
}

void check_output_dtype(const Call& call, DType wanted) {
  if (call.output.dtype == wanted) return;
  report(call, Errc::dtype_mismatch,
         text("output must be ", to_string(wanted, *call.output.shape), ", got ", to_text(call.output)));
}

void check_tile(const Kernel& kernel, const Operand& output, std::span<const std::int64_t> tile) {
  const bool has_points = std::ranges::all_of(tile, [](std::int64_t extent) { return extent >= 1; });
  if (static_cast<int>(tile.size()) == output.shape->rank() && has_points) return;
  std::string extents;
  for (const std::int64_t extent : tile) extents.append(extents.empty() ? "" : ",").append(std::to_string(extent));
  throw Error(Errc::shape_mismatch,
              text("[", kernel.name, "] tiles of [", extents, "] do not fit the output, ", to_text(output)));
}

void check_rank(const Call& call, std::size_t index, int least, int most) {
  const Operand& input = call.inputs[index];
  if (input.shape->rank() >= least && input.shape->rank() <= most) return;
  throw Error(Errc::shape_mismatch,
              text(describe_input(call, index), " must have rank ", ranks(least, most), ", got ", to_text(input)));
}

int checked_axis(const Call& call, std::string_view param, int rank) {
  const Argument& axis = call[param];
  if (axis.integer >= -rank && axis.integer < rank) {
    return static_cast<int>(axis.integer < 0 ? axis.integer + rank : axis.integer);
  }
  if (rank == 0) fail(call, Errc::invalid_parameter, text("parameter '", param, "': a buffer of rank 0 has no axes"));
  fail(call, Errc::invalid_parameter,
       text("parameter '", param, "' must be between ", -rank, " and ", rank - 1, ", got ", axis.integer));
}

Lowering plain_lowering(const Call& call, std::function<void()> body) {
  Lowering lowering;
  lowering.shapes.reserve(call.inputs.size() + 1);
  lowering.shapes.push_back(*call.output.shape);
  for (const Operand& input : call.inputs) lowering.shapes.push_back(*input.shape);
  lowering.body = std::move(body);
  return lowering;
}

Lowering pointwise_lowering(const Call& call, std::function<void()> body) {
  bool is_any_wrong = false;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Operand& input = call.inputs[i];
    const bool is_reported = diagnostics && diagnostics->is_reported(i);
    is_any_wrong = is_any_wrong || is_reported;
    if (is_reported || broadcasts_to(*input.shape, *call.output.shape)) continue;
    is_any_wrong = true;
    // With as many axes as the output, or with one input, broadcasting was probably not intended.
    const bool is_plain = input.shape->rank() >= call.output.shape->rank() || call.inputs.size() == 1;
    report(Errc::shape_mismatch, text(describe_input(call, i), " must be ", to_string(input.dtype, *call.output.shape),
                                      is_plain ? " like the output" : " or broadcast to it", ", got ", to_text(input)));
  }
  if (!call.inputs.empty() && !is_any_wrong) {
    const Shape common = broadcast_shape(call.inputs);
    if (common != *call.output.shape) {
      fail(call, Errc::shape_mismatch,
           text("output must be ", to_string(call.output.dtype, common), ", the broadcast shape of its inputs, got ",
                to_text(call.output)));
    }
  }
  Lowering lowering = plain_lowering(call, std::move(body));
  lowering.is_pointwise = true;
  return lowering;
}

void merge_axes(std::vector<Shape>& shapes) {
  const int rank = shapes[0].rank();
  std::vector<std::vector<std::int64_t>> merged(shapes.size());
  std::vector<bool> repeated,
      last_repeated;  // which shapes have extent 1 along this axis, and along the last one merged
  for (int from_end = rank - 1; from_end >= 0; --from_end) {
    if (extent_from_end(shapes[0], from_end) == 1) continue;
    repeated.clear();
    for (const Shape& shape : shapes) repeated.push_back(extent_from_end(shape, from_end) == 1);
    const bool is_alike = !merged[0].empty() && repeated == last_repeated;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::int64_t extent = extent_from_end(shapes[i], from_end);
      if (is_alike) {
        merged[i].back() *= extent;
      } else {
        merged[i].push_back(extent);
      }
    }
    last_repeated = repeated;
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (merged[i].empty()) merged[i].push_back(1);
    shapes[i] = Shape(std::span<const std::int64_t>(merged[i]));
  }
}

}  // namespace tessera::kernels
