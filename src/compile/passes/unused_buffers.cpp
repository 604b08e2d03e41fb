#include "compile/passes/fuse.hpp"

#include <algorithm>
#include <utility>

namespace tessera::compile {

using ir::Code;
using ir::Op;
using ir::Program;

std::vector<int> drop_unused_buffers(Program& program) {
  std::vector<bool> is_used(program.buffers.size());
  is_used[0] = true;
  for (const Op& op : program.ops) {
    if (op.code == Code::load || op.code == Code::dim) is_used[static_cast<std::size_t>(op.index)] = true;
  }
  std::vector<int> used, number(program.buffers.size(), -1);
  std::vector<ir::Buffer> buffers;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (!is_used[i]) continue;
    number[i] = static_cast<int>(used.size());
    used.push_back(static_cast<int>(i));
    buffers.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(buffers);
  for (Op& op : program.ops) {
    if (op.code == Code::load || op.code == Code::dim) op.index = number[static_cast<std::size_t>(op.index)];
  }
  std::erase_if(program.same_extents,
                [&](const ir::SameExtent& same) { return !is_used[static_cast<std::size_t>(same.buffer)]; });
  for (ir::SameExtent& same : program.same_extents) same.buffer = number[static_cast<std::size_t>(same.buffer)];
  for (int& input : program.idiom.inputs) input = number[static_cast<std::size_t>(input)];
  for (int& input : program.idiom.epilogue_inputs) input = number[static_cast<std::size_t>(input)];
  return used;
}

}  // namespace tessera::compile
