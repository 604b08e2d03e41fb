#include "device.hpp"

#include "submission.hpp"

#include <atomic>
#include <mutex>
#include <string_view>

namespace tessera_nif {

namespace {

std::atomic<tessera_device*> opened{nullptr};
std::atomic<bool> is_host_memory{false};

void open_device() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (opened.load()) return;
  tessera_device* made = nullptr;
  expect_ok(tessera_device_best(&made));
  tessera_device_info info{};
  info.struct_size = sizeof info;
  tessera_device_get_info(made, &info);
  is_host_memory = std::string_view(info.backend) == "cpu";
  opened = made;
}

const char* const power_levels[] = {"nominal", "fair", "serious", "critical", nullptr};

class Map {
 public:
  explicit Map(ErlNifEnv* env) : env_(env), map_(enif_make_new_map(env)) {}
  Map& add_text(const char* key, const char* text) { return add(key, binary(env_, text)); }
  Map& add_number(const char* key, std::uint64_t number) { return add(key, enif_make_uint64(env_, number)); }
  Term term() const { return map_; }

 private:
  Map& add(const char* key, Term value) {
    enif_make_map_put(env_, map_, atom(env_, key), value, &map_);
    return *this;
  }
  ErlNifEnv* env_;
  Term map_;
};

}  // namespace

tessera_device* device() {
  tessera_device* const now = opened.load(std::memory_order_acquire);
  if (now || !is_in_background()) return now;
  open_device();
  return opened.load();
}

bool has_host_memory() { return is_host_memory; }

Term device_info(ErlNifEnv* env, const Term*) {
  tessera_device_info info{};
  info.struct_size = sizeof info;
  expect_ok(tessera_device_get_info(device(), &info));
  Map map(env);
  map.add_text("device_name", info.name).add_text("device_type", info.is_gpu != 0 ? "gpu" : "cpu");
  map.add_text("backend", info.backend).add_text("driver_version", info.version);
  map.add_number("total_memory", info.memory).add_number("compute_units", info.compute_units);
  return ok(env, map.term());
}

Term device_count(ErlNifEnv* env, const Term*) {
  std::size_t count = 0;
  expect_ok(tessera_device_count(&count));
  return ok(env, enif_make_uint64(env, count));
}

Term device_memory(ErlNifEnv* env, const Term*) {
  tessera_memory_info memory{};
  memory.struct_size = sizeof memory;
  expect_ok(tessera_device_memory(device(), &memory));
  Map map(env);
  map.add_number("in_use", memory.in_use).add_number("reserved", memory.reserved).add_number("peak", memory.peak);
  map.add_number("limit", memory.limit).add_number("buffers", memory.buffers);
  map.add_number("allocations", memory.allocations);
  return ok(env, map.term());
}

Term kernel_names(ErlNifEnv* env, const Term*) {
  tessera_kernels* kernels = nullptr;
  expect_ok(tessera_device_kernels(device(), &kernels));
  std::vector<Term> names;
  for (std::size_t i = 0; i < tessera_kernels_count(kernels); ++i) {
    tessera_kernel_info info{};
    info.struct_size = sizeof info;
    if (tessera_kernels_get(kernels, i, &info) == TESSERA_OK) names.push_back(binary(env, info.name));
  }
  tessera_kernels_release(kernels);
  return ok(env, enif_make_list_from_array(env, names.data(), static_cast<unsigned>(names.size())));
}

Term define_kernel(ErlNifEnv* env, const Term* argv) {
  const std::string name = expect_text(env, argv[0], "the kernel's name");
  std::vector<std::string> inputs;
  Term head = 0, tail = argv[1];
  while (enif_get_list_cell(env, tail, &head, &tail)) inputs.push_back(expect_text(env, head, "an input's name"));
  if (!enif_is_empty_list(env, tail)) throw BadArgument("the inputs must be a list of names, got " + show(argv[1]));
  const std::string expression = expect_text(env, argv[2], "the expression");
  const std::string params = expect_text_or_nil(env, argv[3], "params");
  std::vector<const char*> names;
  names.reserve(inputs.size());
  for (const std::string& input : inputs) names.push_back(input.c_str());
  expect_ok(tessera_define_kernel(name.c_str(), names.data(), names.size(), expression.c_str(),
                                  params.empty() ? nullptr : params.c_str()));
  forget_checked_calls();  // the name may have meant another kernel
  return atoms().ok;
}

Term power_level(ErlNifEnv* env, const Term*) {
  tessera_power_level level = TESSERA_POWER_NOMINAL;
  expect_ok(tessera_device_power_level(device(), &level));
  return ok(env, atom(env, power_levels[level]));
}

Term set_power_level(ErlNifEnv* env, const Term* argv) {
  const int level = expect_choice(env, argv[0], "power level", power_levels);
  expect_ok(tessera_device_set_power_level(device(), static_cast<tessera_power_level>(level)));
  return atoms().ok;
}

Term library_version(ErlNifEnv* env, const Term*) { return binary(env, tessera_version()); }
Term live_handles(ErlNifEnv* env, const Term*) { return enif_make_uint64(env, tessera_live_handles()); }

}  // namespace tessera_nif
