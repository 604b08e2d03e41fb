// A non-copyable executor is passed by std::ref.
// Error: this executor cannot be copied: write on(std::ref(executor))
#include <tessera/operation.hpp>

using namespace tessera;

struct Executor {
  Executor(const Executor&) = delete;
  void execute(void (*)());
  template <class F>
  void execute(F function);
};

void use(Executor& executor) {
#ifdef FIXED
  value(1).on(std::ref(executor));
#else
  value(1).on(executor);
#endif
}
