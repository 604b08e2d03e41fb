// What a run offers its nodes.
#include <tessera/error.hpp>

#include "operation/run_state.hpp"

#include <span>
#include <utility>

namespace tessera::detail::operation {

TensorHandle RunState::upload(const Shape& shape, DType dtype, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner) {
  recorder_.reserve(bytes.size());
  Buffer buffer = Access::make<Buffer>(engine::allocate(*device_, shape, dtype, false));
  engine::Storage* storage = Access::get(buffer)->storage;
  recorder_.submit_host({.label = "write",
                         .storage = storage,
                         .writes = true,
                         .heals = true,
                         .bytes = static_cast<std::int64_t>(bytes.size()),
                         .function = [storage, bytes, owner = std::move(owner)] {
                           storage->device->driver->upload(storage->block.address, bytes);
                         }});
  return {buffer, dtype};
}

bool RunState::download(const TensorHandle& tensor, std::function<std::span<std::byte>()> allocate,
                        OperationNode& node) {
  flush();
  if (outcome_.failure || pressure_.is_starved) return false;
  const Buffer buffer = tensor.buffer();  // the node keeps it until it has its copy
  engine::Storage* storage = Access::get(buffer)->storage;
  recorder_.submit_host({.label = "read",
                         .storage = storage,
                         .bytes = static_cast<std::int64_t>(Access::get(buffer)->bytes),
                         .function = [storage, allocate = std::move(allocate)] {
                           storage->device->driver->download(allocate(), storage->block.address);
                         }});
  park(node, false);
  return true;
}

void RunState::suspend(OperationNode&) {
  make_room_for_event();
  waiting_.suspend();
}

void RunState::resume(OperationNode& node, std::exception_ptr failure) noexcept {
  post({.node = &node, .failure = std::move(failure), .command = 0});
}

void RunState::throw_if_poisoned(const TensorHandle& tensor) {
  if (!tensor.state()) return;
  const TensorState::Contents contents = tensor.state()->memory().contents();
  if (contents.failure) throw Error(contents.failure);
  if (!contents.buffer) return;
  engine::Storage& storage = *Access::get(contents.buffer)->storage;
  core::FailurePtr poison;
  {
    const std::scoped_lock lock(storage.device->order);
    if (storage.hazards.can_read_now()) poison = storage.poison;
  }
  if (poison) throw Error(poison);
}

// Makes room for the run that will be started, so that it can be added and waited for.
RunOptions RunState::inner_options() {
  make_room_for_event();
  {
    const std::scoped_lock lock(mutex_);
    inner_.make_room_for_one();
  }
  RunOptions inner = options_;
  inner.stop = {};  // this run cancels them
  inner.blocks = false;
  inner.task = nullptr;
  return inner;
}

void RunState::add_inner_run(const OperationRun& run) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    inner_.add(run.state());
    if (!stop_.cause) {
      changed_.notify_all();
      return;
    }
  }
  run.cancel();
}

void RunState::task_awaits(const OperationNode& node, const OperationRun& run) { set_awaited(node, {run.state(), {}}); }
void RunState::task_awaits(const OperationNode& node, const Ref<engine::Work>& command) {
  set_awaited(node, {{}, command});
}

void RunState::waits_for(const std::shared_ptr<UnzipSource>& source) {
  const std::scoped_lock lock(mutex_);
  sources_.add_awaited(source);
}

void RunState::begin_source(const std::shared_ptr<UnzipSource>& source, OperationNode& root) {
  stack_.push_begin(root);
  sources_.add_produced(source);  // last: from here on the run finishes the source
}

}  // namespace tessera::detail::operation
