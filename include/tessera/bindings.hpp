#pragma once

#include <tessera/buffer.hpp>
#include <tessera/params.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

// The buffer of a pipeline slot, or the value of a pipeline parameter, for one run: {"frame", buffer}, {"sigma", 2.0}.
struct Binding {
  Binding(std::string_view slot, Buffer bound) : name(slot), buffer(std::move(bound)), is_buffer(true) {}
  Binding(std::string_view param, Value bound) : name(param), value(std::move(bound)) {}

  std::string name;
  Buffer buffer;
  Value value;
  bool is_buffer = false;
};

// The bindings of a run: {{"frame", buffer}, {"sigma", 2.0}}. Borrows them like std::span, so do not store one.
// For more than eight, pass a std::vector<Binding>.
class Bindings {
 public:
  Bindings() noexcept = default;

  // Written out instead of std::initializer_list, which g++ 12 refuses inside co_await expressions.
  Bindings(const Binding& a) noexcept : in_braces_{&a}, size_(1) {}  // NOLINT(google-explicit-constructor)
  Bindings(const Binding& a, const Binding& b) noexcept : in_braces_{&a, &b}, size_(2) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c) noexcept : in_braces_{&a, &b, &c}, size_(3) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c, const Binding& d) noexcept
      : in_braces_{&a, &b, &c, &d}, size_(4) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c, const Binding& d, const Binding& e) noexcept
      : in_braces_{&a, &b, &c, &d, &e}, size_(5) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c, const Binding& d, const Binding& e,
           const Binding& f) noexcept
      : in_braces_{&a, &b, &c, &d, &e, &f}, size_(6) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c, const Binding& d, const Binding& e, const Binding& f,
           const Binding& g) noexcept
      : in_braces_{&a, &b, &c, &d, &e, &f, &g}, size_(7) {}
  Bindings(const Binding& a, const Binding& b, const Binding& c, const Binding& d, const Binding& e, const Binding& f,
           const Binding& g, const Binding& h) noexcept
      : in_braces_{&a, &b, &c, &d, &e, &f, &g, &h}, size_(8) {}

  // A template, so that a braced list never converts to it.
  template <std::same_as<std::vector<Binding>> Vector>
  Bindings(const Vector& bindings) noexcept  // NOLINT(google-explicit-constructor)
      : contiguous_(bindings.data()), size_(bindings.size()) {}

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const Binding& operator[](std::size_t index) const noexcept {
    return contiguous_ ? contiguous_[index] : *in_braces_[index];
  }

 private:
  const Binding* in_braces_[8];  // left unset on purpose: only the first size_ are used
  const Binding* contiguous_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera
