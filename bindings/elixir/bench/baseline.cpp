// What the benchmark compares with: a bare NIF that sends a message, memcpy, and kernels run without Elixir.
#include <tessera/tessera.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <erl_nif.h>
#include <memory>

namespace {

ERL_NIF_TERM send_to_self(ErlNifEnv* env, int, const ERL_NIF_TERM* argv) {
  ErlNifPid self;
  enif_self(env, &self);
  ErlNifEnv* const message = enif_alloc_env();
  enif_send(env, &self, message, enif_make_copy(message, argv[0]));
  enif_free_env(message);
  return enif_make_atom(env, "ok");
}

// Nanoseconds, the least of several.
template <class Function>
ERL_NIF_TERM best_of(ErlNifEnv* env, int rounds, Function&& function) {
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    function();
    best = std::min<std::int64_t>(best, (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
  }
  return enif_make_int64(env, best);
}

ERL_NIF_TERM memcpy_ns(ErlNifEnv* env, int, const ERL_NIF_TERM* argv) {
  ErlNifBinary from;
  if (!enif_inspect_binary(env, argv[0], &from)) return enif_make_badarg(env);
  const auto to = std::make_unique<unsigned char[]>(from.size);
  return best_of(env, 10, [&] {
    std::memcpy(to.get(), from.data, from.size);
    asm volatile("" : : "g"(to.get()) : "memory");
  });
}

// A tiny kernel, a thousand times.
ERL_NIF_TERM thousand_runs_ns(ErlNifEnv* env, int, const ERL_NIF_TERM*) {
  tessera_device* device = nullptr;
  tessera_buffer* buffer = nullptr;
  const std::int64_t shape[] = {2};
  tessera_device_best(&device);
  tessera_buffer_zeros(device, shape, 1, TESSERA_F32, &buffer);
  const ERL_NIF_TERM best = best_of(env, 20, [&] {
    for (int i = 0; i < 1000; ++i) tessera_run(device, "relu", &buffer, 1, buffer, nullptr);
  });
  tessera_buffer_release(buffer);
  tessera_device_release(device);
  return best;
}

ErlNifFunc functions[] = {
    {"send_to_self", 1, send_to_self, 0},
    {"memcpy_ns", 1, memcpy_ns, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"thousand_runs_ns", 0, thousand_runs_ns, ERL_NIF_DIRTY_JOB_CPU_BOUND},
};

}  // namespace

ERL_NIF_INIT(Elixir.Baseline, functions, nullptr, nullptr, nullptr, nullptr)
