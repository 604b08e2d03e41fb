#include "kernels/kernel.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>

namespace tessera::kernels {

using core::text;

void Kernel::check(std::span<const Operand> given, const Operand& output) const {
  if (given.size() != inputs.size()) [[unlikely]] {
    throw Error(Errc::count_mismatch, text("[", name, "] takes ", inputs.size(),
                                           inputs.size() == 1 ? " input" : " inputs", ", got ", given.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Operand& input = given[i];
    if (input.dtype == output.dtype && *input.shape == *output.shape) [[likely]]
      continue;
    const Errc code = input.dtype == output.dtype ? Errc::shape_mismatch : Errc::dtype_mismatch;
    throw Error(code,
                text("[", name, "] input ", i, " (", inputs[i], ") must be ", to_string(output.dtype, *output.shape),
                     " like the output, got ", to_string(input.dtype, *input.shape)));
  }
}

Argument to_argument(const Value& number) {
  if (number.is_integer()) return {static_cast<double>(number.integer()), number.integer(), true};
  const double value = number.number();
  const bool is_whole = value >= -0x1p63 && value < 0x1p63 && std::trunc(value) == value;
  return {value, is_whole ? static_cast<std::int64_t>(value) : 0, is_whole};
}

void Kernel::bind(const Params& given, Arguments& arguments) const {
  for (const ParamSpec& spec : params) arguments.push_back(spec.default_argument);
  for (const Param& param : given) {
    const auto spec = std::ranges::find(params, param.name, &ParamSpec::name);
    if (spec == params.end()) [[unlikely]]
      throw_unknown(param);
    if (!param.value.is_number()) [[unlikely]] {
      throw Error(Errc::invalid_parameter, text("[", name, "] parameter '", spec->name, "' must be a number, got ",
                                                type_name(param.value), ", ", to_string(param.value)));
    }
    const Argument argument = to_argument(param.value);
    if (!spec->allows(argument.number)) [[unlikely]] {
      throw Error(Errc::invalid_parameter, text("[", name, "] parameter '", spec->name, "' must be between ", spec->min,
                                                " and ", spec->max, ", got ", to_string(param.value)));
    }
    arguments[static_cast<std::size_t>(spec - params.begin())] = argument;
  }
}

void Kernel::throw_unknown(const Param& param) const {
  std::vector<std::string_view> names;
  names.reserve(params.size());
  for (const ParamSpec& spec : params) names.push_back(spec.name);
  throw Error(Errc::unknown_parameter,
              text("[", name, "] has no parameter '", param.name, "'", core::suggestion(param.name, names),
                   names.empty() ? "; it takes none" : ""));
}

KernelInfo Kernel::info(std::span<const DType> dtypes) const {
  KernelInfo info{std::string(name),
                  {inputs.begin(), inputs.end()},
                  {},
                  {dtypes.begin(), dtypes.end()},
                  std::string(documentation)};
  for (const ParamSpec& spec : params) {
    info.params.push_back({std::string(spec.name), "number", spec.default_value, std::string(spec.documentation)});
  }
  return info;
}

}  // namespace tessera::kernels

namespace tessera {

std::string to_string(const KernelInfo& kernel) {
  std::string signature = kernel.name + "(";
  for (const std::string& input : kernel.inputs) {
    if (signature.back() != '(') signature += ", ";
    signature += input;
  }
  for (const ParamInfo& param : kernel.params) {
    signature += core::text(signature.back() == '(' ? "" : "; ", param.name, ": ", param.type, " = ",
                            to_string(param.default_value));
  }
  return signature + ")  " + kernel.documentation;
}

}  // namespace tessera
