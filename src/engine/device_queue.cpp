#include "engine/device_queue.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"
#include "engine/launch_sequence.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::detail::engine {

namespace {

thread_local const Work* attended = nullptr;

// Work in flight has to be waited for: if the driver has no memory for that, it tries again.
driver::Progress wait_for(driver::Driver& driver, std::uint64_t number, Clock::time_point until) noexcept {
  while (true) {
    try {
      return driver.wait(number, until);
    } catch (const std::bad_alloc&) {
      std::this_thread::yield();
    }
  }
}

}  // namespace

DeviceQueue::Attended::Attended(const Work& work) noexcept { attended = &work; }
DeviceQueue::Attended::~Attended() { attended = nullptr; }

// Shared by the queue and its watching thread, which may outlive it.
struct DeviceQueue::Watch {
  explicit Watch(driver::Driver& of) : driver(of) {}

  struct Flight {
    std::uint64_t number;
    Work* work;
    int attendants = 0;  // threads that wait for the device to finish it
  };

  // Whether no other thread will finish the first flight when the device has finished it. Under the mutex.
  bool needs_watcher() const {
    return !flights.empty() && flights.front().number <= unattended && flights.front().attendants == 0;
  }
  // Null if it has finished. Under the mutex.
  Flight* find(std::uint64_t number) {
    const auto found = std::ranges::lower_bound(flights, number, {}, &Flight::number);
    return found != flights.end() && found->number == number ? &*found : nullptr;
  }

  driver::Driver& driver;  // used only while something is in flight, which keeps the device alive
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Flight> flights;    // by number
  std::uint64_t unattended = 0;  // the greatest number that no thread has promised to wait for
  bool has_thread = false;
  bool is_closed = false;
};

DeviceQueue::DeviceQueue(driver::Driver& driver) : watch_(std::make_shared<Watch>(driver)) {}

DeviceQueue::~DeviceQueue() {
  const std::scoped_lock lock(watch_->mutex);
  watch_->is_closed = true;
  watch_->changed.notify_all();
}

std::uint64_t DeviceQueue::start_on_device(Work& work) {
  driver::Driver& driver = watch_->driver;
  if (!work.sequence) return driver.start({&work.launch, 1});
  return work.sequence->start(driver);
}

core::FailurePtr DeviceQueue::start(Work& work) noexcept {
  const auto failed = [&](Errc code, std::string_view why) {
    return core::describe_failure(code, [&] { return core::text(work.describe(), " failed: ", why); });
  };
  try {
    // Compile before taking the lock, so that other threads can go on.
    if (work.sequence) {
      work.sequence->prepare(watch_->driver);
    } else {
      watch_->driver.pieces(work.launch);
    }
    bool needs_watcher = false, is_alone = false;
    std::uint64_t number = 0;
    std::function<void()> later;
    Ref<DeviceState> device;
    {
      // Under the mutex, so that flights are in the order of their numbers.
      const std::scoped_lock lock(watch_->mutex);
      watch_->flights.push_back({~std::uint64_t{0}, &work});  // may fail, so before the device has it
      try {
        number = start_on_device(work);
      } catch (...) {
        watch_->flights.pop_back();
        throw;
      }
      watch_->flights.back().number = number;
      work.queue_number.store(number, std::memory_order_release);
      if (work.listener) work.listener->queued(work, number);
      if (work.sequence) later = work.sequence->work_for_later(watch_->driver);
      if (later) device = work.device;
      if (attended != &work) {
        watch_->unattended = number;
        needs_watcher = true;
        try {
          if (!watch_->has_thread) std::thread(run, watch_).detach();
          watch_->has_thread = true;
        } catch (const std::exception&) {  // no thread is to be had, or no memory for it: this one watches
          is_alone = true;
        }
      }
    }
    // From here on the item may be finished and recycled.
    if (needs_watcher) watch_->changed.notify_one();
    if (is_alone) finish_completed(*watch_, wait_for(watch_->driver, number, Clock::time_point::max()));
    try {
      if (later) leave_to_worker(*device, "preparation", std::move(later), Priority::low);
    } catch (const std::bad_alloc&) {  // the usual recording goes on
    }
    return nullptr;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Errc::out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    return failed(Errc::internal, error.what());
  }
}

// Finishes the items that the device has finished. They keep the device alive until the last of them has finished.
void DeviceQueue::finish_completed(Watch& watch, const driver::Progress& progress) noexcept {
  while (true) {
    Work* work = nullptr;
    core::FailurePtr failure;
    {
      const std::scoped_lock lock(watch.mutex);
      if (watch.flights.empty()) return;
      const Watch::Flight& first = watch.flights.front();
      if (first.number > progress.ended) {
        if (!progress.failure) {
          if (watch.needs_watcher()) watch.changed.notify_one();
          return;
        }
        failure = progress.failure;
      }
      work = first.work;
      watch.flights.pop_front();
    }
    if (failure) {
      failure = core::describe_failure(failure->code,
                                       [&] { return core::text(work->describe(), " failed: ", failure->message); });
    }
    if (Work* next = finish(*work, std::move(failure))) execute(*next);
  }
}

bool DeviceQueue::attend(const Work& work, Clock::time_point until) noexcept {
  const std::shared_ptr<Watch> watch = watch_;
  const std::uint64_t number = work.queue_number.load(std::memory_order_acquire);
  if (number == 0) return false;
  const auto add_attendant = [&](int count) {
    const std::scoped_lock lock(watch->mutex);
    if (Watch::Flight* flight = watch->find(number)) flight->attendants += count;
  };
  add_attendant(1);
  const driver::Progress progress = wait_for(watch->driver, number, until);
  // If it has not finished, the watching thread is responsible again: finish_completed() wakes it.
  if (progress.ended < number) add_attendant(-1);
  finish_completed(*watch, progress);
  return work.is_settled();
}

void DeviceQueue::run(std::shared_ptr<Watch> watch) noexcept {
  std::unique_lock lock(watch->mutex);
  while (true) {
    watch->changed.wait(lock, [&] { return watch->is_closed || watch->needs_watcher(); });
    if (watch->flights.empty()) return;  // the queue is closed
    const std::uint64_t number = watch->flights.front().number;
    {
      const Ref<DeviceState> device = watch->flights.front().work->device;  // keeps it alive while this thread uses it
      lock.unlock();
      finish_completed(*watch, wait_for(watch->driver, number, Clock::time_point::max()));
    }
    lock.lock();
  }
}

}  // namespace tessera::detail::engine
