// Streams. A full stream that blocks parks the Elixir process instead of a thread, so its limit is kept here.
#pragma once

#include "resources.hpp"
#include "waiter.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace tessera_nif {

// The places of a stream with `when_full: :block`.
class Places {
 public:
  explicit Places(std::size_t most) noexcept : most_(most) {}
  bool take();  // false: full
  void give_back();
  // Whether the process has to wait: it gets {ref, :ready} when a place may be free.
  bool watch(ErlNifEnv* env, Term ref);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::size_t taken_ = 0;
  std::vector<Waiter> waiters_;
};

struct Stream {
  static constexpr const char* name = "stream";
  ~Stream() { tessera_stream_release(handle); }
  tessera_stream* handle = nullptr;
  std::shared_ptr<Places> places;  // null: the library enforces the limit, or there is none
};

// The stream of a call, or null for nil.
Stream* expect_stream_or_nil(ErlNifEnv* env, Term term);

Term stream_new(ErlNifEnv* env, const Term* argv);  // priority, max_in_flight, when_full, deadline in ms, in_order
Term stream_in_flight(ErlNifEnv* env, const Term* argv);  // stream
Term stream_watch(ErlNifEnv* env, const Term* argv);      // stream, ref

}  // namespace tessera_nif
