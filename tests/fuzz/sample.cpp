#include "fuzz/sample.hpp"

#include "core/random.hpp"
#include "ir/arithmetic.hpp"

#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

namespace tessera::fuzz {

namespace {

template <class T>
T small(core::Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(random.below(17)) / 2 - 4;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int>(random.below(17)) - 8);
  } else {
    return static_cast<T>(random.below(9));
  }
}

template <class T>
T any(core::Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(random.fraction() * 8 - 4);
  } else {
    return static_cast<T>(random.next());
  }
}

template <class T>
T special(core::Random& random) {
  using Limits = std::numeric_limits<T>;
  if (random.below(2) == 0) return small<T>(random);
  if constexpr (std::is_floating_point_v<T>) {
    const T values[] = {Limits::quiet_NaN(),
                        Limits::infinity(),
                        -Limits::infinity(),
                        T{-0.0},
                        Limits::max(),
                        Limits::lowest(),
                        Limits::min(),
                        Limits::denorm_min(),
                        static_cast<T>(0.1),
                        static_cast<T>(2147483648.0),
                        static_cast<T>(-2147483649.0),
                        static_cast<T>(255.5),
                        static_cast<T>(9.3e18),
                        static_cast<T>(-1e10),
                        static_cast<T>(0.49999997)};
    return values[random.below(std::size(values))];
  } else {
    const T values[] = {Limits::min(), Limits::max(), static_cast<T>(Limits::min() + 1), static_cast<T>(-1), T{0}};
    return values[random.below(std::size(values))];
  }
}

}  // namespace

Known known_of(ir::Type type, Fill fill) {
  if (!ir::is_float(type)) return known_integer(type, fill == Fill::small ? 8 : greatest(type));
  Known result;
  result.kind = fill == Fill::small ? Known::Kind::exact : Known::Kind::fixed;
  result.bound = fill == Fill::special ? greatest(type) : 4;
  result.grain = 0.5;
  result.may_be_nan = result.may_be_infinite = fill == Fill::special;
  return result;
}

std::vector<std::byte> filled(ir::Type type, Fill fill, std::size_t count, std::uint64_t seed) {
  core::Random random(seed);
  return ir::with_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<std::byte> bytes(count * sizeof(T));
    if constexpr (!std::is_same_v<T, bool>) {
      for (std::size_t i = 0; i < count; ++i) {
        const T value = fill == Fill::small ? small<T>(random)
                        : fill == Fill::any ? any<T>(random)
                                            : special<T>(random);
        std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
      }
    }
    return bytes;
  });
}

std::string describe(const Sample& sample) {
  static const char* const fills[] = {"small", "any", "special"};
  std::string text = ir::to_string(sample.program);
  for (std::size_t i = 0; i < sample.dims.size(); ++i) {
    text += sample.program.buffers[i].name + ": [";
    for (std::size_t axis = 0; axis < sample.dims[i].size(); ++axis) {
      text += (axis == 0 ? "" : ",") + std::to_string(sample.dims[i][axis]);
    }
    text += i == 0 ? "]\n" : std::string("] ") + fills[static_cast<std::size_t>(sample.fills[i])] + "\n";
  }
  if (!sample.program.tile.empty()) {
    text += "tile:";
    for (const std::int64_t extent : sample.program.tile) text += " " + std::to_string(extent);
    text += "\n";
  }
  for (std::size_t i = 0; i < sample.scalars.size(); ++i) {
    text += sample.program.scalars[i].name + ": bits " + std::to_string(sample.scalars[i]) + "\n";
  }
  return text;
}

}  // namespace tessera::fuzz
