// Kernel calls: the checks that need no lock, and how a call becomes a launch.
#include "engine/call.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

namespace tessera::detail::engine {

using core::text;

namespace {

const View& checked_operand(const DeviceState& device, const kernels::Kernel& kernel, const View* view,
                            std::size_t index, bool is_output) {
  const auto name = [&] {
    return is_output ? text("[", kernel.name, "] output") : text("[", kernel.name, "] input ", index);
  };
  if (!view) [[unlikely]]
    throw Error(Errc::invalid_argument, name() + " is an empty buffer handle");
  if (view->storage->device.get() != &device) [[unlikely]] {
    throw Error(Errc::wrong_device, text(name(), ", ", describe(*view), ", lives on another device: ",
                                         view->storage->device->name(), ", not ", device.name()));
  }
  return *view;
}

}  // namespace

void prepare(DeviceState& device, const Call& call, BoundGroup& group) {
  device.expect_own_process();
  const kernels::Kernel& kernel = call.known         ? *call.known
                                  : call.tile_kernel ? kernels::of(*call.tile_kernel)
                                                     : kernels::find(call.name);
  group.label = kernel.name;
  driver::Launch& launch = group.launch;

  const View& output = checked_operand(device, kernel, call.output, 0, true);
  group.outputs.push_back(output.storage);
  launch.buffers.push_back(output.storage->block.address);
  launch.elements = output.shape.elements();
  launch.bytes = static_cast<std::int64_t>(output.bytes);

  core::InlineVector<kernels::Operand, 4> operands;
  operands.push_back({output.dtype, &output.shape});
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const View& input = checked_operand(device, kernel, call.inputs[i], i, false);
    operands.push_back({input.dtype, &input.shape});
    group.inputs.push_back(input.storage);
    launch.buffers.push_back(input.storage->block.address);
    launch.bytes += static_cast<std::int64_t>(input.bytes);
  }
  const plan::CallProgram& program =
      device.calls.resolve(kernel, {operands.data(), operands.size()}, call.params, launch, call.tile);
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    if (group.inputs[i] != output.storage) [[likely]]
      continue;
    if (call.inputs[i] == &output && program.may_be_in_place(i)) continue;  // the usual way to write in place
    check_alias(program, kernel.name, i, operands[i + 1], operands[0]);
  }
}

}  // namespace tessera::detail::engine
