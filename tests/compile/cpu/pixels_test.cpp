// Outputs whose last axis has a few elements, as the channels of pixels: compiled as the interpreter understands them,
// and without a byte read or written beyond a buffer.
#include "compile/cpu/jit.hpp"
#include "ir/interpret.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tessera::compile::cpu {
namespace {

using tile::Border;
using tile::Input;
using tile::Output;
using tile::Tile;
using Dims = std::vector<std::int64_t>;

std::size_t elements_of(const Dims& dims) {
  std::size_t elements = 1;
  for (const std::int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
  return elements;
}

// Memory that ends at an inaccessible page.
template <class T>
class Fenced {
 public:
  explicit Fenced(std::size_t elements) : elements_(elements) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (elements * sizeof(T) + page - 1) / page * page;
    bytes_ = used + page;
    base_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + used, page, PROT_NONE) != 0) std::abort();
    first_ = reinterpret_cast<T*>(base_ + used - elements * sizeof(T));
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(base_, bytes_); }

  std::span<T> values() const { return {first_, elements_}; }
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(first_); }

 private:
  std::byte* base_;
  std::size_t bytes_, elements_;
  T* first_;
};

struct Shapes {
  Dims output, input;
};

// The program of the body, which knows how many channels there are, interpreted and compiled for this processor, for
// each of these shapes.
template <class T>
void expect_as_interpreted(const std::vector<Shapes>& all, const std::function<void()>& body) {
  const auto known = [](Dims dims) {
    std::fill(dims.begin(), dims.end() - 1, -1);
    return dims;
  };
  constexpr ir::Type type = ir::type_of(dtype_of<T>);
  const ir::Program program =
      tile::trace("pixels", {{"z", type, known(all[0].output)}, {"x", type, known(all[0].input)}}, {}, body);
  const Tiling tiling = choose_tiling(program);
  const auto compiled = jit(program, tiling, host());
  ASSERT_NE(compiled, nullptr);
  for (const auto& [output, input] : all) {
    const Fenced<T> x(elements_of(input)), wanted(elements_of(output)), found(elements_of(output));
    std::mt19937 random(static_cast<unsigned>(elements_of(input)));
    for (T& value : x.values()) value = static_cast<T>(random() % 256);
    std::ranges::fill(found.values(), T{77});
    Dims dims = output;
    dims.insert(dims.end(), input.begin(), input.end());
    std::byte* const of_wanted[] = {wanted.bytes(), x.bytes()};
    ir::interpret(program, of_wanted, dims.data(), nullptr, tiling.extents, 0, tiling.tiles(output));
    std::byte* const of_found[] = {found.bytes(), x.bytes()};
    compiled->run({of_found, dims.data(), nullptr}, 0, tiling.tiles(output));
    const auto differ = std::ranges::mismatch(wanted.values(), found.values());
    ASSERT_EQ(differ.in1, wanted.values().end())
        << "pixels " << output[output.size() - 2] << ", channels " << output.back() << ", element "
        << differ.in1 - wanted.values().begin();
  }
}

template <class T>
class Pixels : public testing::Test {};
using Types = testing::Types<std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(Pixels, Types);

// Around the lanes of all registers, and more than a tile.
constexpr std::int64_t some_pixels[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 131, 5000, 16'400};

TYPED_TEST(Pixels, Channels_differ_and_see_each_other) {
  for (std::int64_t channels = 1; channels <= 5; ++channels) {
    std::vector<Shapes> shapes;
    for (const std::int64_t pixels : some_pixels) shapes.push_back({{pixels, channels}, {pixels, channels}});
    expect_as_interpreted<TypeParam>(shapes, [&] {
      const Output z;
      const Input x(0);
      const Tile last = tile::load_channel(x, z, static_cast<int>(channels - 1));
      const Tile own = tile::load_like(x, z);
      z.store(tile::select(z.index(1) == 0, last - own, tile::select(z.index(1) % 2 == 1, own + last, own)));
    });
  }
}

TYPED_TEST(Pixels, The_input_may_have_more_or_fewer_channels) {
  for (const auto& [channels, others] : {std::pair{1, 4}, {2, 3}, {3, 4}, {4, 3}, {4, 2}}) {
    for (const Border border : {Border::clamp, Border::zero}) {
      std::vector<Shapes> shapes;
      for (const std::int64_t pixels : {1, 33, 131}) shapes.push_back({{pixels, channels}, {pixels, others}});
      expect_as_interpreted<TypeParam>(shapes, [&] {
        const Output z;
        z.store(tile::load_channel(Input(0), z, z.index(1), border));
      });
    }
  }
}

TYPED_TEST(Pixels, Windows_reach_over_the_borders) {
  for (const std::int64_t channels : {1, 3, 4}) {
    for (const Border border : {Border::clamp, Border::zero, Border::reflect, Border::wrap}) {
      std::vector<Shapes> shapes;
      for (const std::int64_t width : {1, 8, 31, 67}) shapes.push_back({{5, width, channels}, {5, width, channels}});
      expect_as_interpreted<TypeParam>(shapes, [&] {
        const Output z;
        const Input x(0);
        const Tile none =
            tile::broadcast(tile::cast<TypeParam>(tile::constant(0)), {z.tile_dim(0), z.tile_dim(1), z.tile_dim(2)});
        z.store(tile::detail::loop(9, {none}, [&](const tile::Index& k, std::vector<Tile> sum) {
          const Tile y = z.index(0) + (k / 3 - 1), at = z.index(1) + (k % 3 - 1);
          sum[0] = sum[0] + x.at({y, at, z.index(2)}, border);
          return sum;
        })[0]);
      });
    }
  }
}

// Pixels from anywhere, the first and the last of all among them, and from beyond the borders.
TYPED_TEST(Pixels, Places_may_be_computed) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Border border : {Border::clamp, Border::zero}) {
      std::vector<Shapes> shapes;
      for (const std::int64_t width : {1, 2, 15, 16, 33, 70}) {
        for (const std::int64_t of_input : {1, 2, 31}) {
          shapes.push_back({{3, width, channels}, {2, of_input, channels}});
        }
      }
      expect_as_interpreted<TypeParam>(shapes, [&] {
        const Output z;
        const Input x(0);
        const auto place = [&](int axis) {
          const Tile scaled = tile::cast<float>(z.index(axis)) * tile::cast<float>(x.dim(axis)) * 0.04f - 1.5f;
          return tile::cast<std::int64_t>(tile::floor(scaled));
        };
        const Tile row = place(0), column = place(1);
        z.store(x.at({row, column, z.index(2)}, border) + x.at({row, column + 1, z.index(2)}, border));
      });
    }
  }
}

// One channel of pixels from anywhere, along a row, and several vectors of them at a time.
TEST(Bytes, Are_channels_of_pixels_from_anywhere) {
  for (const std::int64_t channels : {3, 4}) {
    const ir::Program program =
        tile::trace("row", {{"z", ir::Type::s32, {-1}}, {"x", ir::Type::u8, {-1, channels}}}, {}, [&] {
          const Output z;
          const Tile scaled = tile::floor(tile::cast<float>(z.index(0)) * 0.37f - 2.5f);
          const Tile byte = Input(0).at({tile::cast<std::int64_t>(scaled), 1}, Border::clamp);
          const Tile number = tile::cast<std::int32_t>(byte) * 3 + 1;
          z.store(number * 7 - tile::reduce_sum(number, 0) + tile::reduce_max(number, 0));
        });
    const Tiling tiling = choose_tiling(program);
    const auto compiled = jit(program, tiling, host());
    ASSERT_NE(compiled, nullptr);
    for (const std::int64_t pixels : {1, 2, 30, 80}) {
      const std::int64_t count = 203;
      const Fenced<std::uint8_t> x(static_cast<std::size_t>(pixels * channels));
      for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = static_cast<std::uint8_t>(i * 89 + 7);
      const Fenced<std::int32_t> wanted(count), found(count);
      const std::int64_t dims[] = {count, pixels, channels};
      std::byte* const of_wanted[] = {wanted.bytes(), x.bytes()};
      ir::interpret(program, of_wanted, dims, nullptr, tiling.extents, 0, tiling.tiles(std::span(dims, 1)));
      std::byte* const of_found[] = {found.bytes(), x.bytes()};
      compiled->run({of_found, dims, nullptr}, 0, tiling.tiles(std::span(dims, 1)));
      EXPECT_TRUE(std::ranges::equal(wanted.values(), found.values())) << pixels << " pixels of " << channels;
    }
  }
}

// In a table, as they are and on the way to other numbers.
TEST(Bytes, Are_looked_up) {
  for (const bool are_halved : {false, true}) {
    const ir::Program program = tile::trace(
        "looked_up", {{"z", ir::Type::u8, {-1}}, {"x", ir::Type::u8, {-1}}, {"table", ir::Type::u8, {256}}}, {}, [&] {
          const Output z;
          const Tile found = Input(1).at({tile::cast<std::int64_t>(tile::load_like(Input(0), z))});
          z.store(are_halved ? tile::round_cast<std::uint8_t>(tile::cast<float>(found) * 0.5f) : found);
        });
    const auto compiled = jit(program, choose_tiling(program), host());
    ASSERT_NE(compiled, nullptr);
    const Fenced<std::uint8_t> table(256);
    for (std::size_t i = 0; i < 256; ++i) table.values()[i] = static_cast<std::uint8_t>(i * 37 + 11);
    for (const std::int64_t count : some_pixels) {
      const Fenced<std::uint8_t> x(static_cast<std::size_t>(count)), found(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = static_cast<std::uint8_t>(i * 7 + count);
      std::byte* const buffers[] = {found.bytes(), x.bytes(), table.bytes()};
      const std::int64_t dims[] = {count, count, 256};
      compiled->run({buffers, dims, nullptr}, 0, compiled->tiling.tiles(std::span(dims, 1)));
      for (std::size_t i = 0; i < x.values().size(); ++i) {
        const int wanted = table.values()[x.values()[i]];
        ASSERT_EQ(found.values()[i], are_halved ? (wanted + 1) / 2 : wanted) << "element " << i << " of " << count;
      }
    }
  }
}

// Clamped, and NaN becomes 0, in every lane of a vector.
template <class From, class To>
void expect_conversions(bool is_rounded, std::int64_t channels) {
  constexpr double above = static_cast<double>(std::numeric_limits<To>::max()) + 1;
  constexpr double below = static_cast<double>(std::numeric_limits<To>::min());
  constexpr From infinity = std::numeric_limits<From>::infinity();
  std::vector<From> values = {
      0,      -0.0,  0.49999997f, 0.5,     0.50000006f, 1.5,   2.5,      126.5,
      254.4f, 254.5, 254.999f,    255.49f, 300,         1e30f, infinity, std::numeric_limits<From>::quiet_NaN()};
  for (const double limit : {above, below, below - 1}) {
    const auto at = static_cast<From>(limit);
    values.insert(values.end(),
                  {at, std::nextafter(at, From{0}), std::nextafter(at, limit < 0 ? -infinity : infinity)});
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);

  const Dims known = {-1, channels}, shape = {210, std::abs(channels)};
  const ir::Program program = tile::trace(
      "numbers", {{"z", ir::type_of(dtype_of<To>), known}, {"x", ir::type_of(dtype_of<From>), known}}, {}, [&] {
        const Output z;
        const Tile x = tile::load_like(Input(0), z);
        z.store(is_rounded ? tile::round_cast<To>(x) : tile::cast<To>(x));
      });
  const auto compiled = jit(program, choose_tiling(program), host());
  ASSERT_NE(compiled, nullptr);
  const Fenced<From> x(elements_of(shape));
  const Fenced<To> found(elements_of(shape));
  for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = values[i % values.size()];
  std::byte* const buffers[] = {found.bytes(), x.bytes()};
  const std::int64_t dims[] = {shape[0], shape[1], shape[0], shape[1]};
  compiled->run({buffers, dims, nullptr}, 0, compiled->tiling.tiles(shape));
  for (std::size_t i = 0; i < x.values().size(); ++i) {
    const From value = x.values()[i], whole = is_rounded ? std::round(value) : std::trunc(value);
    const To wanted = std::isnan(value)                     ? To{0}
                      : static_cast<double>(whole) >= above ? std::numeric_limits<To>::max()
                      : static_cast<double>(whole) <= below ? std::numeric_limits<To>::min()
                                                            : static_cast<To>(whole);
    ASSERT_EQ(found.values()[i], wanted) << value << " at " << i << (is_rounded ? ", rounded" : "");
  }
}

TYPED_TEST(Pixels, Are_made_of_floats) {
  if constexpr (std::is_integral_v<TypeParam>) {
    for (const bool is_rounded : {false, true}) {
      for (const std::int64_t channels : {-1, 3, 4}) {
        expect_conversions<float, TypeParam>(is_rounded, channels);
        expect_conversions<double, TypeParam>(is_rounded, channels);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::compile::cpu
