#include "streams.hpp"

#include "device.hpp"

#include <limits>

namespace tessera_nif {

bool Places::take() {
  const std::lock_guard lock(mutex_);
  if (taken_ == most_) return false;
  ++taken_;
  return true;
}

// Wakes everybody: a process that was woken alone might end before it takes the place.
void Places::give_back() {
  std::vector<Waiter> woken;
  {
    const std::lock_guard lock(mutex_);
    --taken_;
    woken.swap(waiters_);
  }
  for (Waiter& waiter : woken) waiter.send(atom(waiter.env, "ready"));
}

bool Places::watch(ErlNifEnv* env, Term ref) {
  const std::lock_guard lock(mutex_);
  if (taken_ < most_) return false;
  waiters_.emplace_back(env, ref);
  return true;
}

Stream* expect_stream_or_nil(ErlNifEnv* env, Term term) {
  return is_nil(term) ? nullptr : &Resource<Stream>::expect(env, term, "the stream");
}

Term stream_new(ErlNifEnv* env, const Term* argv) {
  static const char* const priorities[] = {"high", "normal", "low", nullptr};
  static const char* const policies[] = {"block", "reject", "drop_oldest", nullptr};
  static const char* const orders[] = {"false", "true", nullptr};
  constexpr std::uint64_t nanoseconds = 1'000'000;

  tessera_stream_options options = TESSERA_STREAM_OPTIONS;
  options.priority = static_cast<tessera_priority>(expect_choice(env, argv[0], "priority", priorities));
  options.max_in_flight = expect_number(env, argv[1], "max_in_flight");
  options.when_full = static_cast<tessera_when_full>(expect_choice(env, argv[2], "when_full", policies));
  const std::uint64_t deadline = expect_number(env, argv[3], "deadline");
  if (deadline > std::numeric_limits<std::uint64_t>::max() / nanoseconds) throw Refused("the deadline is too long");
  options.deadline_ns = deadline * nanoseconds;
  options.in_order = expect_choice(env, argv[4], "in_order", orders);

  const Ref<Stream> made = Ref<Stream>::make();
  if (options.when_full == TESSERA_WHEN_FULL_BLOCK && options.max_in_flight > 0) {
    made->places = std::make_shared<Places>(options.max_in_flight);
    options.max_in_flight = 0;
  }
  expect_ok(tessera_stream_create(device(), &options, &made->handle));
  return ok(env, made.term(env));
}

Term stream_in_flight(ErlNifEnv* env, const Term* argv) {
  const Stream& stream = Resource<Stream>::expect(env, argv[0], "the stream");
  std::size_t count = 0;
  expect_ok(tessera_stream_in_flight(stream.handle, &count));
  return ok(env, enif_make_uint64(env, count));
}

Term stream_watch(ErlNifEnv* env, const Term* argv) {
  const Stream& stream = Resource<Stream>::expect(env, argv[0], "the stream");
  return atom(env, stream.places && stream.places->watch(env, argv[1]) ? "watching" : "ready");
}

}  // namespace tessera_nif
