#pragma once

#include "terms.hpp"

#include <utility>

namespace tessera_nif {

// A process that waits: it gets {ref, message}.
struct Waiter {
  Waiter(ErlNifEnv* from, Term of) : env(enif_alloc_env()), ref(enif_make_copy(env, of)) { enif_self(from, &pid); }
  Waiter(Waiter&& other) noexcept : env(std::exchange(other.env, nullptr)), ref(other.ref), pid(other.pid) {}
  Waiter& operator=(Waiter&& other) noexcept {
    std::swap(env, other.env);
    std::swap(ref, other.ref);
    std::swap(pid, other.pid);
    return *this;
  }
  ~Waiter() {
    if (env) enif_free_env(env);
  }

  // Once; the message is made in this environment.
  void send(Term message) { enif_send(calling_env(), &pid, env, enif_make_tuple2(env, ref, message)); }

  ErlNifEnv* env;
  Term ref;
  ErlNifPid pid{};
};

}  // namespace tessera_nif
