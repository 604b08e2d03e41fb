#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/device.hpp>
#include <tessera/dtype.hpp>
#include <tessera/shape.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace tessera {

namespace detail {

template <class...>
inline constexpr bool never = false;

// The untyped half of Tensor. Copies are for the library: a tensor is one owner.
class TESSERA_API TensorHandle {
 public:
  TensorHandle() noexcept = default;
  TensorHandle(const Buffer& buffer, DType dtype);
  explicit TensorHandle(Ref<TensorState> state) noexcept : state_(std::move(state)) {}

  const Shape& shape() const;
  TensorHandle reshape(const Shape& shape) const;
  // The memory. What is to be written into it is submitted first, if an operation has recorded it only.
  Buffer buffer() const;
  Device device() const;

  // For the library. Null after a move.
  TensorState* state() const noexcept { return state_.get(); }
  engine::DeviceState* device_state() const noexcept;

 private:
  Ref<TensorState> state_;
};

}  // namespace detail

template <Element T>
class Partitioned;

// Elements on a device, with one owner: what operations (operation.hpp) make, pass on and write. It can be moved, not
// copied, so that nobody else can write it; as a std::shared_ptr<const Tensor<T>> many can read it.
//
// Using a tensor that was moved from throws Errc::invalid_argument.
template <Element T>
class Tensor {
 public:
  using element_type = T;

  // Takes over a buffer (Errc::dtype_mismatch if it holds something else): as long as the tensor is used, nobody may
  // write it through another handle.
  explicit Tensor(const Buffer& buffer) : handle_(buffer, dtype_of<T>) {}
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const Shape& shape() const { return handle_.shape(); }
  Device device() const { return handle_.device(); }
  // The memory, for commands and pipelines. Their order follows from the buffer, as always.
  Buffer buffer() const { return handle_.buffer(); }

  // For many readers, and no writer any more.
  std::shared_ptr<const Tensor> shared() && { return std::make_shared<const Tensor>(std::move(*this)); }
  // Cut into tiles of this shape, at the ends smaller ones, for a kernel that writes it.
  Partitioned<T> partition(const Shape& tile) && { return Partitioned<T>(std::move(*this), tile); }
  // The same elements with another shape of as many (Errc::shape_mismatch).
  Tensor reshape(const Shape& shape) && {
    Tensor seen(handle_.reshape(shape));
    handle_ = {};
    return seen;
  }
  // On a tensor that is not moved: what to do instead, in one line.
  template <class Value = T>
  std::shared_ptr<const Tensor> shared() const& {
    static_assert(detail::never<Value>, "a tensor has one owner: write std::move(tensor).shared()");
    return nullptr;
  }
  template <class Value = T>
  Partitioned<T> partition(const Shape& tile) const& {
    static_assert(detail::never<Value>, "a tensor has one owner: write std::move(tensor).partition(...)");
    return Partitioned<T>(Tensor(handle_), tile);
  }
  template <class Value = T>
  Tensor reshape(const Shape&) const& {
    static_assert(detail::never<Value>, "a tensor has one owner: write std::move(tensor).reshape(...)");
    return Tensor(handle_);
  }

  // For the library.
  explicit Tensor(detail::TensorHandle handle) noexcept : handle_(std::move(handle)) {}
  const detail::TensorHandle& handle() const noexcept { return handle_; }

 private:
  detail::TensorHandle handle_;
};

namespace detail {
TESSERA_API void check_partition(const Shape& shape, const Shape& tile);
TESSERA_API Shape tiles_of(const Shape& shape, const Shape& tile);
}  // namespace detail

// A tensor that is cut into tiles: what a tile kernel writes, a tile at a time. Errc::shape_mismatch if the tiles have
// another rank than the tensor, Errc::invalid_argument if they are empty.
template <Element T>
class Partitioned {
 public:
  using element_type = T;

  Partitioned(Tensor<T> tensor, const Shape& tile) : tensor_(std::move(tensor)), tile_(tile) {
    detail::check_partition(tensor_.shape(), tile_);
  }

  const Shape& shape() const { return tensor_.shape(); }
  const Shape& tile() const noexcept { return tile_; }
  // How many tiles there are along each axis, those at the ends too.
  Shape grid() const { return detail::tiles_of(shape(), tile_); }
  Tensor<T> unpartition() && { return std::move(tensor_); }

  // For the library.
  const detail::TensorHandle& handle() const noexcept { return tensor_.handle(); }

 private:
  Tensor<T> tensor_;
  Shape tile_;
};

}  // namespace tessera
