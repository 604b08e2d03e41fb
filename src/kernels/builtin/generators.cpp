// Kernels without inputs: each element depends only on its index.
#include <tessera/tile.hpp>

#include "core/text.hpp"
#include "kernels/builtin/common.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace tessera::kernels {

namespace {

using core::text;
using tile::Tile;
using tile::detail::scalar;

// A lowering that views the output as one row, in row-major order.
Lowering row_lowering(const Call& call, std::function<void()> body) {
  Lowering lowering = plain_lowering(call, std::move(body));
  lowering.shapes = {Shape{call.output.shape->elements()}};
  return lowering;
}

Tile element_index() { return tile::Output().index(0); }

void arange_real_body() {
  const tile::Output z;
  z.store(tile::round_cast(scalar(0) + tile::cast(element_index(), f64) * scalar(1), z.dtype()));
}

void arange_whole_body() {
  const tile::Output z;
  z.store(tile::cast(scalar(0) + element_index() * scalar(1), z.dtype()));
}

// For ranges of 32-bit integers: exact too, and works on devices without wider types.
void arange_small_body() {
  const tile::Output z;
  z.store(tile::cast(scalar(0) + tile::cast(element_index(), s32) * scalar(1), z.dtype()));
}

// For ranges that overflow s64: scalar 2 is the index of the first element that does, scalar 3 the value from there on.
void arange_saturated_body() {
  const tile::Output z;
  const Tile i = element_index();
  z.store(tile::cast(select(i < scalar(2), scalar(0) + i * scalar(1), scalar(3)), z.dtype()));
}

// How many elements of a range fit s64; step is not 0.
std::int64_t elements_in_s64(std::int64_t start, std::int64_t step) {
  const std::int64_t end =
      step > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
  const std::uint64_t distance = step > 0 ? static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(start)
                                          : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(end);
  const std::uint64_t size = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return static_cast<std::int64_t>(
             std::min<std::uint64_t>(distance / size, std::numeric_limits<std::int64_t>::max() - 1)) +
         1;
}

bool is_small_range(const Argument& start, const Argument& step, std::int64_t elements) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const auto is_small = [](std::int64_t value) { return value >= -most && value <= most; };
  // A start of -0.0 must appear in the result.
  if (!start.is_integer || !step.is_integer || std::signbit(start.number) != (start.integer < 0)) return false;
  if (!is_small(start.integer) || !is_small(step.integer) || !is_small(elements)) return false;
  return is_small(start.integer + elements * step.integer);
}

Lowering lower_arange(const Call& call) {
  const Argument &start = call["start"], &step = call["step"];
  const auto lowered = [&](const char* variant, DType dtype, void (*body)()) {
    Lowering lowering = row_lowering(call, body);
    lowering.variant = variant;
    lowering.scalars = {{"start", dtype, start}, {"step", dtype, step}};
    return lowering;
  };
  if (is_small_range(start, step, call.output.shape->elements())) return lowered("small", s32, arange_small_body);
  const bool is_whole = !is_float(call.output.dtype) && start.is_integer && step.is_integer;
  if (!is_whole) return lowered("real", f64, arange_real_body);
  const std::int64_t inside =
      step.integer == 0 ? std::numeric_limits<std::int64_t>::max() : elements_in_s64(start.integer, step.integer);
  if (call.output.shape->elements() <= inside) return lowered("whole", s64, arange_whole_body);
  Lowering lowering = lowered("saturated", s64, arange_saturated_body);
  lowering.scalars.push_back(whole_scalar("inside", s64, inside));
  lowering.scalars.push_back(whole_scalar(
      "end", s64,
      step.integer > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min()));
  return lowering;
}

Kernel arange() {
  return {.name = "arange",
          .params = {{.name = "start", .default_value = 0, .documentation = "the first element"},
                     {.name = "step", .default_value = 1, .documentation = "difference between consecutive elements"}},
          .dtypes = to_vector(all_dtypes),
          .documentation =
              "start + i * step for element i in row-major order, computed in f64; integers are exact if start "
              "and step are integers, else rounded to the nearest; saturated",
          .lower = lower_arange};
}

// The upper 32 bits of a * factor, from 16-bit halves: devices may lack 64-bit products.
Tile high_product(const Tile& a, std::uint32_t factor) {
  const std::uint32_t low = factor & 0xffff, high = factor >> 16;
  const Tile a_low = a & 0xffff, a_high = a >> 16;
  const Tile middle = a_high * low + ((a_low * low) >> 16);
  return a_high * high + (middle >> 16) + ((a_low * high + (middle & 0xffff)) >> 16);
}

using Words = std::array<Tile, 4>;

// Philox4x32-10 of the counter (block, 0): Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. The key
// is in the first two scalars.
Words random_words(const Tile& block) {
  const auto word = [](const Tile& bits) { return tile::cast(bits & 0xffffffff, u32); };
  Words x = {word(block), word(block >> 32), tile::constant(u32, 0), tile::constant(u32, 0)};
  Tile key0 = scalar(0), key1 = scalar(1);
  for (int round = 0; round < 10; ++round) {
    constexpr std::uint32_t factor0 = 0xD2511F53, factor1 = 0xCD9E8D57;
    x = {high_product(x[2], factor1) ^ x[1] ^ key0, x[2] * factor1, high_product(x[0], factor0) ^ x[3] ^ key1,
         x[0] * factor0};
    key0 = key0 + 0x9E3779B9U;
    key1 = key1 + 0xBB67AE85U;
  }
  return x;
}

// In [0, 1), with as many random bits as the type can hold.
Tile fraction32(const Tile& word) { return tile::cast(word >> 8, f32) * 0x1p-24; }
Tile fraction64(const Tile& low, const Tile& high) {
  return (tile::cast(high, f64) * 0x1p21 + tile::cast(low >> 11, f64)) * 0x1p-53;
}

// The uniform numbers of elements 2p and 2p + 1.
std::pair<Tile, Tile> random_pair(const Tile& p) {
  if (tile::Output().dtype() == f64) {
    const Words x = random_words(p);
    return {fraction64(x[0], x[1]), fraction64(x[2], x[3])};
  }
  const Words x = random_words(p >> 1);
  const Tile is_second = (p & 1) == 1;
  return {fraction32(select(is_second, x[2], x[0])), fraction32(select(is_second, x[3], x[1]))};
}

// Scalars 2 and 3, after the key, are the offset and the factor.
Tile scaled_and_shifted(const Tile& number) { return scalar(2) + number * scalar(3); }

void uniform_body() {
  const Tile i = element_index();
  const auto [even, odd] = random_pair(i >> 1);
  // The sum may round up to max itself; the last scalar is the largest number below it.
  tile::Output().store(tile::min(scaled_and_shifted(select((i & 1) == 0, even, odd)), scalar(4)));
}

// Box-Muller: turns two uniform numbers into two normal ones.
void randn_body() {
  const Tile i = element_index();
  const auto [even, odd] = random_pair(i >> 1);
  const Tile radius = sqrt(-2 * log(1 - even)), angle = 2 * std::numbers::pi * odd;
  tile::Output().store(scaled_and_shifted(radius * select((i & 1) == 0, cos(angle), sin(angle))));
}

ParamSpec seed_param() {
  return {.name = "seed",
          .kind = ParamSpec::Kind::integer,
          .default_value = 0,
          .documentation = "the same seed yields the same numbers on every device"};
}

Lowering random_lowering(const Call& call, void (*body)(), double offset, double factor) {
  const DType dtype = call.output.dtype;
  check_dtype_in(call, dtype, "output", float_dtypes);
  const auto seed = static_cast<std::uint64_t>(call["seed"].integer);
  Lowering lowering = row_lowering(call, body);
  lowering.scalars = {whole_scalar("seed_low", u32, static_cast<std::int64_t>(seed & 0xffffffff)),
                      whole_scalar("seed_high", u32, static_cast<std::int64_t>(seed >> 32)),
                      real_scalar("offset", dtype, offset), real_scalar("factor", dtype, factor)};
  return lowering;
}

// The last number of a type before `end`, coming from `start`.
double last_before(DType dtype, double start, double end) {
  if (dtype == f64) return std::nextafter(end, start);
  return std::nextafter(static_cast<float>(end), static_cast<float>(start));
}

Lowering lower_uniform(const Call& call) {
  const double min = call["min"].number, max = call["max"].number;
  const DType dtype = call.output.dtype;
  const double greatest = dtype == f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  for (const char* param : {"min", "max"}) {
    if (std::abs(call[param].number) <= greatest) continue;
    fail(call, Errc::invalid_parameter,
         text("parameter '", param, "' must be a finite ", to_string(dtype), ", got ", to_string(*call[param].value)));
  }
  if (min > max || max - min > greatest) {
    fail(call, Errc::invalid_parameter,
         text("parameter 'max' must be at least 'min', and a finite ", to_string(dtype), " above it, got ",
              to_string(*call["max"].value), " and ", to_string(*call["min"].value)));
  }
  Lowering lowering = random_lowering(call, uniform_body, min, max - min);
  lowering.scalars.push_back(real_scalar("last", dtype, last_before(dtype, min, max)));
  return lowering;
}

Kernel uniform() {
  return {.name = "uniform",
          .params = {seed_param(),
                     {.name = "min", .default_value = 0, .documentation = "the lower bound, inclusive"},
                     {.name = "max", .default_value = 1, .documentation = "the upper bound, exclusive"}},
          .dtypes = to_vector(float_dtypes),
          .documentation = "random numbers, uniformly distributed from min to max",
          .lower = lower_uniform};
}

Kernel randn() {
  return {.name = "randn",
          .params = {seed_param(),
                     {.name = "mean", .default_value = 0, .documentation = "the mean"},
                     {.name = "std", .default_value = 1, .documentation = "the standard deviation", .min = 0}},
          .dtypes = to_vector(float_dtypes),
          .documentation = "random numbers, normally distributed",
          .lower = [](const Call& call) {
            return random_lowering(call, randn_body, call["mean"].number, call["std"].number);
          }};
}

// The output is viewed as [H,W*4]. The type must hold 511 times its longer side.
void gradient_body(DType type) {
  const tile::Output z;
  const Tile column = z.index(1), channel = column & 3;
  const Tile is_red = channel == 0;
  const Tile coordinate = tile::cast(select(is_red, column >> 2, z.index(0)), type);
  const Tile steps = tile::cast(select(is_red, z.dim(1) >> 2, z.dim(0)) - 1, type);
  // Rounded to the nearest; a side of one pixel has coordinate 0.
  const Tile ramp = small_quotient(510 * coordinate + steps, tile::max(2 * steps, 1), type);
  z.store(select(channel < 2, tile::cast(ramp, u8), select(channel == 2, scalar(0), 255)));
}

Lowering lower_gradient(const Call& call) {
  check_output_dtype(call, u8);
  const Shape& shape = *call.output.shape;
  if (shape.rank() != 3 || shape[2] != 4) {
    fail(call, Errc::shape_mismatch, "output must be u8[H,W,4], got " + to_string(u8, shape));
  }
  const double phase = call["phase"].number, blue = std::round(255 * (phase - std::floor(phase)));
  constexpr std::int64_t longest_of_s32 = std::numeric_limits<std::int32_t>::max() / 511;
  const bool is_huge = std::max(shape[0], shape[1]) > longest_of_s32;  // s32 otherwise: a device may lack s64
  Lowering lowering = plain_lowering(call, [is_huge] { gradient_body(is_huge ? s64 : s32); });
  if (is_huge) lowering.variant = "huge";
  lowering.shapes = {Shape{shape[0], shape[1] * 4}};
  lowering.scalars = {whole_scalar("blue", u8, std::isnan(blue) ? 0 : static_cast<std::int64_t>(blue))};
  return lowering;
}

Kernel generate_gradient() {
  return {
      .name = "generate_gradient",
      .params = {{.name = "phase", .default_value = 0, .documentation = "its fractional part is the amount of blue"}},
      .dtypes = {u8},
      .documentation = "an image [H,W,4] with red increasing to the right, green downwards, and constant blue",
      .lower = lower_gradient};
}

}  // namespace

std::vector<Kernel> generator_kernels() { return {arange(), uniform(), randn(), generate_gradient()}; }

}  // namespace tessera::kernels
