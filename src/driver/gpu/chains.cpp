#include "driver/gpu/chains.hpp"

#include <tessera/error.hpp>

#include "compile/dump.hpp"
#include "core/text.hpp"

#include <string>
#include <unordered_map>

namespace tessera::driver::gpu {

std::size_t Chains::length(std::span<const Part> parts, std::size_t first) const {
  const std::int64_t most_steps = api_.target().most_steps;
  std::int64_t steps = 0;
  std::size_t count = 0;
  for (; count < longest && first + count < parts.size() && parts[first + count].is_link; ++count) {
    steps += parts[first + count].steps;
    if (most_steps != 0 && steps > most_steps) break;
  }
  return count;
}

void Chains::prepare(std::span<const Part> parts, std::span<const Dispatch> calls) {
  std::vector<int> memory;
  Key key = key_of(parts, calls, memory);
  {
    const std::scoped_lock lock(mutex_);
    if (known_.contains(key)) return;
  }
  Code made = make(parts, calls, memory);  // without the lock, so that others can record meanwhile
  const std::scoped_lock lock(mutex_);
  known_.try_emplace(std::move(key), std::move(made));
}

std::optional<Dispatch> Chains::find(std::span<const Part> parts, std::span<const Dispatch> calls) {
  std::vector<int> memory;
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(key_of(parts, calls, memory));
  if (found == known_.end() || !found->second.module) return std::nullopt;
  // A buffer is numbered by the position of its first occurrence.
  std::vector<Memory*> by_number;
  for (const Dispatch& call : calls) by_number.insert(by_number.end(), call.buffers.begin(), call.buffers.end());
  Dispatch all;
  all.module = found->second.module.get();
  for (const int number : found->second.bindings) all.buffers.push_back(by_number[static_cast<std::size_t>(number)]);
  for (const Dispatch& call : calls) {
    all.arguments.insert(all.arguments.end(), call.arguments.begin(), call.arguments.end());
  }
  return all;
}

Chains::Key Chains::key_of(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory) {
  Key key;
  std::unordered_map<const Memory*, int> numbers;
  int position = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    memory.clear();
    for (const Memory* buffer : calls[i].buffers)
      memory.push_back(numbers.try_emplace(buffer, position++).first->second);
    key.emplace_back(parts[i].kernel, memory);
  }
  return key;
}

Chains::Code Chains::make(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory) try {
  std::vector<compile::gpu::Link> links;
  for (const auto& [kernel, numbers] : key_of(parts, calls, memory)) links.push_back({kernel, numbers});
  const std::optional<compile::gpu::Kernel> kernel = compile::gpu::chain(links, api_.target());
  if (!kernel) return {};
  const std::string name = core::text("chain of ", links.size());
  if (compile::dump_wants("gpu")) compile::dump_show(name, "gpu", kernel->source);
  return {api_.compile(*kernel, name), kernel->buffers};
} catch (const Error&) {
  return {};
}

}  // namespace tessera::driver::gpu
