#pragma once

#include "engine/device_state.hpp"

#include <cstddef>
#include <vector>

// Buffers of one device that a work of another uses: what copies between devices are made of.
//
// A device orders its own works only. So a work that uses a buffer of another device is known there as a loan: two
// works that are placed together with it. *out* finishes when the buffer is free for the borrower, which waits for
// that; *back*, which all later work on the buffer waits for, waits for the borrower. A map does the same for the host.
namespace tessera::detail::engine {

// The order locks of several devices, always taken in the order of their addresses; of one device, its lock.
class OrderLocks {
 public:
  explicit OrderLocks(DeviceState& device) : one_(&device) {}
  // These devices, which are sorted and include `device`; if there are none, `device` alone.
  OrderLocks(DeviceState& device, const std::vector<DeviceState*>& all)
      : one_(&device), all_(all.empty() ? nullptr : &all) {}
  OrderLocks(const OrderLocks&) = delete;
  OrderLocks& operator=(const OrderLocks&) = delete;
  ~OrderLocks() {
    if (is_locked_) unlock();
  }

  void lock() noexcept {
    if (!all_) [[likely]] {
      one_->order.lock();
    } else {
      lock_all();
    }
    is_locked_ = true;
  }
  void unlock() noexcept {
    is_locked_ = false;
    if (!all_) [[likely]]
      return one_->order.unlock();
    unlock_all();
  }
  bool owns_lock() const noexcept { return is_locked_; }

 private:
  void lock_all() noexcept;
  void unlock_all() noexcept;

  DeviceState* one_;
  const std::vector<DeviceState*>* all_ = nullptr;
  bool is_locked_ = false;
};

// Sorted for OrderLocks, without repetitions.
void sort_for_locks(std::vector<DeviceState*>& devices);

struct Loan {
  Work* out;
  Work* back;
};
// Both under the order locks of both devices. The borrower must wait for what lend() gives before it gets to
// take_back(). `writes`: all of the buffer, which is poisoned if the borrower fails.
Work& lend(Storage& storage, bool writes);
Loan take_back(Work& out, Work& borrower);
// After the locks are released.
void arm(const Loan& loan) noexcept;

// Copies between the memory of two devices: directly if the host can address one of them, else through host memory.
// Throws the drivers' errors, and the cause if the source is poisoned.
void transfer(const Storage& from, const Storage& to, std::size_t bytes);

// A command that copies a buffer into one of another device, of the same type and size.
Ref<Work> copy_between(Storage& from, Storage& to, std::size_t bytes);

}  // namespace tessera::detail::engine
