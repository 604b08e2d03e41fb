// The pieces of a launch, which several threads run.
#include "core/spin_lock.hpp"
#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"

#include <atomic>
#include <mutex>
#include <utility>

namespace tessera::detail::engine {

namespace {

// Which half of the pieces a thread begins with. One number counts how many have been taken for both.
enum class Half : std::uint8_t { first, second };
constexpr std::int64_t one_of_second = std::int64_t{1} << 32;

// The piece that a thread takes next, after this many have been taken.
//
// The thread that started the item has the first half, its helpers the second; whoever finishes first continues with
// the last pieces of the other half. Commands alternate between going inwards and outwards, so that a core begins with
// what it used last: the same arrays again, or the results of the previous command. relu(a + b) * s over 1 MiB,
// repeated, takes 21 µs instead of 23 (bench). A matrix product of 2048 takes 5 % longer that way, f64 10 %; and
// filters, which prefetch what the next tile reads, 4 %.
std::int64_t next_piece(const Work& work, Half of, std::int64_t first, std::int64_t second) noexcept {
  const driver::PieceOrder order = work.launch.executable->piece_order();
  if (order == driver::PieceOrder::one_by_one) return first + second;
  const std::int64_t pieces = work.pieces.count, middle = (pieces + 1) / 2;
  if (order == driver::PieceOrder::forwards) {
    if (of == Half::first) return first < middle ? first : pieces - 1 - (first - middle);
    return second < pieces - middle ? middle + second : pieces - 1 - second;
  }
  const bool is_inwards = work.id % 2 == 0;
  if (of == Half::first) {
    if (is_inwards) return first;
    return first < middle ? middle - 1 - first : pieces - 1 - (first - middle);
  }
  if (is_inwards) return pieces - 1 - second;
  return second < pieces - middle ? middle + second : second - (pieces - middle);
}

// A thread that has finished its half leaves the last piece of the other half to that half's owner, as long as the
// owner is running: the owner has the piece's data in its cache, and would otherwise not have it the next time either.
// Without this, relu(a + b) * s over 256 KiB, repeated, took 5.4 µs in some series and 14 in others, for thousands of
// commands.
class LastPiece {
 public:
  // Called with the first piece that the thread takes: once that is finished, the item may be finished too.
  void begin(const Work& work, Half of) noexcept {
    if (has_begun_) return;
    has_begun_ = true;
    can_wait_ = work.pieces.count > 2 && work.launch.bytes <= driver::kept_bytes &&
                work.launch.executable->piece_order() == driver::PieceOrder::back_and_forth;
    if (!can_wait_) return;
    of_ = of;
    pieces_ = work.pieces.count;
    own_ = of == Half::first ? (pieces_ + 1) / 2 : pieces_ / 2;
    begin_ = Clock::now();
  }

  // Called before another piece is taken. Waits only briefly: the other thread may have lost its core.
  void wait(const std::atomic<std::int64_t>& taken) const noexcept {
    if (!can_wait_ || !is_others(taken)) return;
    Clock::time_point now = Clock::now();
    const Clock::time_point end = now + 2 * (now - begin_) / own_;
    while (now < end && is_others(taken)) {
      core::pause();
      now = Clock::now();
    }
  }

 private:
  bool is_others(const std::atomic<std::int64_t>& taken) const noexcept {
    const std::int64_t all = taken.load(std::memory_order_relaxed);
    const std::int64_t first = all % one_of_second, second = all / one_of_second;
    const std::int64_t own = of_ == Half::first ? first : second, others = of_ == Half::first ? second : first;
    return first + second + 1 == pieces_ && own >= own_ && others > 0;
  }

  bool has_begun_ = false, can_wait_ = false;
  Half of_ = Half::first;
  std::int64_t pieces_ = 0, own_ = 0;
  Clock::time_point begin_;
};

// Combines the partial results, after all pieces.
void end_partial(Work& work) noexcept {
  if (!work.failure) work.failure = is_stopping(work) ? cancelled_while_running(work) : finish_launch(work);
  work.launch.partial = nullptr;
  work.pieces.partial.reset();
}

// Runs pieces while there are any left; the thread that runs the last one finishes the item.
Work* take_pieces(Work& work, Half of) noexcept {
  const std::int64_t one = of == Half::first ? 1 : one_of_second;
  LastPiece last;
  while (true) {
    last.wait(work.pieces.taken);
    const std::int64_t taken = work.pieces.taken.fetch_add(one, std::memory_order_relaxed);
    const std::int64_t first = taken % one_of_second, second = taken / one_of_second;
    if (first + second >= work.pieces.count) return nullptr;
    last.begin(work, of);
    const std::int64_t piece = next_piece(work, of, first, second);
    core::FailurePtr failure = is_stopping(work)
                                   ? cancelled_while_running(work)
                                   : launch_piece(*work.device->driver, work.launch, piece, work.label, work.context);
    if (failure) {
      const std::scoped_lock lock(work.failure_lock);
      if (!work.failure) work.failure = std::move(failure);
    }
    if (work.pieces.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      if (work.pieces.count > 1) work.device->scheduler->withdraw(work);
      if (work.pieces.partial) end_partial(work);
      return finish(work, std::move(work.failure));
    }
  }
}

}  // namespace

core::FailurePtr cancelled_while_running(const Work& work) noexcept {
  return core::describe_failure(Errc::cancelled, [&] { return work.describe() + " was cancelled while it ran"; });
}

bool is_stopping(const Work& work) noexcept {
  return work.is_asked_to_stop() || (work.listener && work.listener->is_stopping());
}

Work* run_pieces(Work& work) noexcept {
  work.pieces.taken.store(0, std::memory_order_relaxed);
  work.pieces.left.store(work.pieces.count, std::memory_order_relaxed);
  const Ref<Work> held(&work);  // another thread may run the last piece
  work.device->scheduler->share(work, work.pieces.count - 1);
  return take_pieces(work, Half::first);
}

Work* help_with_pieces(Work& work) noexcept { return take_pieces(work, Half::second); }

}  // namespace tessera::detail::engine
