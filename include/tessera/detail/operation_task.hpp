#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/detail/operation_run.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

// What a task shares with everything that it awaits. Not for user code.
namespace tessera::detail {

// Learns what a task awaits, so that threads that wait for the task can help with it.
class TESSERA_API AwaitListener {
 public:
  virtual void awaits(const OperationRun& run) = 0;
  virtual void awaits(const Ref<engine::Work>& command) = 0;

 protected:
  AwaitListener() = default;
  ~AwaitListener() = default;
};

struct TaskContext {
  std::stop_token stop = {};
  std::uint64_t id = 0;  // of the outermost task
  AwaitListener* listener = nullptr;
};
TESSERA_API std::uint64_t next_task_id() noexcept;

// Blocks a thread until a task has finished; the thread helps with what the task awaits.
class TESSERA_API TaskWaiter final : public AwaitListener {
 public:
  TaskWaiter();
  ~TaskWaiter();
  void awaits(const OperationRun& run) override;
  void awaits(const Ref<engine::Work>& command) override;
  void finish() noexcept;
  // Blocks until finish().
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  OperationRun run_;  // or
  Ref<engine::Work> command_;
  std::uint64_t changes_ = 0;
  bool is_finished_ = false;
};

}  // namespace tessera::detail
