// Everything around the body of a kernel: its declarations, arguments, workgroup memory and entry point.
#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <set>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

// How a scalar or an element of this type is stored.
NumberKind kind_of(Type type) {
  constexpr NumberKind kinds[] = {NumberKind::f32, NumberKind::f64, NumberKind::s32,    NumberKind::s64,
                                  NumberKind::u32, NumberKind::u32, NumberKind::boolean};
  return kinds[static_cast<int>(type)];
}

}  // namespace

// The numbers that launches compute, and what they check.
void Printer::find_numbers() {
  // The last tile along an axis may be clipped: what depends on its extent is computed on the device.
  const std::vector<bool> is_known = ir::known_at_launch(program_);
  std::vector<bool> varies(program_.ops.size());
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const ir::Op& op = program_.ops[id];
    const auto axis = static_cast<std::size_t>(op.axis);
    varies[id] =
        (op.code == Code::tile_dim && tiling_.extents[axis] > 1 && analysis_.is_clipped[axis]) ||
        std::ranges::any_of(op.operands, [&](Id operand) { return varies[static_cast<std::size_t>(operand)]; });
  }
  std::set<Id> passed;
  const auto pass = [&](Id id) {
    const Code code = program_[id].code;
    const bool is_computed = code != Code::constant && code != Code::dim && code != Code::tile_dim;
    if (is_computed && is_known[static_cast<std::size_t>(id)] && !varies[static_cast<std::size_t>(id)])
      passed.insert(id);
  };
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const ir::Op& op = program_.ops[id];
    if (!analysis_.is_live[id]) continue;
    std::ranges::for_each(op.shape, pass);
    if (op.code == Code::loop) pass(op.operands[0]);
  }
  result_.passed_numbers = passed.size();
  result_.number_ids.assign(passed.begin(), passed.end());
  for (const Id id : narrow_numbers(program_, analysis_.is_live, target_)) result_.number_ids.push_back(id);
  result_.numbers = ir::KnownNumbers(program_, result_.number_ids);
  result_.narrowed = computed_from_scalars(program_, analysis_.is_live, target_);
  if (has_clamped_indices(program_, target_)) result_.numbers_range = {-longest_axis, longest_axis};
  result_.device = full_name(target_);
  result_.extent_checks = ir::ExtentChecks(program_, tiling_.extents);
}

// The arguments: pieces of work, words of scratch memory a workgroup, the workgroup that the dispatch begins with (see
// Kernel::select), extents, scalars, numbers.
void Printer::declare_arguments() {
  int word = 3;
  arguments_ = "int pieces = arguments[0];\n  int first_group = arguments[2];\n";
  for (std::size_t buffer = 0; buffer < program_.buffers.size(); ++buffer) {
    dims_.emplace_back();
    for (std::size_t axis = 0; axis < program_.buffers[buffer].dims.size(); ++axis) {
      const std::int64_t known = program_.buffers[buffer].dims[axis];
      const int at = word++;
      if (known >= 0) {
        dims_.back().push_back(std::to_string(known));
      } else {
        dims_.back().push_back(text("d", buffer, "_", axis));
        arguments_ += text("  int d", buffer, "_", axis, " = arguments[", at, "];\n");
      }
    }
  }
  std::vector<bool> is_used(program_.scalars.size());
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const ir::Op& op = program_.ops[id];
    if (analysis_.is_live[id] && op.code == Code::scalar) is_used[static_cast<std::size_t>(op.index)] = true;
  }
  for (std::size_t number = 0; number < program_.scalars.size(); ++number) {
    const std::string low = syntax_.cast(NumberKind::u32, text("arguments[", word, "]"));
    const std::string high = syntax_.cast(NumberKind::u32, text("arguments[", word + 1, "]"));
    word += 2;
    scalars_.push_back(text("scalar", number));
    if (!is_used[number]) continue;
    // Without 64-bit integers the lower half is all: a launch checks that the scalar fits.
    const bool is_narrowed = program_.scalars[number].type == Type::s64 && !target_.has_s64;
    const NumberKind of = is_narrowed ? NumberKind::s32 : kind_of(program_.scalars[number].type);
    arguments_ += text("  ", syntax_.variable(of), " scalar", number, " = ", syntax_.from_bits(of, low, high), ";\n");
  }
  find_numbers();
  for (std::size_t i = 0; i < result_.passed_numbers; ++i) {
    const std::string variable = text("number", i);
    arguments_ += text("  int ", variable, " = arguments[", word++, "];\n");
    numbers_[result_.number_ids[i]] = variable;
  }
  result_.argument_words = word;
  result_.has_push_constants = target_.dialect == Dialect::vulkan && word * 4 <= target_.push_bytes;
}

// The type of a buffer's elements in GLSL.
std::string_view Printer::declared_element(Type type) const {
  if (type == Type::u8) return target_.has_u8 && !has_quads_ ? "uint8_t" : "uint";
  if (has_quads_ && type != Type::f64 && type != Type::s64) {
    return type == Type::f32 ? "vec4" : type == Type::s32 ? "ivec4" : "uvec4";
  }
  return syntax_.type(kind_of(type));
}

std::string Printer::declared_buffers() const {
  std::string result;
  int binding = 0;
  for (const int number : result_.buffers) {
    const Type type = program_.buffers[static_cast<std::size_t>(number)].type;
    if (syntax_.is_glsl()) {
      const char* set = target_.dialect == Dialect::vulkan ? "set = 0, " : "";
      result += text("layout(std430, ", set, "binding = ", binding, ") ", number == 0 ? "" : "readonly ", "buffer B",
                     number, " { ", declared_element(type), " b", number, "[]; };\n");
    } else {
      result += text(binding == 0 ? "" : ", ", target_.dialect == Dialect::cuda ? "" : "__global ",
                     number == 0 ? "" : "const ", syntax_.element(type), "* b", number);
    }
    ++binding;
  }
  if (result_.has_scratch) {
    if (syntax_.is_glsl()) {
      const char* set = target_.dialect == Dialect::vulkan ? "set = 0, " : "";
      result +=
          text("layout(std430, ", set, "binding = ", binding++, ") coherent buffer Scratch { uint scratch[]; };\n");
    } else {
      result += target_.dialect == Dialect::cuda ? ", unsigned* scratch" : ", __global uint* scratch";
    }
  }
  switch (target_.dialect) {
    case Dialect::vulkan:
      result += result_.has_push_constants ? text("layout(push_constant) uniform Arguments { int arguments[",
                                                  result_.argument_words, "]; };\n")
                                           : text("layout(std430, set = 0, binding = ", binding,
                                                  ") readonly buffer Arguments { int arguments[]; };\n");
      break;
    case Dialect::gles:
      result += text("layout(location = 0) uniform int arguments[", result_.argument_words, "];\n");
      break;
    default:
      result += ", struct Arguments given";
  }
  return result;
}

std::string head(const Target& target) {
  switch (target.dialect) {
    case Dialect::vulkan: {
      std::string result = "#version 450\n";
      if (target.has_s64) result += "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
      if (target.has_u8) result += "#extension GL_EXT_shader_8bit_storage : require\n";
      return result + "#define PRECISE precise\n";
    }
    case Dialect::gles:
      return "#version 310 es\n"
             "#extension GL_EXT_gpu_shader5 : enable\n"
             "precision highp float;\n"
             "precision highp int;\n"
             "#ifdef GL_EXT_gpu_shader5\n"
             "#define PRECISE precise\n"
             "#else\n"
             "#define PRECISE\n"
             "#endif\n";
    case Dialect::opencl:
      return text(target.has_f64 ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "",
                  "#pragma OPENCL FP_CONTRACT OFF\n");
    default:
      return "";
  }
}

// The arrays in the workgroup's memory.
std::string Printer::declared_shared_memory() {
  const std::string qualifier = syntax_.is_glsl()                  ? "shared"
                                : target_.dialect == Dialect::cuda ? "__shared__"
                                                                   : "__local";
  std::string shared;
  const auto share = [&](std::string_view type, std::string_view array, std::int64_t elements) {
    shared += text(syntax_.is_glsl() ? "" : "  ", qualifier, " ", type, " ", array, "[", elements, "];\n");
    result_.parts.shared.push_back({std::string(type), std::string(array), elements});
  };
  for (const auto& [id, where] : scratch_of_) {
    if (where.is_shared) share(syntax_.type(kind(id)), where.name, where.elements);
  }
  if (product_) {
    for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
      share(syntax_.type(kind(product_->mma)), text("shared_", operand), blocking_.stride(operand) * blocking_.depth);
    }
  }
  if (uses_reduction_memory_) {
    share(syntax_.type(NumberKind::u32), "shared_low", group_);
    share(syntax_.type(NumberKind::u32), "shared_high", group_);
    share("int", "shared_place", group_);
  }
  return shared;
}

void Printer::assemble_source() {
  const std::string shared = declared_shared_memory();
  const std::string base = result_.has_scratch ? "  int scratch_base = group * arguments[1];\n" : "";
  std::string& source = result_.source;
  source = head(target_);
  if (target_.dialect == Dialect::vulkan) {
    for (const int number : result_.buffers) {
      result_.parts.elements.emplace_back(declared_element(program_.buffers[static_cast<std::size_t>(number)].type));
    }
    result_.parts.body = text("  ", arguments_, base, body_);
  }
  if (syntax_.is_glsl()) {
    source += text("layout(local_size_x = ", group_, ") in;\n", declared_buffers(), shared, functions(body_, target_),
                   "void main() {\n",
                   "  int lane = int(gl_LocalInvocationID.x);\n  int group = int(gl_WorkGroupID.y * gl_NumWorkGroups.x "
                   "+ gl_WorkGroupID.x);\n",
                   "  int groups = int(gl_NumWorkGroups.x * gl_NumWorkGroups.y);\n  ", arguments_, base, body_, "}\n");
    return;
  }
  const bool is_cuda = target_.dialect == Dialect::cuda;
  source += text("struct Arguments { int words[", result_.argument_words, "]; };\n", functions(body_, target_),
                 is_cuda ? "extern \"C\" __global__ void kernel_main("
                         : text("__kernel __attribute__((reqd_work_group_size(", group_, ", 1, 1))) void kernel_main("),
                 declared_buffers(), ") {\n  const int* arguments = given.words;\n", shared,
                 is_cuda ? "  int lane = threadIdx.x, group = blockIdx.x, groups = gridDim.x;\n  "
                         : "  int lane = (int)get_local_id(0), group = (int)get_group_id(0), groups = "
                           "(int)get_num_groups(0);\n  ",
                 arguments_, base, body_, "}\n");
}

}  // namespace tessera::compile::gpu
