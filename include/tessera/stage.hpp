#pragma once

#include <tessera/detail/export.hpp>

#include <cstdint>
#include <string_view>

namespace tessera {

// What a stage of a pipeline does.
enum class StageOp : std::uint8_t {
  run_kernel,   // as Device::run
  copy_buffer,  // inputs[0] to output, of one shape and type
  barrier,      // all that is before it is over before anything after it begins
  call,         // a function of the program's own
};
TESSERA_API std::string_view to_string(StageOp op) noexcept;

struct PipelineOptions {
  bool fuse = true;  // stages may become one launch, and temporaries between them go; the results are the same
};

}  // namespace tessera
