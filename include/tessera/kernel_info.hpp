#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>
#include <tessera/params.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

// One parameter of a kernel, and one kernel: what Device::kernels() tells.
struct ParamInfo {
  std::string name;
  std::string type;   // "number", "integer", "boolean", "string", "list of numbers", "list of integers"
  std::string range;  // what it may be: "0..64", "one of nearest, bilinear"; empty: anything of its type
  bool is_required = false;
  Value default_value;  // if it is not required
  std::string documentation;
};
struct KernelInfo {
  std::string name;
  std::vector<std::string> inputs;  // their names
  std::size_t optional_inputs = 0;  // how many of the last ones may be left out
  std::vector<ParamInfo> params;
  std::vector<DType> dtypes;  // of the output
  std::string documentation;  // one line
  // Its other names. Those of built-in kernels are free for kernels of the program's own, but for multiply, scalar_mul
  // and blur.
  std::vector<std::string> aliases;
};
// "fill(value: number = 0)  value; …"; "softmax(x; axis: integer = -1) for f32, f64  …" if it does not take all types;
// "…, also add" at the end if it has other names.
TESSERA_API std::string to_string(const KernelInfo& kernel);

}  // namespace tessera
