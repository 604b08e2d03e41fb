#include "engine/own_call.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <unordered_set>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

thread_local const Work* this_call = nullptr;

// The function that this thread runs, and its direct and indirect dependents.
std::unordered_set<const Ordered*> call_and_dependents() {
  std::unordered_set<const Ordered*> found = {this_call};
  std::vector<const Ordered*> unseen = {this_call};
  while (!unseen.empty()) {
    const Ordered* work = unseen.back();
    unseen.pop_back();
    work->each_dependent([&](const Ordered& dependent) {
      if (found.insert(&dependent).second) unseen.push_back(&dependent);
    });
  }
  return found;
}

}  // namespace

InHostCall::InHostCall(const Work& work) noexcept : outer_(std::exchange(this_call, &work)) {}
InHostCall::~InHostCall() { this_call = outer_; }

core::FailurePtr wait_for_own_call(const Storage& storage, bool writes, std::string_view label) {
  if (!this_call) return nullptr;
  const std::unordered_set<const Ordered*> waiting = call_and_dependents();
  bool is_own = false, is_after = false;
  storage.hazards.each_before(writes, [&](const Ordered& before) {
    is_own = is_own || &before == this_call;
    is_after = is_after || waiting.contains(&before);
  });
  if (!is_after) return nullptr;
  return core::make_failure(
      Errc::invalid_argument,
      text("[", label, "] the buffer is ", is_own ? "used by " : "used by a command that waits for ",
           this_call->describe(), ", which this thread is running: it would wait for itself",
           is_own ? "; use the spans of its HostCall" : ""));
}

void expect_not_in_call(const DeviceState& device, std::string_view label) {
  if (!this_call || this_call->device.get() != &device) return;
  throw Error(Errc::invalid_argument,
              text("[", label, "] ", this_call->describe(), ", which this thread is running, would wait for itself"));
}

void expect_ends_without_call(const Work& work) {
  if (!this_call || !call_and_dependents().contains(&work)) return;
  throw Error(Errc::invalid_argument, text("[wait] ", work.describe(), " waits for ", this_call->describe(),
                                           ", which this thread is running: it would wait for itself"));
}

}  // namespace tessera::detail::engine
