#pragma once

#include <tessera/detail/export.hpp>

#include <utility>

namespace tessera::detail {

// The objects behind the handles, and their reference counting.
namespace engine {
struct DeviceState;
struct StreamState;
struct View;
struct Work;

TESSERA_API void retain(DeviceState* state) noexcept;
TESSERA_API void release(DeviceState* state) noexcept;
TESSERA_API void retain(StreamState* state) noexcept;
TESSERA_API void release(StreamState* state) noexcept;
TESSERA_API void retain(View* view) noexcept;
TESSERA_API void release(View* view) noexcept;
TESSERA_API void retain(Work* work) noexcept;
TESSERA_API void release(Work* work) noexcept;
}  // namespace engine

struct TensorState;
TESSERA_API void retain(TensorState* state) noexcept;
TESSERA_API void release(TensorState* state) noexcept;

// A counted reference to a library object: what Device, Buffer, Command, Stream and Tensor hold. As with
// std::shared_ptr, threads may use distinct copies concurrently, but must not share a copy that one of them modifies.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  // Shares `object`.
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) retain(object_);
  }
  // Takes ownership of a reference.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) release(object_);
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Releases ownership without dropping the reference.
  T* detach() noexcept { return std::exchange(object_, nullptr); }

  friend bool operator==(const Ref&, const Ref&) noexcept = default;

 private:
  T* object_ = nullptr;
};

}  // namespace tessera::detail
