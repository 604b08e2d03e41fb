#pragma once

#include <tessera/error.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::kernels {

// While it lives, what this thread's plans find wrong with types and shapes is kept here, and they go on as far as they
// can, instead of throwing the first of it: for whoever tells all at once. Such a plan is good for nothing else.
class Complaints {
 public:
  Complaints() noexcept;
  ~Complaints();
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  void add(Error complaint) { all_.push_back(std::move(complaint)); }
  const std::vector<Error>& all() const noexcept { return all_; }

  // Inputs whose type and shape have both been told.
  void add_told(std::size_t input) { told_.push_back(input); }
  bool is_told(std::size_t input) const { return std::ranges::find(told_, input) != told_.end(); }

 private:
  Complaints* const outer_;
  std::vector<Error> all_;
  std::vector<std::size_t> told_;
};

}  // namespace tessera::kernels
