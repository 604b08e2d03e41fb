#pragma once

#include <tessera/detail/export.hpp>

#include <cstdint>
#include <string_view>

namespace tessera {

// What a pipeline stage does.
enum class StageOp : std::uint8_t {
  run_kernel,   // like Device::run
  copy_buffer,  // inputs[0] to output, of the same shape and type
  barrier,      // every stage before it finishes before any stage after it starts
  call,         // calls a user function
};
TESSERA_API std::string_view to_string(StageOp op) noexcept;

struct PipelineOptions {
  bool fuse = true;  // merge stages into one launch and drop temporaries between them; results stay the same
};

}  // namespace tessera
