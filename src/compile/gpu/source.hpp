#pragma once

#include "compile/compile.hpp"
#include "ir/extents.hpp"
#include "ir/ir.hpp"
#include "ir/known_numbers.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

// Programs as source text for the compilers of GPUs.
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
  bool has_u8 = false;                               // buffers of bytes; otherwise four bytes share a word
  int group = 128;                                   // invocations of a workgroup
  int tile_group = std::numeric_limits<int>::max();  // at most, where a workgroup computes tiles in stages
  std::int64_t shared_bytes = 16384;                 // memory of a workgroup
  std::int64_t push_bytes = 0;  // the arguments that fit in Vulkan's push constants; more of them are a buffer
  int most_buffers = 8;         // that one kernel can use
  int most_argument_words = std::numeric_limits<int>::max();
  int product_block = 4;  // rows and columns of a matrix product that an invocation computes; 4, 8, …
  // Mesa's software drivers silently stop an invocation after this many steps of all its loops together. 0: no limit.
  std::int64_t most_steps = 0;
};

// The limit of Mesa's software drivers is 65,535, but they count more than the steps.
inline constexpr std::int64_t mesa_most_steps = 65000;
// They load for one invocation after the other, some 20 ns each: twice the elements need half the loads (measured: 512
// x 512 in half the time).
inline constexpr int mesa_product_block = 8;

// One kernel. Its entry is `main` in GLSL and `kernel_main` elsewhere; a workgroup is `group` x 1 x 1 invocations.
//
// Its parameters are, in this order: the buffers of the launch that `buffers` lists, scratch memory if `has_scratch`,
// and the arguments, `argument_words` words of 32 bits. In GLSL the buffers are bindings 0, 1, … of set 0, the scratch
// memory is the next one; the arguments are push constants if `has_push_constants`, for Vulkan the next binding
// otherwise, and for OpenGL ES the uniform array `int arguments[]` at location 0. In OpenCL C and CUDA C buffers and
// scratch are pointers, and the arguments one structure of ints by value.
struct Kernel {
  std::string source;
  int group = 1;
  std::vector<int> buffers;
  std::vector<bool> is_written;  // by buffer; only the output is
  bool has_scratch = false;
  bool has_push_constants = false;
  int argument_words = 0;
  std::int64_t most_elements = std::numeric_limits<std::int32_t>::max();  // of a buffer: indices have 32 bits

  // How the work is divided: each invocation computes this many points at a time, or each workgroup computes tiles.
  int points = 0;  // 0: tiles
  Tiling tiling;
  std::vector<ir::Id> scratch_values;  // the values stored in scratch memory…
  std::vector<int> scratch_words;      // …and how many words each takes a point

  // Numbers that are computed when the kernel is launched, so that no device computes them in fewer bits: extents and
  // loop counts, which are passed as arguments in this order…
  std::size_t passed_numbers = 0;
  // …then the other numbers that are stored in 32 bits and must fit…
  std::vector<ir::Id> number_ids;
  ir::KnownNumbers numbers;
  // …within this range; and the values computed from s64 scalars, whose ranges must be within it too.
  ir::Range numbers_range = {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  std::vector<ir::Id> narrowed;
  ir::ExtentChecks extent_checks;
  std::string device;  // for messages
  // Throws if a launch would make a value too large: what ExtentChecks throws, or Errc::unsupported, naming kernel,
  // value and device.
  void check(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const;

  // The loops within a piece of work. The count of a loop is a product of extents, possibly divided among invocations.
  struct Loop {
    int around = -1;  // the enclosing loop
    std::vector<ir::Id> extents;
    std::int64_t shared_by = 1;
    std::int64_t most = 0;  // the most steps, and their number if there are no extents; 0: no bound
  };
  std::vector<Loop> loops;
  // The parts of `source` that a chain is assembled from. Only for Vulkan.
  struct Array {
    std::string type, name;
    std::int64_t elements = 0;
  };
  struct Parts {
    std::vector<std::string> elements;  // the types of the buffers' elements
    std::vector<Array> shared;          // the workgroup's memory
    std::string body;                   // of main(), after lane, group and groups are declared
  };
  Parts parts;

  // The most steps that an invocation needs for one piece of a launch; `uncounted` if a loop's count depends on data.
  static constexpr std::int64_t uncounted = std::int64_t{1} << 40;
  std::int64_t steps(const ir::Program& program, const std::int64_t* dims, const std::uint64_t* scalars) const;

  // The workgroups that a launch has work for, and the scratch memory that each dispatched workgroup needs. Fewer may
  // be dispatched: each then continues with the next piece of work.
  struct Grid {
    std::int64_t groups = 0;
    std::int64_t scratch_bytes = 0;
  };
  Grid grid(const ir::Program& program, const std::int64_t* dims) const;
  // The words of the arguments, for that grid.
  std::vector<std::uint32_t> arguments(const ir::Program& program, const std::int64_t* dims,
                                       const std::uint64_t* scalars, const Grid& grid) const;
  // Changes arguments so that a dispatch of at most `count` workgroups does only a part of the launch: that of `count`
  // of the grid's workgroups, beginning with `first`.
  void select(std::vector<std::uint32_t>& arguments, std::int64_t first, std::int64_t count) const;
};

// A kernel of a chain. `memory` numbers its buffers, then its scratch memory; the same memory has the same number in
// all links.
struct Link {
  const Kernel* kernel = nullptr;
  std::vector<int> memory;
};
// Combines kernels that run one after the other, each as a single workgroup, into one kernel: a barrier of the
// workgroup replaces one of the device, and one dispatch replaces many. Its `buffers` are numbers of memory, in the
// order of the bindings; its arguments are those of the links, one after the other. Nothing if the links need more than
// the device has, or the dialect is not Vulkan's.
std::optional<Kernel> chain(std::span<const Link> links, const Target& target);

// How a program is printed, by the number of elements of the output. `few`: a workgroup reduces one element, and an
// invocation computes one element of a matrix product. `many`: an invocation reduces one element, and a workgroup
// computes a block of a matrix product.
enum class Form : std::uint8_t { many, few };

// The kernel of a program. Throws Errc::unsupported, naming device, kernel and type, if the device cannot run it.
Kernel print(const ir::Program& program, const Target& target, Form form);
// The same, showing the steps that TESSERA_DUMP names.
Kernel compile(const ir::Program& program, const Target& target, Form form);
// Why a program has two forms, if it does.
enum class Choice : std::uint8_t { none, reduction, product };
Choice choice_of(const ir::Program& program);
// The better form for a launch with these extents.
Form best_form(Choice choice, const ir::Program& program, const std::int64_t* dims);
// Throws what print() would throw because of types or the number of buffers, without printing.
void check(const ir::Program& program, const Target& target);

}  // namespace tessera::compile::gpu
