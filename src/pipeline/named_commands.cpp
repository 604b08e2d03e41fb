// Pipelines that a device knows by name: Device::define_command, and run and submit with bindings.
#include <tessera/device.hpp>
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/submission.hpp"
#include "pipeline/pipeline_state.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace tessera {

namespace engine = detail::engine;
using core::text;
using detail::Access;
using detail::pipeline::PipelineState;

namespace {

// Their buffers keep the device alive, so they are attached to it and dropped with its last handle.
struct NamedCommands {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<PipelineState>, std::less<>> pipelines;
};

std::shared_ptr<NamedCommands> commands_of(engine::DeviceState& device) {
  static const char key = 0;
  std::shared_ptr<void> commands = device.attachments.get(&key);
  if (!commands) commands = device.attachments.put(&key, std::make_shared<NamedCommands>());
  return std::static_pointer_cast<NamedCommands>(commands);
}

std::shared_ptr<PipelineState> find_command(engine::DeviceState& device, std::string_view name) {
  const std::shared_ptr<NamedCommands> commands = commands_of(device);
  const std::scoped_lock lock(commands->mutex);
  if (const auto found = commands->pipelines.find(name); found != commands->pipelines.end()) return found->second;
  std::vector<std::string_view> names;
  names.reserve(commands->pipelines.size());
  for (const auto& command : commands->pipelines) names.push_back(command.first);
  throw Error(Errc::unknown_command,
              text("there is no command ", core::in_quotes(name), core::suggestion(name, names)));
}

}  // namespace

void Device::define_command(std::string_view name, const Pipeline& pipeline) const {
  if (name.empty()) throw Error(Errc::invalid_argument, "[define_command] needs a name");
  if (pipeline.state("define_command").device != ref_) {
    throw Error(Errc::wrong_device, text("[define_command] the pipeline belongs to another device, ",
                                         driver::full_name(pipeline.device().info())));
  }
  std::shared_ptr<PipelineState> copy = pipeline.state("define_command").clone();
  copy->compile();
  const std::shared_ptr<NamedCommands> commands = commands_of(*ref_);
  const std::scoped_lock lock(commands->mutex);
  commands->pipelines[std::string(name)].swap(copy);
}

void Device::run(std::string_view command, const Bindings& bindings) const {
  find_command(*ref_, command)->run(bindings, nullptr);
}

Command Device::submit(std::string_view command, const Bindings& bindings) const {
  try {
    return Access::make<Command>(find_command(*ref_, command)->submit(bindings, nullptr));
  } catch (const Error& error) {
    return Access::make<Command>(engine::refuse(*ref_, engine::run_label, error.failure()));
  }
}

}  // namespace tessera
