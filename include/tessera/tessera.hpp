#pragma once

// Asynchronous GPU compute for C++20: everything, in the order in which one learns it.
// clang-format off: it would sort the lines.

// Devices, buffers and kernels by name.
#include <tessera/device.hpp>      // open a device, create buffers, run and submit kernels
#include <tessera/buffer.hpp>      // read, write, map and copy device memory
#include <tessera/dtype.hpp>       // element types: f32, u8, …
#include <tessera/shape.hpp>       // extents: {480, 640, 4}
#include <tessera/values.hpp>      // values of a call: {1, 2, 3}
#include <tessera/params.hpp>      // parameters of a call: {{"radius", 3}}
#include <tessera/kernels.hpp>     // common kernels as functions
#include <tessera/error.hpp>       // the exception, its codes and causes

// Asynchronous work.
#include <tessera/command.hpp>     // poll, await and cancel submitted work
#include <tessera/stream.hpp>      // priorities, limits and deadlines

// Your own kernels.
#include <tessera/tile.hpp>        // written as tile programs
#include <tessera/kernel.hpp>      // registered by name, or written as an expression

// Many kernels at once.
#include <tessera/pipeline.hpp>    // recorded stages that run as one command
#include <tessera/bindings.hpp>    // buffers and values of one run of a pipeline
#include <tessera/operation.hpp>   // lazy operations that compose
#include <tessera/tensor.hpp>      // typed results of operations
#include <tessera/task.hpp>        // coroutines that await commands and operations

// And around them.
#include <tessera/image.hpp>       // PNG and JPEG files
#include <tessera/simulation.hpp>  // a device that injects faults, for tests
#include <tessera/trace.hpp>       // a timeline of all commands
#include <tessera/version.hpp>
