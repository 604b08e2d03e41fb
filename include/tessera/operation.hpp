#pragma once

#include <tessera/combinators.hpp>
#include <tessera/device_operation.hpp>
#include <tessera/kernel_operation.hpp>
#include <tessera/sources.hpp>
#include <tessera/spawned.hpp>
#include <tessera/stream_policy.hpp>

// Lazy device work that composes. An operation says what is to be done; nothing happens until somebody asks for its
// value, by one of the doors: co_await, sync(), sync_on(stream), spawn(operation).
//
//   auto [z, x_back, y_back] = zip(zeros<float>({32, 32}).partition({4, 4}), x, y).apply(add).unzip();
//   std::vector<float> host = co_await std::move(z).unpartition().to_host();
//
// All that an operation wants of the device between two points where the host must see something is planned together,
// as a pipeline is: it is fused, tensors in between need no memory, and operations that are alike are planned once. An
// operation that would take more memory than the device has is evaluated in pieces, as far as it can be.
