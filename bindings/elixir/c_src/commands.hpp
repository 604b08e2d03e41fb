// Commands by number: what poll, wait and cancel know, and who is told when one has finished.
#pragma once

#include "terms.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera_nif {

// A number is valid for at least this many commands after its own has finished, as in the library itself.
inline constexpr std::size_t remembered_commands = 65'536;

struct CommandOptions {
  std::string label;                // the kernel's or the command's name
  std::optional<ErlNifPid> notify;  // gets {:tessera, id, :completed | {:failed, reason} | :cancelled}
  std::function<void()> finished;   // called before anybody is told
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
};

// Takes over the handle, and returns the command's number.
std::uint64_t add_command(tessera_command* handle, CommandOptions options);
// A number for a command with nothing to do.
std::uint64_t add_completed(CommandOptions options);
// Numbers for the stages of a run that has completed; nobody is told.
std::vector<std::uint64_t> add_completed(std::size_t count);
// False for 0, and numbers that are forgotten or were never given.
bool is_in_flight(std::uint64_t id);

Term poll_command(ErlNifEnv* env, const Term* argv);     // id
Term watch_command(ErlNifEnv* env, const Term* argv);    // id, ref
Term unwatch_command(ErlNifEnv* env, const Term* argv);  // id, ref
Term cancel_command(ErlNifEnv* env, const Term* argv);   // id
Term fail_command(ErlNifEnv* env, const Term* argv);     // label, reason: a number for a call that was refused
// Every command's end is told to this process, or to none.
Term set_observer(ErlNifEnv* env, const Term* argv);  // pid | nil

}  // namespace tessera_nif
