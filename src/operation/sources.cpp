#include <tessera/sources.hpp>

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <atomic>

namespace tessera::detail {

using core::text;

std::int64_t next_seed() noexcept {
  static std::atomic<std::int64_t> last{1'000'000'000};  // far from the seeds that people choose
  return ++last;
}

void check_value_count(std::size_t count, const Shape& shape) {
  if (static_cast<std::int64_t>(count) == shape.elements()) return;
  throw Error(Errc::count_mismatch, text("[from_host] got ", count, " values for the shape ", to_string(shape),
                                         ", which has ", shape.elements(), " elements"));
}

}  // namespace tessera::detail
