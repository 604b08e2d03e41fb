// The functions of ExCubecl.NIF.
//
// Normal schedulers run what takes microseconds. Long copies move to a dirty scheduler by themselves. What may compile
// or open a device returns :slow there, and ExCubecl.NIF then has it called on a background thread, while the process
// waits for a message.
#include "background.hpp"
#include "buffers.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "pipelines.hpp"
#include "streams.hpp"
#include "submission.hpp"
#include "terms.hpp"

using namespace tessera_nif;

namespace {

template <Body body>
Term direct(ErlNifEnv* env, int, const Term* argv) {
  return call_guarded(env, body, argv);
}

// Needs the device, which is opened in the background.
template <Body body>
Term on_device(ErlNifEnv* env, int, const Term* argv) {
  return device() ? call_guarded(env, body, argv) : atom(env, "slow");
}

// Moves to a dirty scheduler if it is long.
template <Body body, std::size_t (*bytes)(ErlNifEnv* env, const Term* argv)>
Term copying(ErlNifEnv* env, int argc, const Term* argv) {
  if (!device()) return atom(env, "slow");
  if (is_long_copy(bytes(env, argv))) {
    return enif_schedule_nif(env, "copying", ERL_NIF_DIRTY_JOB_CPU_BOUND, direct<body>, argc, argv);
  }
  return call_guarded(env, body, argv);
}

std::size_t bytes_of_new(ErlNifEnv* env, const Term* argv) { return bytes_of_data(env, argv[0]); }

std::size_t bytes_of_zeros(ErlNifEnv* env, const Term* argv) {
  double bytes = 8;
  Term head = 0, tail = argv[0];
  for (ErlNifSInt64 extent = 0; enif_get_list_cell(env, tail, &head, &tail); bytes *= static_cast<double>(extent)) {
    if (!enif_get_int64(env, head, &extent)) break;
  }
  return bytes > 1e9 ? 1'000'000'000 : bytes < 0 ? 0 : static_cast<std::size_t>(bytes);
}

std::size_t bytes_of_copy(ErlNifEnv* env, const Term* argv) {
  const Snapshot* const snapshot = Resource<Snapshot>::find(env, argv[0]);
  return snapshot ? snapshot->bytes : 0;
}

// Without host memory, mapping is a copy.
std::size_t bytes_of_share(ErlNifEnv* env, const Term* argv) {
  return has_host_memory() ? 0 : bytes_of_copy(env, argv);
}

struct Operation {
  const char* name;
  std::size_t arguments;
  Body body;
};
// What can be called in the background.
const Operation operations[] = {
    {"buffer_new", 3, buffer_new},
    {"buffer_zeros", 2, buffer_zeros},
    {"define_command", 2, define_command},
    {"define_kernel", 4, define_kernel},
    {"device_count", 0, device_count},
    {"device_info", 0, device_info},
    {"kernel_names", 0, kernel_names},
    {"memory", 0, device_memory},
    {"pipeline_submit", 3, pipeline_submit},
    {"power_level", 0, power_level},
    {"set_power_level", 1, set_power_level},
    {"stream_new", 5, stream_new},
    {"submit", 6, submit_kernel},
};

// ref, operation, arguments
Term background(ErlNifEnv* env, const Term* argv) {
  const std::string name = atom_name(env, argv[1]);
  unsigned count = 0;
  if (!enif_is_ref(env, argv[0])) throw BadArgument("the first argument must be a reference, got " + show(argv[0]));
  if (!enif_get_list_length(env, argv[2], &count)) throw BadArgument("the arguments must be a list");
  ErlNifPid self;
  enif_self(env, &self);
  for (const Operation& operation : operations) {
    if (name != operation.name || count != operation.arguments) continue;
    call_later(env, self, argv[0], operation.body, argv[2]);
    return atoms().ok;
  }
  throw BadArgument("no operation " + show(argv[1]) + " with " + std::to_string(count) + " arguments");
}

ErlNifFunc functions[] = {
    {"background", 3, direct<background>, 0},
    {"buffer_free", 1, direct<buffer_free>, 0},
    {"buffer_info", 1, direct<buffer_info>, 0},
    {"buffer_new", 3, copying<buffer_new, bytes_of_new>, 0},
    {"buffer_zeros", 2, copying<buffer_zeros, bytes_of_zeros>, 0},
    {"cancel", 1, direct<cancel_command>, 0},
    {"completed_stages", 1, direct<completed_stages>, 0},
    {"fail_command", 2, direct<fail_command>, 0},
    {"hold", 1, direct<hold>, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"library_version", 0, direct<library_version>, 0},
    {"live_handles", 0, direct<live_handles>, 0},
    {"memory", 0, on_device<device_memory>, 0},
    {"pipeline_add", 8, direct<pipeline_add>, 0},
    {"pipeline_free", 1, direct<pipeline_free>, 0},
    {"pipeline_new", 1, direct<pipeline_new>, 0},
    {"pipeline_stages", 1, direct<pipeline_stages>, 0},
    {"pipeline_submit", 3, on_device<pipeline_submit>, 0},
    {"poll", 1, direct<poll_command>, 0},
    {"release_hold", 1, direct<release_hold>, 0},
    {"set_observer", 1, direct<set_observer>, 0},
    {"snapshot_copy", 1, copying<snapshot_copy, bytes_of_copy>, 0},
    {"snapshot_new", 1, direct<snapshot_new>, 0},
    {"snapshot_share", 1, copying<snapshot_share, bytes_of_share>, 0},
    {"stream_in_flight", 1, direct<stream_in_flight>, 0},
    {"stream_watch", 2, direct<stream_watch>, 0},
    {"submit", 6, direct<submit_kernel>, 0},
    {"submit_command", 3, direct<submit_command>, 0},
    {"unwatch", 2, direct<unwatch_command>, 0},
    {"watch", 2, direct<watch_command>, 0},
};

int load(ErlNifEnv* env, void**, Term) {
  if (tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR) != TESSERA_OK) return 1;
  make_atoms(env);
  const bool is_open = Resource<Buffer>::open(env) && Resource<Snapshot>::open(env) && Resource<Hold>::open(env) &&
                       Resource<Stream>::open(env) && Resource<Pipeline>::open(env, pipeline_owner_ended);
  return is_open ? 0 : 1;
}

// The module may be loaded again; the library, its commands and its threads stay.
int upgrade(ErlNifEnv* env, void** data, void**, Term info) { return load(env, data, info); }

}  // namespace

ERL_NIF_INIT(Elixir.ExCubecl.NIF, functions, load, nullptr, upgrade, nullptr)
