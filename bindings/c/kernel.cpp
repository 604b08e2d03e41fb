#include "objects.hpp"

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

struct KernelList {
  std::vector<KernelInfo> kernels;
  // For each kernel, what the C structure points to.
  struct Pointers {
    std::vector<const char*> inputs, aliases;
    std::vector<std::string> defaults;
    std::vector<tessera_param_info> params;
  };
  std::vector<Pointers> pointers;
};

namespace {

std::shared_ptr<const KernelList> list_kernels(const Device& device) {
  auto list = std::make_shared<KernelList>();
  list->kernels = device.kernels();
  for (const KernelInfo& kernel : list->kernels) {
    KernelList::Pointers& of = list->pointers.emplace_back();
    for (const std::string& input : kernel.inputs) of.inputs.push_back(input.c_str());
    for (const std::string& alias : kernel.aliases) of.aliases.push_back(alias.c_str());
    for (const ParamInfo& param : kernel.params) {
      of.defaults.push_back(param.is_required ? std::string() : param.default_value.to_json());
    }
    for (std::size_t i = 0; i < kernel.params.size(); ++i) {
      const ParamInfo& param = kernel.params[i];
      of.params.push_back({param.name.c_str(), param.type.c_str(), param.range.c_str(),
                           param.is_required ? nullptr : of.defaults[i].c_str(), param.documentation.c_str()});
    }
  }
  return list;
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_device_kernels(tessera_device* device, tessera_kernels** kernels) {
  return guarded(__func__, [&](Call call) {
    tessera_kernels*& to = result(kernels, call, "kernels");
    to = make_handle<tessera_kernels>(list_kernels(*get(device, call, "device")));
  });
}

size_t tessera_kernels_count(const tessera_kernels* kernels) {
  std::size_t count = 0;
  guarded(__func__, [&](Call call) { count = (*get(kernels, call, "kernels"))->kernels.size(); });
  return count;
}

tessera_code tessera_kernels_get(const tessera_kernels* kernels, size_t index, tessera_kernel_info* info) {
  return guarded(__func__, [&](Call call) {
    const auto held = get(kernels, call, "kernels");
    const KernelList& list = **held;
    expect(info, call, "info");
    if (index >= list.kernels.size()) {
      refuse(call, "index", std::to_string(index) + ", there are " + std::to_string(list.kernels.size()) + " kernels");
    }
    const KernelInfo& kernel = list.kernels[index];
    const KernelList::Pointers& of = list.pointers[index];
    const tessera_kernel_info made = {0,
                                      kernel.name.c_str(),
                                      kernel.documentation.c_str(),
                                      of.inputs.data(),
                                      of.inputs.size(),
                                      kernel.optional_inputs,
                                      of.params.data(),
                                      of.params.size(),
                                      of.aliases.data(),
                                      of.aliases.size(),
                                      bits_of(kernel.dtypes)};
    copy_info(info, &made, sizeof made, call);
  });
}

void tessera_kernels_release(tessera_kernels* kernels) { release_handle(kernels, Kind::kernels, __func__); }

tessera_code tessera_define_kernel(const char* name, const char* const* inputs, size_t input_count,
                                   const char* expression, const char* params) {
  return guarded(__func__, [&](Call call) {
    expect_list(inputs, input_count, call, "inputs");
    std::vector<std::string> names;
    names.reserve(input_count);
    for (std::size_t i = 0; i < input_count; ++i) names.emplace_back(expect_text(inputs[i], call, {"inputs", i}));
    define_kernel(expect_text(name, call, "name"), Names(std::move(names)), expect_text(expression, call, "expression"),
                  expect_params(params, call));
  });
}
