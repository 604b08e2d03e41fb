#pragma once

#include "engine/device_state.hpp"

#include <cstddef>
#include <vector>

// Copies between devices, that is, work items that use a buffer of another device.
//
// A device orders only its own items. An item that uses a buffer of another device is represented there by a loan: two
// items that are placed together with it. *out* finishes when the buffer is free for the borrower, which waits for it;
// *back* waits for the borrower, and all later work on the buffer waits for it. A map does the same for the host.
namespace tessera::detail::engine {

// The order lock of one device, or of several: these are always taken in the order of the devices' addresses.
class OrderLocks {
 public:
  explicit OrderLocks(DeviceState& device) : one_(&device) {}
  // All these devices, which are sorted and include `device`; only `device` if the list is empty.
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
// Both under the order locks of both devices. The borrower must wait for the result of lend() before it is passed to
// take_back(). `writes`: the borrower overwrites the whole buffer, which is poisoned if it fails.
Work& lend(Storage& storage, bool writes);
Loan take_back(Work& out, Work& borrower);
// After the locks are released.
void arm(const Loan& loan) noexcept;

// Copies between the memory of two devices: directly if the host can address one of the two, else through host memory.
// Throws the drivers' errors, and the root cause if the source is poisoned.
void transfer(const Storage& from, const Storage& to, std::size_t bytes);

// A command that copies a buffer into a buffer of another device, of the same type and size.
Ref<Work> copy_between(Storage& from, Storage& to, std::size_t bytes);

}  // namespace tessera::detail::engine
