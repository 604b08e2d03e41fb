#pragma once

#include <tessera/detail/handle.hpp>

#include <utility>

namespace tessera::detail {

// The library's access to the state behind its public handles, which is private to everyone else.
struct Access {
  // What a Device, Buffer, Command or Stream points at; null for an empty handle.
  template <class Handle>
  static auto* get(const Handle& handle) noexcept {
    return handle.ref_.get();
  }
  template <class Handle, class T>
  static Handle make(Ref<T> ref) noexcept {
    return Handle(std::move(ref));
  }
  // Appends a pointer to an item stored elsewhere (at most ArgumentList::max_in_braces).
  template <class List, class Item>
  static void append(List& list, const Item& item) noexcept {
    list.in_braces_[list.size_++] = &item;
  }
};

}  // namespace tessera::detail
