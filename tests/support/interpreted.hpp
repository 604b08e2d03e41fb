#pragma once

#include <tessera/tile.hpp>

#include "ir/interpret.hpp"
#include "ir/ir.hpp"
#include "tile/trace.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::test {

using Dims = std::vector<std::int64_t>;

// Traces a kernel and interprets it on small buffers.
//
//   Interpreted().input<float>({3}, {1, 2, 3}).output<float>({3}, [] { … })
class Interpreted {
 public:
  // Extents other than 1 are not known to the program.
  template <Element T>
  Interpreted& input(const Dims& dims, const std::vector<T>& values) {
    const std::string name = inputs_.empty() ? "x" : inputs_.size() == 1 ? "y" : "w";
    buffers_.push_back({name, ir::type_of(dtype_of<T>), known(dims)});
    dims_.push_back(dims);
    std::vector<std::byte>& bytes = inputs_.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return *this;
  }
  Interpreted& scalar(std::string name, double value, ir::Type type = ir::Type::f32) {
    scalars_.push_back({std::move(name), type});
    values_.push_back(ir::is_float(type) ? std::bit_cast<std::uint64_t>(value)
                                         : static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    return *this;
  }
  // The tile's extents, 0 for a whole axis: otherwise all axes are whole.
  Interpreted& tiled(Dims extents) {
    extents_ = std::move(extents);
    return *this;
  }

  template <Element T>
  std::vector<T> output(const Dims& dims, const std::function<void()>& body) {
    return run<T>(program<T>(dims, body), dims);
  }
  template <Element T>
  ir::Program program(const Dims& dims, const std::function<void()>& body) const {
    std::vector<ir::Buffer> buffers = {{"z", ir::type_of(dtype_of<T>), known(dims)}};
    buffers.insert(buffers.end(), buffers_.begin(), buffers_.end());
    return tile::trace("test", std::move(buffers), scalars_, body);
  }
  template <Element T>
  std::vector<T> run(const ir::Program& program, const Dims& dims) {
    const Dims extents = extents_.empty() ? Dims(dims.size(), 0) : extents_;
    std::int64_t size = 1;
    std::int64_t tiles = 1;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      size *= dims[axis];
      tiles *= dims[axis] == 0 ? 0 : extents[axis] == 0 ? 1 : (dims[axis] + extents[axis] - 1) / extents[axis];
    }
    std::vector<T> result(static_cast<std::size_t>(size), T{77});  // what is never written shows
    std::vector<std::byte*> data = {reinterpret_cast<std::byte*>(result.data())};
    for (std::vector<std::byte>& input : inputs_) data.push_back(input.data());
    Dims all = dims;
    for (const Dims& input : dims_) all.insert(all.end(), input.begin(), input.end());
    ir::interpret(program, data, all.data(), values_.data(), extents, 0, tiles);
    return result;
  }

 private:
  static Dims known(Dims dims) {
    for (std::int64_t& dim : dims) {
      if (dim != 1) dim = -1;
    }
    return dims;
  }

  std::vector<ir::Buffer> buffers_;
  std::vector<Dims> dims_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<ir::Scalar> scalars_;
  std::vector<std::uint64_t> values_;
  Dims extents_;
};

}  // namespace tessera::test
