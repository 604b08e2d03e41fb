#include "engine/self_wait.hpp"

#include <tessera/error.hpp>

#include "core/stack.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

using core::text;

namespace {

struct Held {
  const Work* call = nullptr;   // the host function that this thread runs
  std::vector<Position> views;  // the ends of the views that it has mapped

  // Forgets the views that were destroyed.
  void forget_ended() {
    std::erase_if(views, [](const Position& view) { return !view.pending(); });
  }
};
thread_local Held held;

using Items = std::unordered_set<const Ordered*>;

// The items and their direct and indirect dependents.
Items with_dependents(std::vector<const Ordered*> items) {
  Items found(items.begin(), items.end());
  while (!items.empty()) {
    const Ordered* item = items.back();
    items.pop_back();
    item->each_dependent([&](const Ordered& dependent) {
      if (found.insert(&dependent).second) items.push_back(&dependent);
    });
  }
  return found;
}

// What cannot finish without this thread.
Items find_waiting() {
  if (!held.views.empty()) held.forget_ended();
  std::vector<const Ordered*> items;
  if (held.call) items.push_back(held.call);
  for (const Position& view : held.views) {
    const auto* end = static_cast<const Work*>(view.entry);
    if (core::is_on_this_stack(end->holder.load(std::memory_order_relaxed))) items.push_back(end);
  }
  return items.empty() ? Items() : with_dependents(std::move(items));
}

bool holds_nothing() noexcept { return !held.call && held.views.empty(); }

// What this thread holds that such an item waits for.
std::string describe_held(const Ordered& item) {
  if (!held.call || !with_dependents({held.call}).contains(&item)) return "a mapped view that this thread holds";
  return text(held.call->describe(), ", which this thread is running");
}

}  // namespace

InHostCall::InHostCall(const Work& work) noexcept : outer_(std::exchange(held.call, &work)) {}
InHostCall::~InHostCall() { held.call = outer_; }

void hold_view(Work& end) {
  held.forget_ended();
  held.views.push_back({&end, end.serial()});
}

core::FailurePtr self_wait(const Storage& storage, bool writes, std::string_view label) {
  if (holds_nothing()) return nullptr;
  const Items waiting = find_waiting();
  const Ordered* blocking = nullptr;
  storage.hazards.each_before(writes, [&](const Ordered& before) {
    if (waiting.contains(&before) && (!blocking || &before == held.call)) blocking = &before;
  });
  if (!blocking) return nullptr;
  const auto refused = [&](const auto&... why) {
    return core::make_failure(Errc::invalid_argument, text("[", label, "] the buffer is ", why...));
  };
  if (blocking == held.call) {
    return refused("used by ", describe_held(*blocking), ": it would wait for itself; use the spans of its HostCall");
  }
  if (std::ranges::find(held.views, blocking, &Position::entry) != held.views.end()) {
    return refused("mapped, and this thread holds the view: it would wait for itself; destroy the view first");
  }
  return refused("used by a command that waits for ", describe_held(*blocking), ": it would wait for itself");
}

// An item with a deadline is cancelled then, at the latest.
bool waits_for_self(const Work& work) {
  return !holds_nothing() && work.deadline == Clock::time_point::max() && find_waiting().contains(&work);
}

void expect_not_in_call(const DeviceState& device, std::string_view label) {
  if (!held.call || held.call->device.get() != &device) return;
  throw Error(Errc::invalid_argument,
              text("[", label, "] ", held.call->describe(), ", which this thread is running, would wait for itself"));
}

void expect_no_self_wait(const Work& work) {
  if (!waits_for_self(work)) return;
  throw Error(Errc::invalid_argument,
              text("[wait] ", work.describe(), " waits for ", describe_held(work), ": it would wait for itself"));
}

}  // namespace tessera::detail::engine
