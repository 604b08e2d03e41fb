// Driver calls, with exceptions turned into failures.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/device_state.hpp"
#include "engine/execution.hpp"

#include <new>

namespace tessera::detail::engine {

using core::text;

core::FailurePtr launch_failure(const driver::Launch& launch, std::string_view label,
                                std::string_view context) noexcept {
  const auto failed = [&](Errc code, std::string_view why) {
    return core::describe_failure(
        code, [&] { return text(context, "[", label, "] command ", launch.command, " failed: ", why); });
  };
  try {
    throw;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Errc::out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    return failed(Errc::internal, error.what());
  } catch (...) {
    return failed(Errc::internal, "a non-std::exception was thrown");
  }
}

namespace {

template <class Function>
core::FailurePtr guarded(const driver::Launch& launch, std::string_view label, std::string_view context,
                         Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (...) {
    return launch_failure(launch, label, context);
  }
}

}  // namespace

core::FailurePtr prepare_launch(driver::Driver& driver, const driver::Launch& launch, std::string_view label,
                                std::string_view context) noexcept {
  return guarded(launch, label, context, [&] {
    if (driver.partial_bytes(launch) == 0) driver.pieces(launch);
  });
}

core::FailurePtr begin_launch(Work& work) noexcept {
  driver::Driver& driver = *work.device->driver;
  Work::Pieces& pieces = work.pieces;
  core::FailurePtr failure = guarded(work.launch, work.label, work.context, [&] {
    if (const std::size_t bytes = driver.partial_bytes(work.launch); bytes != 0) {
      pieces.partial.reset(new (std::nothrow) std::byte[bytes]);
      if (!pieces.partial) throw Error(Errc::out_of_memory, text("no memory for ", bytes, " bytes of partial results"));
      work.launch.partial = pieces.partial.get();
    }
    pieces.count = driver.pieces(work.launch);
  });
  if (failure) pieces.partial.reset();
  return failure;
}

core::FailurePtr finish_launch(const Work& work) noexcept {
  return guarded(work.launch, work.label, work.context, [&] { work.device->driver->finish(work.launch); });
}

}  // namespace tessera::detail::engine
