// Tile kernels of the user as registry kernels, and the recording of programs.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "kernels/kernel.hpp"
#include "tile/trace.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace tessera::kernels {

using core::text;
using tile::Parameter;

namespace {

ParamSpec scalar_spec(const Parameter& parameter) {
  ParamSpec spec;
  spec.name = parameter.name;
  spec.documentation = text("a scalar of type ", to_string(parameter.dtype));
  spec.is_required = true;
  if (is_float(parameter.dtype)) return spec;
  spec.kind = ParamSpec::Kind::integer;
  const auto limit = [&]<class T>(T) {
    spec.min = static_cast<double>(std::numeric_limits<T>::min());
    spec.max = static_cast<double>(std::numeric_limits<T>::max());
  };
  if (parameter.dtype == DType::s32) limit(std::int32_t{});
  if (parameter.dtype == DType::u32) limit(std::uint32_t{});
  if (parameter.dtype == DType::u8) limit(std::uint8_t{});
  return spec;
}

Lowering lower_user_kernel(const tile::Kernel::State& kernel, const Call& call) {
  Lowering lowering = plain_lowering(call, kernel.body);
  lowering.is_user_code = true;
  lowering.only_scalars_vary = true;
  std::size_t input = 0, scalar = 0;
  for (const Parameter& parameter : kernel.parameters) {
    switch (parameter.kind) {
      case Parameter::Kind::output:
        check_output_dtype(call, parameter.dtype);
        break;
      case Parameter::Kind::input:
        check_dtype(call, input++, parameter.dtype);
        break;
      case Parameter::Kind::scalar:
        lowering.scalars.push_back({parameter.name, parameter.dtype, call.arguments[scalar++]});
        break;
    }
  }
  return lowering;
}

}  // namespace

Kernel from_tile_kernel(const tile::Kernel& kernel) {
  const std::shared_ptr<const tile::Kernel::State>& state = kernel.state();
  Kernel made;
  made.name = state->name;
  made.documentation = "a user kernel";
  for (const Parameter& parameter : state->parameters) {
    switch (parameter.kind) {
      case Parameter::Kind::output:
        made.dtypes = {parameter.dtype};
        break;
      case Parameter::Kind::input:
        made.inputs.emplace_back();  // a lambda's parameters are anonymous
        break;
      case Parameter::Kind::scalar:
        made.params.push_back(scalar_spec(parameter));
        break;
    }
  }
  made.lower = [state](const Call& call) { return lower_user_kernel(*state, call); };
  return made;
}

const Kernel& of(const tile::Kernel& kernel) {
  const tile::Kernel::State* state = kernel.state().get();
  // A thread often calls the same kernel repeatedly. Kernels hold their state forever, so its address identifies it.
  thread_local const tile::Kernel::State* last_state = nullptr;
  thread_local const Kernel* last = nullptr;
  if (last && state == last_state) return *last;

  static auto& mutex = *new std::mutex();
  static auto& known = *new std::unordered_map<const tile::Kernel::State*, const Kernel*>();
  const std::scoped_lock lock(mutex);
  const Kernel*& found = known[state];
  if (!found) found = &adopt(from_tile_kernel(kernel));
  last_state = state;
  last = found;
  return *found;
}

ir::Program trace(const Call& call, const Lowering& lowering, const std::vector<std::vector<std::int64_t>>& dims) {
  std::vector<ir::Buffer> buffers = {{"output", ir::type_of(call.output.dtype), dims[0]}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string& name = call.kernel.inputs[i];
    buffers.push_back({name.empty() ? text("input ", i) : name, ir::type_of(call.inputs[i].dtype), dims[i + 1]});
  }
  std::vector<ir::Scalar> scalars;
  scalars.reserve(lowering.scalars.size());
  for (const Lowering::Scalar& scalar : lowering.scalars) {
    scalars.push_back({std::string(scalar.name), ir::type_of(scalar.dtype)});
  }
  try {
    ir::Program program =
        tile::trace(call.kernel.name, std::move(buffers), std::move(scalars), lowering.body, lowering.tile);
    program.idiom = lowering.idiom;
    return program;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Errc::invalid_kernel, text("[", call.kernel.name, "] the kernel's body threw: ", error.what()));
  } catch (...) {
    throw Error(Errc::invalid_kernel, text("[", call.kernel.name, "] the kernel's body threw a non-std::exception"));
  }
}

}  // namespace tessera::kernels
