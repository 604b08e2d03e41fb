#include "kernels/builtin/image.hpp"

#include "core/text.hpp"
#include "tile/trace.hpp"

namespace tessera::kernels {

using core::text;
using tile::Tile;

namespace {

std::string input_name(const Call& call, std::size_t input) {
  return text("input ", input, " (", call.kernel.inputs[input], ")");
}

std::string to_text(const Operand& operand) { return to_string(operand.dtype, *operand.shape); }

}  // namespace

Image checked_image(const Call& call, std::size_t input) {
  check_dtype_in(call, call.inputs[input].dtype, input_name(call, input), image_dtypes);
  check_rank(call, input, 2, 3);
  return Image(*call.inputs[input].shape);
}

Image checked_image_like_output(const Call& call) {
  const Image image = checked_image(call, 0);
  check_same_as_output(call, 0);
  return image;
}

Image checked_colors(const Call& call, std::size_t input, std::int64_t most) {
  const Operand& given = call.inputs[input];
  check_dtype_in(call, given.dtype, input_name(call, input), image_dtypes);
  if (given.shape->rank() != 3 || (*given.shape)[2] < 3 || (*given.shape)[2] > most) {
    fail(call, Errc::shape_mismatch,
         text(input_name(call, input), most == 3 ? " must be [H,W,3]" : " must be [H,W,3] or [H,W,4]", ", got ",
              to_text(given)));
  }
  return Image(*given.shape);
}

std::vector<double> checked_numbers(const Call& call, std::string_view param, std::size_t count) {
  std::vector<double> numbers = call[param].numbers();
  if (numbers.size() == count) return numbers;
  fail(call, Errc::invalid_parameter,
       text("parameter '", param, "' must be a list of ", count, " numbers, got ",
            core::shortened(to_string(*call[param].value))));
}

Lowering::Scalar number_scalar(std::string_view name, double number) {
  Argument argument;
  argument.number = number;
  return {name, f32, argument};
}

Lowering::Scalar integer_scalar(std::string_view name, std::int64_t integer, DType dtype) {
  Argument argument;
  argument.number = static_cast<double>(integer);
  argument.integer = integer;
  argument.is_integer = true;
  return {name, dtype, argument};
}

Tile finished(const tile::Output& z, const Tile& value) {
  return z.dtype() == u8 ? tile::round_cast<std::uint8_t>(value) : value;
}

Tile channel(const tile::Input& x, const tile::Output& z, int number) {
  return as_float(tile::load_channel(x, z, number));
}

Tile keep_alpha(const tile::Output& z, const Image& image, const Tile& x, const Tile& value) {
  return image.has_alpha() ? tile::select(z.index(z.rank() - 1) % 4 == 3, x, value) : value;
}

}  // namespace tessera::kernels
