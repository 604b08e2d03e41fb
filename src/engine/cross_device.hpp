#pragma once

#include "engine/device_state.hpp"

#include <cstddef>
#include <vector>

// Buffers of one device in the hands of another: what copies between devices are made of.
//
// The order of a device knows its own nodes only. So a node that uses a buffer of another device is known there as a
// loan, two nodes that are placed together with it: *out* is over when the buffer is free for it, and it waits for
// that; *back*, which all later work on the buffer waits for, waits for it. A map does the same for the host.
namespace tessera::detail::engine {

// The order locks of several devices, always taken one after the other by their addresses; of one, that lock.
class OrderLocks {
 public:
  explicit OrderLocks(DeviceState& device) : one_(&device) {}
  // The device's own and these, which are sorted and hold it too; or none of them.
  OrderLocks(DeviceState& device, const std::vector<DeviceState*>& all)
      : one_(&device), all_(all.empty() ? nullptr : &all) {}
  OrderLocks(const OrderLocks&) = delete;
  OrderLocks& operator=(const OrderLocks&) = delete;
  ~OrderLocks() {
    if (is_locked_) unlock();
  }

  void lock() noexcept;
  void unlock() noexcept;
  bool owns_lock() const noexcept { return is_locked_; }

 private:
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
// When the locks are given up.
void arm(const Loan& loan) noexcept;

// Copies between memory of two devices: at once if the host can address one of them, else through memory of the
// host's. Throws the drivers' errors, and why the source has not what it should have.
void transfer(const Storage& from, const Storage& to, std::size_t bytes);

// A command that copies a buffer into one of another device, of the same type and size.
Ref<Work> copy_between(Storage& from, Storage& to, std::size_t bytes);

}  // namespace tessera::detail::engine
