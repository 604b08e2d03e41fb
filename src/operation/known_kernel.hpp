#pragma once

#include <tessera/detail/operation_evaluator.hpp>

#include "kernels/kernel.hpp"

// KnownKernel is how the public headers name a kernels::Kernel, without declaring namespace kernels to user code.
namespace tessera::detail::operation {

inline const kernels::Kernel* from_known(const KnownKernel* kernel) noexcept {
  return static_cast<const kernels::Kernel*>(static_cast<const void*>(kernel));
}
inline const KnownKernel& to_known(const kernels::Kernel& kernel) noexcept {
  return *static_cast<const KnownKernel*>(static_cast<const void*>(&kernel));
}

}  // namespace tessera::detail::operation
