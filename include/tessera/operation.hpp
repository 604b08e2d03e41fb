#pragma once

#include <tessera/combinators.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/kernel_operation.hpp>
#include <tessera/sources.hpp>
#include <tessera/spawned.hpp>
#include <tessera/stream_policy.hpp>

// Lazy device work that composes. An operation describes a computation; nothing runs until its value is requested, by
// co_await, sync(), sync_on(stream) or spawn(operation).
//
//   auto [z, x_back, y_back] = zip(zeros<float>({32, 32}).partition({4, 4}), x, y).apply(add).unzip();
//   std::vector<float> host = co_await std::move(z).unpartition().to_host();
//
// All device work of an operation between two points where the host needs a result is planned together, like a
// pipeline: kernels are fused, intermediate tensors need no memory, and operations of the same form are planned once.
// An operation that needs more memory than the device has is evaluated in pieces where possible.
