#include "load.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/times.h>
#include <unistd.h>

namespace bench {

Load::Load() : begin_(now()) {}

double Load::of_others() const {
  const Times end = now();
  const double all = end.all - begin_.all;
  const double busy = all - (end.idle - begin_.idle);
  return all > 0 ? std::max(0.0, busy - (end.own - begin_.own)) / all : 0;
}

Load::Times Load::now() {
  const auto ticks_a_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  Times times;
  // "cpu user nice system idle iowait irq softirq steal ...": ticks of all cores. Guests count as users too.
  std::ifstream stat("/proc/stat");
  std::string label;
  stat >> label;
  for (int column = 0; column < 8; ++column) {
    double ticks = 0;
    stat >> ticks;
    times.all += ticks / ticks_a_second;
    if (column == 3 || column == 4) times.idle += ticks / ticks_a_second;
  }
  tms own{};
  ::times(&own);
  times.own = static_cast<double>(own.tms_utime + own.tms_stime + own.tms_cutime + own.tms_cstime) / ticks_a_second;
  return times;
}

}  // namespace bench
