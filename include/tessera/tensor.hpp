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

// The untyped part of Tensor. Copies alias the tensor, which only the library may do.
class TESSERA_API TensorHandle {
 public:
  TensorHandle() noexcept = default;
  TensorHandle(const Buffer& buffer, DType dtype);
  explicit TensorHandle(Ref<TensorState> state) noexcept : state_(std::move(state)) {}

  const Shape& shape() const;
  TensorHandle reshape(const Shape& shape) const;
  // The memory. Recorded work that writes it is submitted first.
  Buffer buffer() const;
  Device device() const;

  // Null after a move.
  TensorState* state() const noexcept { return state_.get(); }
  engine::DeviceState* device_state() const noexcept;

 private:
  Ref<TensorState> state_;
};

}  // namespace detail

template <Element T>
class Partitioned;

// Elements on a device, with one owner: what operations (operation.hpp) create, pass on and write. A tensor can be
// moved but not copied, so nobody else can write it; a std::shared_ptr<const Tensor<T>> has many readers.
//
// Using a moved-from tensor throws Errc::invalid_argument.
template <Element T>
class Tensor {
 public:
  using element_type = T;

  // Takes over a buffer; nobody may write it through another handle while the tensor is in use. Errc::dtype_mismatch if
  // the buffer has another element type.
  explicit Tensor(const Buffer& buffer) : handle_(buffer, dtype_of<T>) {}
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const Shape& shape() const { return handle_.shape(); }
  Device device() const { return handle_.device(); }
  // The memory, for commands and pipelines; order comes from the buffer, as always. Throws the failure of the operation
  // that should have written it.
  Buffer buffer() const { return handle_.buffer(); }

  // Gives up write access in exchange for many readers.
  std::shared_ptr<const Tensor> shared() && { return std::make_shared<const Tensor>(std::move(*this)); }
  // Splits the tensor into tiles of this shape for a kernel that writes it; tiles at the edges may be smaller.
  // Errc::shape_mismatch if the rank differs, Errc::invalid_argument if the tiles are empty.
  Partitioned<T> partition(const Shape& tile) && { return Partitioned<T>(std::move(*this), tile); }
  // The same elements with another shape. Errc::shape_mismatch if the number of elements differs.
  Tensor reshape(const Shape& shape) && {
    Tensor reshaped(handle_.reshape(shape));
    handle_ = {};
    return reshaped;
  }
  // Overloads for lvalues, which say in one line what to write instead.
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

  // Not for user code.
  explicit Tensor(detail::TensorHandle handle) noexcept : handle_(std::move(handle)) {}
  const detail::TensorHandle& handle() const noexcept { return handle_; }

 private:
  detail::TensorHandle handle_;
};

namespace detail {
TESSERA_API void check_partition(const Shape& shape, const Shape& tile);
TESSERA_API Shape tiles_of(const Shape& shape, const Shape& tile);
}  // namespace detail

// A tensor split into tiles, which a tile kernel writes one at a time.
template <Element T>
class Partitioned {
 public:
  using element_type = T;

  // Errc::shape_mismatch if the tiles have another rank than the tensor, Errc::invalid_argument if they are empty.
  Partitioned(Tensor<T> tensor, const Shape& tile) : tensor_(std::move(tensor)), tile_(tile) {
    detail::check_partition(tensor_.shape(), tile_);
  }

  const Shape& shape() const { return tensor_.shape(); }
  const Shape& tile() const noexcept { return tile_; }
  // The number of tiles along each axis, partial ones included.
  Shape grid() const { return detail::tiles_of(shape(), tile_); }
  Tensor<T> unpartition() && { return std::move(tensor_); }

  // Not for user code.
  const detail::TensorHandle& handle() const noexcept { return tensor_.handle(); }

 private:
  Tensor<T> tensor_;
  Shape tile_;
};

}  // namespace tessera
