#pragma once

// Everything: asynchronous GPU compute for C++20.
#include <tessera/bindings.hpp>
#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/device.hpp>
#include <tessera/dtype.hpp>
#include <tessera/error.hpp>
#include <tessera/image.hpp>
#include <tessera/kernel.hpp>
#include <tessera/kernels.hpp>
#include <tessera/operation.hpp>
#include <tessera/params.hpp>
#include <tessera/pipeline.hpp>
#include <tessera/shape.hpp>
#include <tessera/simulation.hpp>
#include <tessera/stream.hpp>
#include <tessera/task.hpp>
#include <tessera/tensor.hpp>
#include <tessera/tile.hpp>
#include <tessera/trace.hpp>
#include <tessera/values.hpp>
#include <tessera/version.hpp>
