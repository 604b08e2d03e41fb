// The device that everything runs on: the default one, which TESSERA_DEVICE can choose.
#pragma once

#include "terms.hpp"

namespace tessera_nif {

// Opens the device on first use, on a background thread; null on other threads before that.
tessera_device* device();
// Whether the host addresses the device's memory, so that mapping a buffer copies nothing and takes no time.
bool has_host_memory();

Term device_info(ErlNifEnv* env, const Term* argv);
Term device_count(ErlNifEnv* env, const Term* argv);
Term device_memory(ErlNifEnv* env, const Term* argv);
Term kernel_names(ErlNifEnv* env, const Term* argv);
Term define_kernel(ErlNifEnv* env, const Term* argv);  // name, inputs, expression, params
Term power_level(ErlNifEnv* env, const Term* argv);
Term set_power_level(ErlNifEnv* env, const Term* argv);  // level
Term library_version(ErlNifEnv* env, const Term* argv);
Term live_handles(ErlNifEnv* env, const Term* argv);

}  // namespace tessera_nif
