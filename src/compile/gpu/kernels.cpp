#include <tessera/error.hpp>

#include "compile/gpu/printer.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"

#include <algorithm>

namespace tessera::compile::gpu {

using core::text;
using ir::Code;
using ir::Id;
using ir::Type;

namespace {

// The tiles of a workgroup: along axes that must not be cut all of it, else so many that what is kept of a part and its
// neighbours fits the memory of a workgroup as a rule.
constexpr std::int64_t tile_rows = 8, tile_columns = 64;

// Of a reduction to fewer elements than this each is the work of a workgroup.
constexpr std::int64_t few_elements = 4096;
// A matrix with fewer rows or columns than this is no work for blocks.
constexpr std::int64_t least_block = 16;

Tiling tiles_of(const ir::Program& program) {
  if (!program.tile.empty()) return {program.tile};
  const std::vector<bool> whole = whole_axes(program);
  const bool reduces = std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); });
  Tiling tiling;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    const std::int64_t cut = axis + 1 == whole.size() ? tile_columns : axis + 2 == whole.size() ? tile_rows : 1;
    tiling.extents.push_back(whole[axis] ? 0 : reduces ? 1 : cut);
  }
  return tiling;
}

bool reads_wide(const ir::Program& program, const Tiling& tiling) {
  const Analysis analysis(program, tiling);
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (analysis.is_live[id] && analysis.is_materialised[id] && !is_reduction(program.ops[id].code)) return true;
    const bool is_loop = program.ops[id].code == Code::loop && analysis.is_live[id];
    if (is_loop && !analysis.is_inline_loop[id]) return true;
  }
  return false;
}

}  // namespace

bool needs_tiles(const ir::Program& program) {
  return !program.tile.empty() || sees_tiles(program) || reads_wide(program, tiles_of(program));
}

Tiling single_points(const ir::Program& program) {
  return {std::vector<std::int64_t>(program.buffers.front().dims.size(), 1)};
}

Choice choice_of(const ir::Program& program) {
  if (needs_tiles(program)) return Choice::none;
  if (std::ranges::any_of(program.ops, [](const ir::Op& op) { return is_reduction(op.code); }))
    return Choice::reduction;
  return product_of(program) ? Choice::product : Choice::none;
}

Form best_form(Choice choice, const ir::Program& program, const std::int64_t* dims) {
  const std::size_t rank = program.buffers.front().dims.size();
  switch (choice) {
    case Choice::reduction: {
      std::int64_t elements = 1;
      for (std::size_t axis = 0; axis < rank; ++axis) elements *= dims[axis];
      return elements < few_elements ? Form::few : Form::many;
    }
    case Choice::product:
      return std::min(dims[rank - 1], dims[rank - 2]) < least_block ? Form::few : Form::many;
    default:
      return Form::many;
  }
}

Printer::Printer(const ir::Program& program, const Target& target, Form form)
    : program_(program),
      target_(target),
      words_(target),
      tiling_(needs_tiles(program) ? tiles_of(program) : single_points(program)),
      analysis_(program, tiling_),
      kept_(kept_as(program, analysis_.is_live, target)) {
  const Choice choice = choice_of(program);
  has_stages_ = needs_tiles(program) || (form == Form::few && choice == Choice::reduction);
  if (form == Form::many && choice == Choice::product) {
    const Product product = *product_of(program);
    std::int64_t inner = 0;
    ir::is_constant(program, program[program[product.mma].operands[0]].shape.back(), inner);
    if (const std::optional<Blocking> blocking = blocking_of(target, kept(product.mma), inner)) {
      product_ = product;
      blocking_ = *blocking;
      const std::size_t rank = tiling_.extents.size();
      tiling_.extents[rank - 2] = blocking_.extent(0);
      tiling_.extents[rank - 1] = blocking_.extent(1);
    }
  }
  // Four neighbours at a time, where every point is computed from the same point of the inputs.
  const auto is_single = [](const ir::Buffer& buffer) { return buffer.rank() == 1; };
  has_quads_ = !has_stages_ && ir::is_pointwise(program) && std::ranges::all_of(program.buffers, is_single);
  known_.emplace_back();
}

// What an invocation does of so many pieces: one, there are as many invocations. The numbers of those behind the last
// piece may not fit into an int.
void Printer::open_share(const std::string& piece, const std::string& pieces) {
  if (words_.is_glsl()) {
    line(text("int ", piece, " = group * ", target_.group, " + lane;"));
    open(text("if (uint(", piece, ") < uint(", pieces, "))"));
  } else {
    line(text("int ", piece, " = (int)((unsigned)group * ", target_.group, "u + (unsigned)lane);"));
    open(text("if ((unsigned)", piece, " < (unsigned)", pieces, ")"));
  }
}

// Each invocation some points of the output.
void Printer::print_points() {
  const std::size_t rank = tiling_.extents.size();
  open_share("at", "pieces");
  tile_dims_.assign(rank, "1");
  origins_ = unravelled("at", dims_.front());
  blocks_ = origins_;
  const Id value = program_.stored();
  const Kept to = program_.buffers.front().type == Type::s64 ? Kept::s64 : kept(value);
  store_element("at", as(to, value, eval(value, Point(program_[value].shape.size(), "0"))));
  close();
}

// Whether a value is plain arithmetic of f32 that was read four at a time.
bool Printer::is_vector(Id id, std::set<Id>& known) const {
  const ir::Op& op = program_[id];
  if (op.type != Type::f32) return false;
  if (!known.insert(id).second) return true;
  switch (op.code) {
    case Code::load:
      return quads_.contains(op.index);
    case Code::broadcast:
    case Code::constant:
    case Code::scalar:
    case Code::neg:
    case Code::add:
    case Code::sub:
    case Code::mul:
    case Code::div:
    case Code::min:
    case Code::max:
      return std::ranges::all_of(op.operands, [&](Id operand) { return is_vector(operand, known); });
    default:
      return false;
  }
}

// Such a value at the four points, as one vector of OpenCL C. PoCL does not find that four statements are one: relu(a +
// b) * s over 64 MiB took 7.5 ms instead of 6.2 (by hand 6.0).
std::string Printer::vector_of(Id id, std::map<Id, std::string>& made) {
  if (const auto found = made.find(id); found != made.end()) return found->second;
  const ir::Op& op = program_[id];
  if (op.code == Code::load) return quads_.at(op.index);
  if (op.code == Code::broadcast) return vector_of(op.operands[0], made);
  std::string value;
  if (op.operands.empty()) {
    value = text("(float4)(", leaf(id, {}), ")");
  } else if (op.code == Code::neg) {
    value = text("-", vector_of(op.operands[0], made));
  } else {
    const std::string a = vector_of(op.operands[0], made), b = vector_of(op.operands[1], made);
    switch (op.code) {
      case Code::min:
        value = text("(", a, " < ", b, " | ", a, " != ", a, ") ? ", a, " : ", b);
        break;
      case Code::max:
        value = text("(", a, " > ", b, " | ", a, " != ", a, ") ? ", a, " : ", b);
        break;
      default:
        value = text(a,
                     op.code == Code::add   ? " + "
                     : op.code == Code::sub ? " - "
                     : op.code == Code::mul ? " * "
                                            : " / ",
                     b);
    }
  }
  const std::string variable = name("v");
  line(text("float4 ", variable, " = ", value, ";"));
  return made[id] = variable;
}

// Four neighbours at a time, read and written together; then those that are left.
void Printer::print_quads() {
  const Id value = program_.stored();
  const Type type = program_.buffers.front().type;
  const Kept to = type == Type::s64 ? Kept::s64 : kept(value);
  const Point point(program_[value].shape.size(), "0");
  line("int quads = pieces >> 2;");
  open_share("quad", "quads");
  for (std::size_t buffer = 1; buffer < program_.buffers.size(); ++buffer) {
    const Type of = program_.buffers[buffer].type;
    const auto number = static_cast<int>(buffer);
    // One that is repeated is read at its only place.
    const bool is_read = program_.buffers[buffer].dims.front() != 1 &&
                         std::ranges::find(result_.buffers, number) != result_.buffers.end();
    if (!is_read || (words_.is_glsl() && (of == Type::f64 || of == Type::s64))) continue;
    const std::string variable = name("q");
    std::string vector;
    if (words_.is_glsl()) {
      const char* types[] = {"vec4", "", "ivec4", "", "uvec4", "uint"};
      vector = types[static_cast<int>(of)];
      line(text(vector, " ", variable, " = b", buffer, "[quad];"));
    } else {
      const bool is_cuda = target_.dialect == Dialect::cuda;
      const char* types[] = {"float4", "double4", "int4", is_cuda ? "longlong4" : "long4", "uint4", "uchar4"};
      vector = types[static_cast<int>(of)];
      line(is_cuda ? text(vector, " ", variable, " = ((const ", vector, "*)b", buffer, ")[quad];")
                   : text(vector, " ", variable, " = ((__global const ", vector, "*)b", buffer, ")[quad];"));
    }
    quads_[number] = variable;
  }
  std::vector<std::string> stored;
  std::set<Id> known;
  const bool as_vector = target_.dialect == Dialect::opencl && type == Type::f32 && is_vector(value, known);
  for (component_ = 0; component_ < 4 && !as_vector; ++component_) {
    known_.emplace_back();
    origins_ = {component_ == 0 ? declare(Kept::s32, "quad * 4") : declare(Kept::s32, text("quad * 4 + ", component_))};
    blocks_ = origins_;
    tile_dims_ = {"1"};
    stored.push_back(as(to, value, eval(value, point)));
    known_.pop_back();
  }
  const auto four = [&](std::string_view of) {
    return text(of, "(", stored[0], ", ", stored[1], ", ", stored[2], ", ", stored[3], ")");
  };
  if (as_vector) {
    std::map<Id, std::string> made;
    const std::string vector = vector_of(value, made);
    line(text("((__global float4*)b0)[quad] = ", vector, ";"));
  } else if (words_.is_glsl()) {
    if (type == Type::f64 || type == Type::s64) {
      for (int i = 0; i < 4; ++i) line(text("b0[quad * 4 + ", i, "] = ", stored[static_cast<std::size_t>(i)], ";"));
    } else if (type == Type::u8) {
      line(text("b0[quad] = ", stored[0], " | (", stored[1], " << 8) | (", stored[2], " << 16) | (", stored[3],
                " << 24);"));
    } else {
      line(text("b0[quad] = ", four(type == Type::f32 ? "vec4" : type == Type::s32 ? "ivec4" : "uvec4"), ";"));
    }
  } else if (target_.dialect == Dialect::cuda) {
    const char* types[] = {"float4", "double4", "int4", "longlong4", "uint4", "uchar4"};
    const std::string vector = types[static_cast<int>(type)];
    line(text("((", vector, "*)b0)[quad] = ", four("make_" + vector), ";"));
  } else {
    const std::string_view element = words_.element(type);
    std::string list;
    for (const std::string& one : stored) list += text(list.empty() ? "" : ", ", "(", element, ")(", one, ")");
    line(text("vstore4((", element, "4)(", list, "), quad, b0);"));
  }
  close();
  quads_.clear();
  // The first workgroup's.
  open("if (group == 0 && lane < (pieces & 3))");
  line("int at = quads * 4 + lane;");
  origins_ = {"at"};
  blocks_ = origins_;
  tile_dims_ = {"1"};
  store_element("at", as(to, value, eval(value, point)));
  close();
}

// Of a buffer in GLSL.
std::string_view Printer::declared_element(Type type) const {
  if (type == Type::u8) return target_.has_u8 && !has_quads_ ? "uint8_t" : "uint";
  if (has_quads_ && type != Type::f64 && type != Type::s64) {
    return type == Type::f32 ? "vec4" : type == Type::s32 ? "ivec4" : "uvec4";
  }
  constexpr Kept as_kept[] = {Kept::f32, Kept::f64, Kept::s32, Kept::s64, Kept::u32};
  return words_.type(as_kept[static_cast<int>(type)]);
}

std::string Printer::declared_buffers() const {
  std::string result;
  int binding = 0;
  for (const int number : result_.buffers) {
    const Type type = program_.buffers[static_cast<std::size_t>(number)].type;
    if (words_.is_glsl()) {
      const char* set = target_.dialect == Dialect::vulkan ? "set = 0, " : "";
      result += text("layout(std430, ", set, "binding = ", binding, ") ", number == 0 ? "" : "readonly ", "buffer B",
                     number, " { ", declared_element(type), " b", number, "[]; };\n");
    } else {
      result += text(binding == 0 ? "" : ", ", target_.dialect == Dialect::cuda ? "" : "__global ",
                     number == 0 ? "" : "const ", words_.element(type), "* b", number);
    }
    ++binding;
  }
  if (result_.has_scratch) {
    if (words_.is_glsl()) {
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

namespace {

// The output, and what is read.
std::vector<int> used_buffers(const ir::Program& program, const std::vector<bool>& is_live) {
  std::set<int> used = {0};
  for (std::size_t id = 0; id < program.ops.size(); ++id) {
    if (is_live[id] && program.ops[id].code == Code::load) used.insert(program.ops[id].index);
  }
  return {used.begin(), used.end()};
}

void check_buffers(const ir::Program& program, const Target& target, std::size_t given) {
  const auto most = static_cast<std::size_t>(target.most_buffers);
  if (given <= most) return;
  throw Error(Errc::unsupported, text("[", program.name, "] uses ", given, " buffers at once, and ", full_name(target),
                                      " takes at most ", most));
}

}  // namespace

Kernel Printer::print() {
  result_.group = target_.group;
  result_.tiling = tiling_;
  result_.points = has_stages_ || product_ ? 0 : has_quads_ ? 4 : 1;
  result_.buffers = used_buffers(program_, analysis_.is_live);
  result_.is_written.assign(result_.buffers.size(), false);
  result_.is_written.front() = true;

  // The arguments: pieces of work, words of scratch memory a workgroup, extents, scalars.
  int word = 2;
  std::string arguments = "int pieces = arguments[0];\n";
  for (std::size_t buffer = 0; buffer < program_.buffers.size(); ++buffer) {
    dims_.emplace_back();
    for (std::size_t axis = 0; axis < program_.buffers[buffer].dims.size(); ++axis) {
      const std::int64_t known = program_.buffers[buffer].dims[axis];
      const int at = word++;
      if (known >= 0) {
        dims_.back().push_back(std::to_string(known));
      } else {
        dims_.back().push_back(text("d", buffer, "_", axis));
        arguments += text("  int d", buffer, "_", axis, " = arguments[", at, "];\n");
      }
    }
  }
  std::vector<bool> is_used(program_.scalars.size());
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    const ir::Op& op = program_.ops[id];
    if (analysis_.is_live[id] && op.code == Code::scalar) is_used[static_cast<std::size_t>(op.index)] = true;
  }
  for (std::size_t number = 0; number < program_.scalars.size(); ++number) {
    const Type type = program_.scalars[number].type;
    const std::string low = words_.cast(Kept::u32, text("arguments[", word, "]"));
    const std::string high = words_.cast(Kept::u32, text("arguments[", word + 1, "]"));
    word += 2;
    scalars_.push_back(text("scalar", number));
    if (!is_used[number]) continue;
    const Kept as_kept[] = {Kept::f32, Kept::f64, Kept::s32, Kept::s64, Kept::u32, Kept::u32, Kept::boolean};
    const Kept of = as_kept[static_cast<int>(type)];
    arguments += text("  ", words_.variable(of), " scalar", number, " = ", words_.from_bits(of, low, high), ";\n");
  }
  result_.argument_words = word;
  if (has_far_places(program_, target_)) result_.most_elements = longest_axis;
  result_.has_push_constants = target_.dialect == Dialect::vulkan && word * 4 <= target_.push_bytes;

  if (product_) {
    print_blocks();
  } else if (has_stages_) {
    print_tiles();
  } else if (has_quads_) {
    print_quads();
  } else {
    print_points();
  }

  const bool has_argument_buffer = target_.dialect == Dialect::vulkan && !result_.has_push_constants;
  check_buffers(program_, target_, result_.buffers.size() + result_.has_scratch + has_argument_buffer);

  const std::string qualifier = words_.is_glsl()                   ? "shared"
                                : target_.dialect == Dialect::cuda ? "__shared__"
                                                                   : "__local";
  std::string shared;
  const auto share = [&](std::string_view type, std::string_view array, std::int64_t elements) {
    shared += text(words_.is_glsl() ? "" : "  ", qualifier, " ", type, " ", array, "[", elements, "];\n");
    result_.parts.shared.push_back({std::string(type), std::string(array), elements});
  };
  for (const auto& [id, where] : scratch_of_) {
    if (where.is_shared) share(words_.type(kept(id)), where.name, where.elements);
  }
  if (product_) {
    for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
      share(words_.type(kept(product_->mma)), text("shared_", operand), blocking_.stride(operand) * blocking_.depth);
    }
  }
  if (uses_reduction_memory_) {
    share(words_.type(Kept::u32), "shared_low", target_.group);
    share(words_.type(Kept::u32), "shared_high", target_.group);
    share("int", "shared_place", target_.group);
  }
  const std::string base = result_.has_scratch ? "  int scratch_base = group * arguments[1];\n" : "";
  std::string& source = result_.source;
  source = head(target_);
  if (target_.dialect == Dialect::vulkan) {
    for (const int number : result_.buffers) {
      result_.parts.elements.emplace_back(declared_element(program_.buffers[static_cast<std::size_t>(number)].type));
    }
    result_.parts.body = text("  ", arguments, base, body_);
  }
  if (words_.is_glsl()) {
    source += text("layout(local_size_x = ", target_.group, ") in;\n", declared_buffers(), shared,
                   functions(body_, target_), "void main() {\n",
                   "  int lane = int(gl_LocalInvocationID.x);\n  int group = int(gl_WorkGroupID.y * gl_NumWorkGroups.x "
                   "+ gl_WorkGroupID.x);\n",
                   "  int groups = int(gl_NumWorkGroups.x * gl_NumWorkGroups.y);\n  ", arguments, base, body_, "}\n");
  } else {
    const bool is_cuda = target_.dialect == Dialect::cuda;
    source += text(
        "struct Arguments { int words[", word, "]; };\n", functions(body_, target_),
        is_cuda ? "extern \"C\" __global__ void kernel_main("
                : text("__kernel __attribute__((reqd_work_group_size(", target_.group, ", 1, 1))) void kernel_main("),
        declared_buffers(), ") {\n  const int* arguments = given.words;\n", shared,
        is_cuda ? "  int lane = threadIdx.x, group = blockIdx.x, groups = gridDim.x;\n  "
                : "  int lane = (int)get_local_id(0), group = (int)get_group_id(0), groups = "
                  "(int)get_num_groups(0);\n  ",
        arguments, base, body_, "}\n");
  }
  return std::move(result_);
}

Kernel print(const ir::Program& program, const Target& target, Form form) {
  return Printer(program, target, form).print();
}

void check(const ir::Program& program, const Target& target) {
  for (const ir::Buffer& buffer : program.buffers) {
    const bool is_missing =
        (buffer.type == Type::f64 && !target.has_f64) || (buffer.type == Type::s64 && !target.has_s64);
    if (!is_missing) continue;
    throw Error(Errc::unsupported, text("[", program.name, "] ", buffer.name, " is ", ir::to_string(buffer.type),
                                        ", which ", full_name(target), " does not have"));
  }
  const std::vector<bool> is_live = Analysis(program, single_points(program)).is_live;
  check_buffers(program, target, used_buffers(program, is_live).size());
  kept_as(program, is_live, target);
}

}  // namespace tessera::compile::gpu
