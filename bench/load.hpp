#pragma once

namespace bench {

// What others do with the processor while this lives: they make every figure doubtful.
class Load {
 public:
  Load();
  double of_others() const;  // the share of all cores' time, 0 to 1

 private:
  struct Times {
    double all = 0;   // seconds of all cores
    double idle = 0;  // of these
    double own = 0;   // processor time of this process and its children
  };
  static Times now();

  Times begin_;
};

}  // namespace bench
