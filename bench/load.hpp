#pragma once

namespace bench {

// Measures the load by other processes during its lifetime, which makes figures unreliable.
class Load {
 public:
  Load();
  double of_others() const;  // share of all cores' time, 0 to 1

 private:
  struct Times {
    double all = 0;   // seconds of all cores
    double idle = 0;  // of all
    double own = 0;   // processor time of this process and its children
  };
  static Times now();

  Times begin_;
};

}  // namespace bench
