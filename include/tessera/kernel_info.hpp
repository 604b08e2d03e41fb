#pragma once

#include <tessera/detail/export.hpp>
#include <tessera/dtype.hpp>
#include <tessera/params.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace tessera {

// A parameter of a kernel.
struct ParamInfo {
  std::string name;
  std::string type;   // "number", "integer", "boolean", "string", "list of numbers", "list of integers", "colour"
  std::string range;  // "0..64", "one of nearest, bilinear"; empty: any value of its type
  bool is_required = false;
  Value default_value;  // unless it is required
  std::string documentation;
  std::vector<std::string> aliases;  // other names; a call that gives two of them is refused
};
// A kernel: Device::kernels().
struct KernelInfo {
  std::string name;
  std::vector<std::string> inputs;  // their names
  std::size_t optional_inputs = 0;  // how many trailing inputs may be omitted
  std::vector<ParamInfo> params;
  std::vector<DType> dtypes;  // of the output
  std::string documentation;  // one line
  // Other names. Users may register kernels of their own under a built-in kernel's aliases, except multiply, scalar_mul
  // and blur.
  std::vector<std::string> aliases;
};
// One line: "fill(value: number = 0)  value; …". Adds the types if not all are supported, and the aliases:
// "softmax(x; axis: integer = -1) for f32, f64  …", "sharpen(x; amount or strength: number …", "…; also add".
TESSERA_API std::string to_string(const KernelInfo& kernel);

}  // namespace tessera
