#pragma once

#include "compile/compile.hpp"
#include "ir/ir.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Programs as text for the compilers of GPUs.
namespace tessera::compile::gpu {

enum class Dialect : std::uint8_t {
  vulkan,  // GLSL 4.50 for Vulkan 1.2
  gles,    // GLSL ES 3.10
  opencl,  // OpenCL C 1.2
  cuda,    // CUDA C, to be compiled with --fmad=false
};

// What the text depends on.
struct Target {
  Dialect dialect = Dialect::vulkan;
  std::string device;  // its name, for messages
  bool has_f64 = false;
  bool has_s64 = false;
  bool has_u8 = false;                // bytes in buffers; else four of them share a word
  int group = 128;                    // invocations of a workgroup
  std::int64_t shared_bytes = 16384;  // memory of a workgroup
  std::int64_t push_bytes = 0;        // of arguments that Vulkan takes as push constants; more of them are a buffer
  int most_buffers = 8;               // that one kernel can use
  int product_block = 4;              // so many rows and columns of a matrix product an invocation does; 4, 8, …
  // After so many steps of all its loops together an invocation is stopped, and nobody is told: Mesa's drivers for
  // processors do that. 0: it goes on to the end.
  std::int64_t most_steps = 0;
};

// Of Mesa's drivers for processors: 65,535 with what they count beside the steps.
inline constexpr std::int64_t mesa_most_steps = 65000;
// They load for one invocation after the other, some 20 ns each: twice the elements are half the loads (measured: 512 x
// 512 in half the time).
inline constexpr int mesa_product_block = 8;

// One kernel. Its entry is `main` in GLSL and `kernel_main` elsewhere; a workgroup is `group` x 1 x 1 invocations.
//
// What it is given, in this order, is: the launch's buffers that `buffers` lists, the scratch memory if it needs some,
// and the arguments, `argument_words` words of 32 bits. In GLSL the buffers are bindings 0, 1, … of set 0, the scratch
// memory is the next one; the arguments are push constants if `has_push_constants`, for Vulkan the next binding
// otherwise, and for OpenGL ES the uniform array `int arguments[]` at location 0. In OpenCL C and CUDA C buffers and
// scratch are pointers, and the arguments one structure of ints by value.
struct Kernel {
  std::string source;
  int group = 1;
  std::vector<int> buffers;
  std::vector<bool> is_written;  // of each; only the output is
  bool has_scratch = false;
  bool has_push_constants = false;
  int argument_words = 0;
  std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();  // of a buffer: places are of 32 bits

  // Workgroups. In the first form each invocation does points of the output, so many at a time; in the others each
  // workgroup does tiles of it.
  int points = 0;  // 0: tiles
  Tiling tiling;
  std::vector<ir::Id> kept;  // the values in scratch memory; their words a point are in kept_words
  std::vector<int> kept_words;

  // The loops within a piece of work: their counts are products of extents, shared among the invocations or not.
  struct Loop {
    int around = -1;  // the loop that it is in
    std::vector<ir::Id> extents;
    std::int64_t shared_by = 1;
    std::int64_t most = 0;  // no more than so many, and so many if there are no extents; 0: as the extents say
  };
  std::vector<Loop> loops;
  // What a chain is made of: the text of `source` in parts. Only for Vulkan.
  struct Array {
    std::string type, name;
    std::int64_t elements = 0;
  };
  struct Parts {
    std::vector<std::string> elements;  // the types of the buffers' elements
    std::vector<Array> shared;          // the workgroup's memory
    std::string body;                   // what main() does when lane, group and groups are known
  };
  Parts parts;

  // The steps of an invocation that does one piece of a launch, at most: uncounted, if a loop's count follows from what
  // is in the buffers.
  static constexpr std::int64_t uncounted = std::int64_t{1} << 40;
  std::int64_t steps(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const;

  // Of a launch: how many workgroups there is work for, and what scratch memory each of those needs that are
  // dispatched. Fewer may be dispatched: each goes on with the next piece of work.
  struct Grid {
    std::int64_t groups = 0;
    std::int64_t scratch_bytes = 0;
  };
  Grid grid(const ir::Program& program, const std::int64_t* dims) const;
  // The words of the arguments, for that grid.
  std::vector<std::uint32_t> arguments(const ir::Program& program, const std::int64_t* dims,
                                       const std::uint64_t* scalars, const Grid& grid) const;
};

// A kernel of a chain. Its buffers, and then its scratch memory, are numbered in the chain: those of the same memory
// alike.
struct Link {
  const Kernel* kernel = nullptr;
  std::vector<int> memory;
};
// Kernels one after the other as one, for launches that are one workgroup's work each: a barrier of the workgroup takes
// the place of one of the device, and one dispatch that of many. Its `buffers` are numbers of memory, in the order of
// the bindings; its arguments are those of the links, one after the other. None if they need more than the device has,
// or if the language is not Vulkan's.
std::optional<Kernel> chain(std::span<const Link> links, const Target& target);

// How a program is printed. Of a reduction to few elements each is the work of a workgroup, of one to many that of an
// invocation. Of a matrix product with few rows or columns each element is the work of an invocation; else a block is
// that of a workgroup.
enum class Form : std::uint8_t { many, few };

// The kernel of a program. Errc::unsupported, naming device, kernel and type, where the device cannot run it.
Kernel print(const ir::Program& program, const Target& target, Form form);
// What a program has two forms for.
enum class Choice : std::uint8_t { none, reduction, product };
Choice choice_of(const ir::Program& program);
// The better one for a launch with these extents.
Form best_form(Choice choice, const ir::Program& program, const std::int64_t* dims);
// Throws what print() would throw on account of types and of the number of buffers, at once.
void check(const ir::Program& program, const Target& target);

}  // namespace tessera::compile::gpu
