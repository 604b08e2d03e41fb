#include "driver/gpu/opencl/waitable_children.hpp"

#include <csignal>
#include <mutex>

namespace tessera::driver::gpu::opencl {

namespace {

bool discards_children(const struct sigaction& action) {
  return (action.sa_flags & SA_NOCLDWAIT) != 0 || ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN);
}

// How many need the children, and what the program wanted.
struct Holders {
  std::mutex mutex;
  std::size_t count = 0;
  struct sigaction before{};
  struct sigaction during{};

  static Holders& instance() {
    static auto& made = *new Holders;  // the driver's threads may outlive everything
    return made;
  }
};

// False if children can be waited for anyway.
bool take() {
  Holders& holders = Holders::instance();
  const std::scoped_lock lock(holders.mutex);
  if (holders.count == 0) {
    if (sigaction(SIGCHLD, nullptr, &holders.before) != 0 || !discards_children(holders.before)) return false;
    holders.during = holders.before;
    holders.during.sa_flags &= ~SA_NOCLDWAIT;
    if ((holders.during.sa_flags & SA_SIGINFO) == 0 && holders.during.sa_handler == SIG_IGN) {
      holders.during.sa_handler = SIG_DFL;
    }
    if (sigaction(SIGCHLD, &holders.during, nullptr) != 0) return false;
  }
  ++holders.count;
  return true;
}

void give_back() {
  Holders& holders = Holders::instance();
  const std::scoped_lock lock(holders.mutex);
  if (--holders.count != 0) return;
  struct sigaction now{};
  if (sigaction(SIGCHLD, nullptr, &now) != 0) return;
  const bool is_ours = now.sa_handler == holders.during.sa_handler && (now.sa_flags & SA_NOCLDWAIT) == 0;
  if (is_ours) sigaction(SIGCHLD, &holders.before, nullptr);
}

void CL_CALLBACK give_back_at(cl_event, cl_int, void*) { give_back(); }

}  // namespace

WaitableChildren::WaitableChildren(const Found& found) : is_needed_(found.is_pocl && take()) {}

WaitableChildren::~WaitableChildren() {
  if (is_needed_) give_back();
}

void WaitableChildren::hold_until(cl_event event) const {
  if (!is_needed_ || !take()) return;
  if (functions()->set_event_callback(event, CL_COMPLETE, give_back_at, nullptr) == CL_SUCCESS) return;
  functions()->wait_for_events(1, &event);  // so that PoCL has started what it needs
  give_back();
}

}  // namespace tessera::driver::gpu::opencl
