// C++ objects as Erlang resources.
#pragma once

#include "terms.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>

namespace tessera_nif {

// The resource type of T, whose member `name` is the word for it in messages.
template <class T>
class Resource {
 public:
  static bool open(ErlNifEnv* env, ErlNifResourceDown* down = nullptr) {
    ErlNifResourceTypeInit init{};
    init.dtor = [](ErlNifEnv* caller, void* object) {
      const Calling calling(caller);
      static_cast<T*>(object)->~T();
    };
    init.down = down;
    init.members = 3;
    constexpr auto flags = static_cast<ErlNifResourceFlags>(ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER);
    type() = enif_init_resource_type(env, T::name, &init, flags, nullptr);
    return type() != nullptr;
  }
  static T* find(ErlNifEnv* env, Term term) {
    void* object = nullptr;
    return enif_get_resource(env, term, type(), &object) ? static_cast<T*>(object) : nullptr;
  }
  static T& expect(ErlNifEnv* env, Term term, std::string_view what) {
    if (T* const found = find(env, term)) return *found;
    throw BadArgument(std::string(what) + " must be a " + T::name + ", got " + show(term));
  }
  static void* allocate() {
    void* const memory = enif_alloc_resource(type(), sizeof(T));
    if (!memory) throw std::bad_alloc();
    return memory;
  }

 private:
  static ErlNifResourceType*& type() {
    static ErlNifResourceType* opened = nullptr;
    return opened;
  }
};

// A reference to a resource, which keeps it from the garbage collector.
template <class T>
class Ref {
 public:
  template <class... Args>
  static Ref make(Args&&... args) {
    return Ref(new (Resource<T>::allocate()) T(std::forward<Args>(args)...));
  }
  static Ref keep(T& object) {
    enif_keep_resource(&object);
    return Ref(&object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) enif_keep_resource(object_);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) enif_release_resource(object_);
  }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  T* get() const noexcept { return object_; }
  Term term(ErlNifEnv* env) const { return enif_make_resource(env, object_); }

 private:
  explicit Ref(T* object) noexcept : object_(object) {}
  T* object_;
};

}  // namespace tessera_nif
