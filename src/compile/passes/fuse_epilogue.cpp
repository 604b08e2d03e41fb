// A pointwise reader as the epilogue of a routine of the device, such as a matrix product.
#include "compile/passes/fusion.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <memory>

namespace tessera::compile {

using core::text;
using ir::Border;
using ir::Builder;
using ir::Code;
using ir::Id;
using ir::Op;
using ir::Program;

// The reader as a program for one row.
Program Fusion::row_program() const {
  const std::size_t column_axes = writer_.idiom.name == "conv2d" ? 2 : 1;
  std::vector<ir::Buffer> buffers;
  std::vector<int> numbers(reader_.buffers.size());
  const auto add = [&](std::size_t number) {
    const ir::Buffer& buffer = reader_.buffers[number];
    const std::span<const std::int64_t> dims = buffer.dims;
    const auto columns = dims.subspan(dims.size() - std::min(dims.size(), column_axes));
    const auto ones = static_cast<std::size_t>(std::ranges::count(columns, 1));
    if (ones != columns.size() && (ones != 0 || columns.size() != column_axes)) {
      refuse(text(reader_.name, " broadcasts ", buffer.name, " within a row"));
    }
    numbers[number] = static_cast<int>(buffers.size());
    buffers.push_back({buffer.name, buffer.type, {ones == columns.size() ? std::int64_t{1} : std::int64_t{-1}}});
  };
  add(0);
  if (buffers[0].dims[0] == 1) refuse("its rows have a single element");
  add(static_cast<std::size_t>(input_));
  for (std::size_t i = 1; i < reader_.buffers.size(); ++i) {
    if (static_cast<int>(i) != input_) add(i);
  }
  Builder make(reader_.name, buffers, reader_.scalars);
  ProgramCopy::Choices choices;
  choices.drops_broadcasts = true;
  choices.leaf = [&](const Op& op) { return op.code == Code::scalar ? make.scalar(op.index) : make.index(0); };
  choices.load = [&](const Op& op, const std::vector<Id>&) {
    const int number = numbers[static_cast<std::size_t>(op.index)];
    if (buffers[static_cast<std::size_t>(number)].dims[0] == 1) return make.load(number, {make.index(0)}, Border::zero);
    make.same_extent({number, 0, 0});
    const Id index = make.binary(Code::add, make.origin(0), make.iota({make.tile_dim(0)}, 0));
    return make.load(number, {index}, Border::zero);
  };
  const Id stored = make.broadcast(ProgramCopy(make, reader_, std::move(choices)).run(), make.tile_shape());
  return std::move(make).store(stored);
}

ir::Idiom Fusion::extended_idiom() const {
  const ir::Idiom& before = writer_.idiom;
  if (!before.epilogue && !writer_.scalars.empty()) refuse(text(writer_.name, " has scalar parameters"));
  const auto number_of = [&](int of_writer) {
    return of_writer == 0 ? 0 : inputs_[static_cast<std::size_t>(of_writer) - 1];
  };
  ir::Idiom idiom{before.name, before.numbers};
  if (before.inputs.empty()) {
    idiom.inputs = inputs_;
  } else {
    for (const int input : before.inputs) idiom.inputs.push_back(number_of(input));
  }
  Program row = row_program();
  std::vector<int> row_inputs = {0};  // the routine left its result in the output
  for (int i = 1; i < static_cast<int>(reader_.buffers.size()); ++i) {
    if (i != input_) row_inputs.push_back(i);
  }
  if (before.epilogue) {
    Fused both = fuse(row, 1, *before.epilogue, std::vector<int>(before.epilogue->buffers.size() - 1, -1));
    if (!both.program) refuse(both.reason);
    row = std::move(*both.program);
    for (const int input : before.epilogue_inputs) row_inputs.push_back(number_of(input));
    std::vector<int> used;
    for (const int number : drop_unused_buffers(row)) {
      if (number > 0) used.push_back(row_inputs[static_cast<std::size_t>(number) - 1]);
    }
    row_inputs = std::move(used);
  }
  idiom.epilogue = std::make_shared<const Program>(std::move(row));
  idiom.epilogue_inputs = std::move(row_inputs);
  return idiom;
}

}  // namespace tessera::compile
