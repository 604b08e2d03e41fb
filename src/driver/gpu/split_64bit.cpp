#include "driver/gpu/split_64bit.hpp"

#include <tessera/tile.hpp>

#include "ir/analysis.hpp"
#include "tile/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace tessera::driver::gpu {

namespace {

using ir::Code;
using ir::Type;

bool is_missing(Type type, const compile::gpu::Target& target) {
  return (type == Type::f64 && !target.has_f64) || (type == Type::s64 && !target.has_s64);
}

ir::Program copy_words(const std::string& name) {
  return tile::trace(name, {{"output", Type::u32, {-1}}, {"x", Type::u32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(tile::load_like(tile::Input(0), z));
  });
}

ir::Program fill_words(const std::string& name) {
  return tile::trace(name, {{"output", Type::u32, {-1}}}, {{"low", Type::u32}, {"high", Type::u32}}, [] {
    const tile::Output z;
    z.store(tile::select((z.index(0) & 1) == 0, tile::detail::scalar(0), tile::detail::scalar(1)));
  });
}

}  // namespace

std::optional<ir::Program> split_64bit(const ir::Program& program, const compile::gpu::Target& target) {
  const ir::Buffer& output = program.buffers.front();
  const auto is_alike = [&](const ir::Buffer& buffer) {
    return buffer.rank() == 1 && buffer.type == output.type && buffer.dims == output.dims;
  };
  const bool can_split = is_missing(output.type, target) && std::ranges::all_of(program.buffers, is_alike) &&
                         ir::is_pointwise(program) && program[program.stored()].type == output.type;
  if (!can_split) return std::nullopt;
  const Code stored = program[program.stored()].code;
  if (stored == Code::load && program.buffers.size() == 2) return copy_words(program.name);
  if (stored == Code::scalar && program.scalars.size() == 1) return fill_words(program.name);
  return std::nullopt;
}

Launch split_64bit(const Launch& launch) {
  Launch split = launch;
  for (std::int64_t& dim : split.dims) dim *= 2;
  split.elements *= 2;
  split.scalars.clear();
  for (const std::uint64_t bits : launch.scalars) {
    split.scalars.push_back(bits & 0xffffffffU);
    split.scalars.push_back(bits >> 32);
  }
  return split;
}

}  // namespace tessera::driver::gpu
