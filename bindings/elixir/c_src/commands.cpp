#include "commands.hpp"

#include "waiter.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera_nif {

namespace {

struct Outcome {
  tessera_status status = TESSERA_COMPLETED;
  std::string reason;
};

// :completed | {:failed, reason} | :cancelled
Term term_of(ErlNifEnv* env, const Outcome& outcome) {
  if (outcome.status == TESSERA_COMPLETED) return atoms().completed;
  if (outcome.status != TESSERA_FAILED) return atom(env, tessera_status_name(outcome.status));
  return enif_make_tuple2(env, atom(env, "failed"), binary(env, outcome.reason));
}
// What wait returns: :ok | {:error, reason}
Term wait_term_of(ErlNifEnv* env, const Outcome& outcome) {
  return outcome.status == TESSERA_COMPLETED ? atoms().ok : error(env, outcome.reason);
}

struct InFlight {
  std::uint64_t id = 0;
  tessera_command* handle = nullptr;
  CommandOptions options;
  std::vector<Waiter> waiters;
};

// The last commands that finished. A command's place follows from its number, so that remembering a tiny one costs
// little; late finishers, whose place may soon be needed, are kept in a list of their own.
class Finished {
 public:
  void add(std::uint64_t id, std::uint64_t last_id, const Outcome& outcome) {
    const bool is_late = last_id - id >= remembered_commands;
    Entry& entry = is_late ? late_[next_late_++ % late_.size()] : recent_[id % recent_.size()];
    if (is_late) {
      late_indices_.erase(entry.id);
      late_indices_.emplace(id, &entry);
    }
    entry.id = id;
    entry.status = outcome.status;
    entry.reason = outcome.reason.empty() ? nullptr : std::make_unique<std::string>(outcome.reason);
  }
  std::optional<Outcome> find(std::uint64_t id) const {
    if (const Entry& entry = recent_[id % recent_.size()]; entry.id == id && id != 0) return entry.outcome();
    const auto found = late_indices_.find(id);
    return found == late_indices_.end() ? std::nullopt : std::optional(found->second->outcome());
  }

 private:
  struct Entry {
    Outcome outcome() const { return {status, reason ? *reason : std::string()}; }
    std::uint64_t id = 0;
    tessera_status status = TESSERA_COMPLETED;
    std::unique_ptr<std::string> reason;
  };
  // The place is needed again when twice as many have been submitted.
  std::vector<Entry> recent_ = std::vector<Entry>(2 * remembered_commands);
  std::vector<Entry> late_ = std::vector<Entry>(remembered_commands);
  std::size_t next_late_ = 0;
  std::unordered_map<std::uint64_t, Entry*> late_indices_;
};

struct Registry {
  std::atomic<std::uint64_t> last_id{0};
  std::mutex mutex;  // guards what follows
  std::unordered_map<std::uint64_t, std::unique_ptr<InFlight>> in_flight;
  Finished finished;
  std::optional<ErlNifPid> observer;
};

// Never destroyed: commands may finish while the process ends.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

Outcome outcome_of(tessera_command* handle, tessera_status status) {
  if (status == TESSERA_COMPLETED) return {};
  const bool has_reason = tessera_command_error(handle) != TESSERA_OK;
  return {status, has_reason ? tessera_last_error() : "unknown reason"};
}

// Sends messages with an environment that is made only if there is anything to send.
class Sender {
 public:
  Sender() = default;
  ~Sender() {
    if (env_) enif_free_env(env_);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  template <class Make>
  void send(const ErlNifPid& to, Make&& make) {
    if (!env_) env_ = enif_alloc_env();
    enif_send(calling_env(), &to, env_, make(env_));
    enif_clear_env(env_);
  }

 private:
  ErlNifEnv* env_ = nullptr;
};

void tell(std::uint64_t id, const CommandOptions& options, const Outcome& outcome,
          const std::optional<ErlNifPid>& observer) {
  Sender sender;
  if (options.notify) {
    sender.send(*options.notify, [&](ErlNifEnv* env) {
      return enif_make_tuple3(env, atoms().tessera, enif_make_uint64(env, id), term_of(env, outcome));
    });
  }
  if (!observer) return;
  const auto duration = std::chrono::steady_clock::now() - options.submitted;
  sender.send(*observer, [&](ErlNifEnv* env) {
    const Term nanoseconds = enif_make_int64(env, std::chrono::nanoseconds(duration).count());
    return enif_make_tuple5(env, atom(env, "command_finished"), enif_make_uint64(env, id), binary(env, options.label),
                            nanoseconds, term_of(env, outcome));
  });
}

// Remembers the outcome and tells everybody who wants to know.
void finish(InFlight& command, const Outcome& outcome) {
  if (command.options.finished) command.options.finished();
  Registry& all = registry();
  std::vector<Waiter> waiters;
  std::optional<ErlNifPid> observer;
  std::unique_ptr<InFlight> removed;
  {
    const std::lock_guard lock(all.mutex);
    waiters.swap(command.waiters);
    all.finished.add(command.id, all.last_id, outcome);
    observer = all.observer;
    if (const auto found = all.in_flight.find(command.id); found != all.in_flight.end()) {
      removed = std::move(found->second);
      all.in_flight.erase(found);
    }
  }
  // Not before, since poll looks at it as long as the command is in the table.
  tessera_command_release(command.handle);
  for (Waiter& waiter : waiters) {
    waiter.send(wait_term_of(waiter.env, outcome));
  }
  tell(command.id, command.options, outcome, observer);
}

void on_complete(tessera_command* handle, tessera_status status, void* user) {
  auto& command = *static_cast<InFlight*>(user);
  finish(command, outcome_of(handle, status));
}

std::uint64_t add_finished(tessera_command* handle, CommandOptions options, const Outcome& outcome) {
  InFlight command;
  command.id = ++registry().last_id;
  command.handle = handle;
  command.options = std::move(options);
  finish(command, outcome);
  return command.id;
}

std::string unknown(std::uint64_t id) {
  return "no command has the number " + std::to_string(id) + ": it was never given, or more than " +
         std::to_string(remembered_commands) + " others have been submitted since it finished";
}

// Calls `look` with the command under the lock if it is in flight; otherwise returns its outcome.
template <class Look>
std::optional<Outcome> find(std::uint64_t id, Look&& look) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.in_flight.find(id); found != all.in_flight.end()) {
    look(*found->second);
    return std::nullopt;
  }
  std::optional<Outcome> outcome = all.finished.find(id);
  if (!outcome) throw Refused(unknown(id));
  return outcome;
}

}  // namespace

std::uint64_t add_command(tessera_command* handle, CommandOptions options) {
  tessera_status status = TESSERA_PENDING;
  tessera_command_poll(handle, &status);
  if (status > TESSERA_RUNNING) {
    return add_finished(handle, std::move(options), outcome_of(handle, status));
  }
  auto owned = std::make_unique<InFlight>();
  InFlight& command = *owned;
  command.handle = handle;
  command.options = std::move(options);
  Registry& all = registry();
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(all.mutex);
    id = command.id = ++all.last_id;
    all.in_flight.emplace(id, std::move(owned));
  }
  // From here on the callback may have destroyed the entry.
  if (tessera_command_on_complete(handle, on_complete, &command) != TESSERA_OK) {
    finish(command, {TESSERA_FAILED, tessera_last_error()});
  }
  return id;
}

std::uint64_t add_completed(CommandOptions options) { return add_finished(nullptr, std::move(options), {}); }

std::vector<std::uint64_t> add_completed(std::size_t count) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(++all.last_id);
    all.finished.add(ids.back(), ids.back(), {});
  }
  return ids;
}

bool is_in_flight(std::uint64_t id) {
  if (id == 0) return false;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.in_flight.contains(id);
}

Term poll_command(ErlNifEnv* env, const Term* argv) {
  const std::uint64_t id = expect_number(env, argv[0], "the command's number");
  tessera_status status = TESSERA_PENDING;
  const auto outcome = find(id, [&](const InFlight& command) { tessera_command_poll(command.handle, &status); });
  return ok(env, atom(env, tessera_status_name(outcome ? outcome->status : status)));
}

Term watch_command(ErlNifEnv* env, const Term* argv) {
  const std::uint64_t id = expect_number(env, argv[0], "the command's number");
  const auto outcome = find(id, [&](InFlight& command) { command.waiters.emplace_back(env, argv[1]); });
  return outcome ? wait_term_of(env, *outcome) : atom(env, "watching");
}

Term unwatch_command(ErlNifEnv* env, const Term* argv) {
  const std::uint64_t id = expect_number(env, argv[0], "the command's number");
  bool is_removed = false;
  find(id, [&](InFlight& command) {
    is_removed = std::erase_if(command.waiters,
                               [&](const Waiter& waiter) { return enif_is_identical(waiter.ref, argv[1]) != 0; }) > 0;
  });
  return atom(env, is_removed ? "true" : "false");
}

Term cancel_command(ErlNifEnv* env, const Term* argv) {
  const std::uint64_t id = expect_number(env, argv[0], "the command's number");
  tessera_command* handle = nullptr;
  find(id, [&](const InFlight& command) { handle = command.handle; });
  // Outside the lock, since it may finish the command here. A handle that is released meanwhile is refused.
  std::int32_t was_pending = 0;
  if (handle) tessera_command_cancel(handle, &was_pending);
  return ok(env, atom(env, was_pending != 0 ? "true" : "false"));
}

Term fail_command(ErlNifEnv* env, const Term* argv) {
  CommandOptions options;
  options.label = expect_text(env, argv[0], "label");
  const Outcome outcome = {TESSERA_FAILED, expect_text(env, argv[1], "reason")};
  return ok(env, enif_make_uint64(env, add_finished(nullptr, std::move(options), outcome)));
}

Term set_observer(ErlNifEnv* env, const Term* argv) {
  std::optional<ErlNifPid> observer;
  if (!is_nil(argv[0])) observer = expect_pid(env, argv[0], "the observer");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.observer = observer;
  return atoms().ok;
}

}  // namespace tessera_nif
