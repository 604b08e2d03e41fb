#pragma once

#include <tessera/error.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::kernels {

// Collects every type and shape error of the lowerings that run on this thread during its lifetime, instead of letting
// the first one throw: a pipeline reports all of its errors at once. A lowering with errors must not be used.
class Diagnostics {
 public:
  Diagnostics() noexcept;
  ~Diagnostics();
  Diagnostics(const Diagnostics&) = delete;
  Diagnostics& operator=(const Diagnostics&) = delete;

  void add(Error error) { errors_.push_back(std::move(error)); }
  const std::vector<Error>& errors() const noexcept { return errors_; }

  // Inputs whose type and shape have been reported already.
  void mark_reported(std::size_t input) { reported_.push_back(input); }
  bool is_reported(std::size_t input) const { return std::ranges::find(reported_, input) != reported_.end(); }

 private:
  Diagnostics* const outer_;
  std::vector<Error> errors_;
  std::vector<std::size_t> reported_;
};

}  // namespace tessera::kernels
