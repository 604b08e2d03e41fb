#include "picture.hpp"

#include <cstdint>
#include <tuple>

namespace demo {

using namespace tessera;
using tile::Tile;

namespace {

constexpr int iterations = 96;

// The share of iterations, 0 to 1, after which each pixel's point escapes: [height, width, 1].
Tile endurance(const tile::Out<std::uint8_t>& z) {
  const Tile scale = 2.4f / tile::cast<float>(z.dim(0));
  const Tile x = (tile::cast<float>(z.index(1)) - tile::cast<float>(z.dim(1)) * 0.68f) * scale;
  const Tile y = (tile::cast<float>(z.index(0)) - tile::cast<float>(z.dim(0)) * 0.5f) * scale;
  const Tile zero = x * 0.0f + y * 0.0f;
  const auto last = tile::loop(iterations, std::tuple(zero, zero, zero), [&](const tile::Index&, const auto& now) {
    const auto& [a, b, steps] = now;
    const Tile is_near = a * a + b * b <= 4.0f;
    return std::tuple(tile::select(is_near, a * a - b * b + x, a), tile::select(is_near, 2.0f * a * b + y, b),
                      steps + tile::select(is_near, Tile(1.0f), Tile(0.0f)));
  });
  return std::get<2>(last) / static_cast<float>(iterations);
}

}  // namespace

const tile::Kernel mandelbrot = tile::kernel("mandelbrot", [](tile::Out<std::uint8_t> z) {
  const Tile t = endurance(z);
  const Tile left = 1.0f - t;
  const Tile channel = z.index(2);
  const Tile red = 9.0f * left * t * t * t, green = 15.0f * left * left * t * t, blue = 8.5f * left * left * left * t;
  const Tile color = tile::select(channel == 0, red, tile::select(channel == 1, green, blue));
  z.store(tile::cast<std::uint8_t>(tile::select(channel == 3, Tile(255.0f), 255.0f * color + 0.5f)));
});

}  // namespace demo
