#include <memory>

#include "cases/tiny.hpp"

#include <fstream>
#include <unistd.h>
#include <vector>

namespace bench {

namespace {

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double all = 0;
  double resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Ours {
  tessera::Buffer input = tiny_buffer();
  tessera::Buffer output = tiny_buffer();

  void submit_many(int count) {
    for (int i = 0; i < count; ++i) submit(Kernel::scale, input, output);
  }
  // Half of them run when submitted, half wait, a thousand at a time.
  void run_many(int count) {
    constexpr int batch = 1000;
    for (int i = 0; i < count; i += 2 * batch) {
      submit_many(batch);
      {
        const auto view = input.map<float>();
        submit_many(batch);
      }
      device().synchronize();
    }
  }
};

}  // namespace

Sides million() {
  return {
      [ours = std::make_shared<Ours>()] {
        ours->run_many(100'000);  // fills the caches for reuse
        const double before = resident_bytes();
        ours->run_many(1'000'000);
        return (resident_bytes() - before) / (1 << 20);
      },
  };
}

Sides pending_command() {
  return {
      [ours = std::make_shared<Ours>()] {
        constexpr int count = 200'000;
        const double before = resident_bytes();
        double after = 0;
        {
          const auto view = ours->input.map<float>();
          ours->submit_many(count);
          after = resident_bytes();
        }
        device().synchronize();
        return (after - before) / count;
      },
  };
}

}  // namespace bench
