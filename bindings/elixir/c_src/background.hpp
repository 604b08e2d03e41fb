// Threads for what takes longer than a scheduler should be kept: opening devices, and checking and compiling kernels,
// which also needs more stack than a dirty scheduler has.
#pragma once

#include "terms.hpp"

namespace tessera_nif {

// Calls `body` on a background thread with copies of these arguments, and sends {ref, result} to the process.
void call_later(ErlNifEnv* env, const ErlNifPid& to, Term ref, Body body, Term arguments);

}  // namespace tessera_nif
