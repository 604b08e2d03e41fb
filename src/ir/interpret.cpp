#include "ir/interpret.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "ir/evaluate.hpp"
#include "ir/extents.hpp"
#include "ir/rules.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tessera::ir {

namespace {

class Interpreter {
 public:
  Interpreter(const Program& program, std::span<std::byte* const> buffers, const std::int64_t* dims,
              const std::uint64_t* scalars, std::span<const std::int64_t> tile_extents)
      : program_(program),
        buffers_(buffers),
        scalars_(scalars),
        values_(program.ops.size()),
        results_(program.regions.size()) {
    for (const Buffer& buffer : program.buffers) {
      dims_.emplace_back(dims, static_cast<std::size_t>(buffer.rank()));
      dims += buffer.rank();
    }
    for (std::size_t axis = 0; axis < dims_[0].size(); ++axis)
      tile_.push_back(tile_extents[axis] == 0 ? dims_[0][axis] : tile_extents[axis]);
    find_last_uses();
  }

  void run(std::int64_t tile) {
    go_to(tile);
    run(program_.body());
  }

 private:
  void find_last_uses();
  void go_to(std::int64_t tile);
  void run(const Region& region);
  void run_loop(const Op& op);
  void store(const Op& op);
  Value evaluate(const Op& op);
  Value leaf(const Op& op);

  Value& value(Id id) { return values_[static_cast<std::size_t>(id)]; }
  std::int64_t number(Id id) { return *value(id)->data<std::int64_t>(); }
  Dims dims_of(const Op& op) {
    Dims dims;
    for (const Id extent : op.shape) dims.push_back(std::max<std::int64_t>(0, number(extent)));
    return dims;
  }

  const Program& program_;
  std::span<std::byte* const> buffers_;
  const std::uint64_t* scalars_;
  std::vector<std::span<const std::int64_t>> dims_;
  Dims tile_;   // extents of the tile
  Dims block_;  // its number along each axis
  std::vector<Value> values_;
  std::vector<std::vector<Value>> results_;  // by region: those of the loop whose body it is
  std::vector<std::vector<Id>> done_after_;  // by op: the values that no later op of the same region uses
};

void Interpreter::find_last_uses() {
  std::vector<Id> last(program_.ops.size());
  const auto use = [&](Id used, int region, Id user) {
    // For the region of the value, the user is the loop that contains the op.
    while (region != program_[used].region) {
      user = program_.regions[static_cast<std::size_t>(region)].loop;
      region = program_.regions[static_cast<std::size_t>(region)].parent;
    }
    last[static_cast<std::size_t>(used)] = std::max(last[static_cast<std::size_t>(used)], user);
  };
  for (Id id = 0; id < static_cast<Id>(program_.ops.size()); ++id) {
    const Op& op = program_[id];
    use(id, op.region, id);
    for (const Id operand : op.operands) use(operand, op.region, id);
    for (const Id extent : op.shape) use(extent, op.region, id);
  }
  for (int region = 1; region < static_cast<int>(program_.regions.size()); ++region) {
    const Region& body = program_.regions[static_cast<std::size_t>(region)];
    for (const Id result : body.results) use(result, region, body.loop);
  }
  done_after_.resize(program_.ops.size());
  for (Id id = 0; id < static_cast<Id>(program_.ops.size()); ++id)
    done_after_[static_cast<std::size_t>(last[static_cast<std::size_t>(id)])].push_back(id);
}

void Interpreter::go_to(std::int64_t tile) {
  block_.assign(tile_.size(), 0);
  for (std::size_t axis = tile_.size(); axis-- > 0;) {
    const std::int64_t count = (dims_[0][axis] + tile_[axis] - 1) / tile_[axis];
    block_[axis] = tile % count;
    tile /= count;
  }
}

void Interpreter::run(const Region& region) {
  for (const Id id : region.ops) {
    const Op& op = program_[id];
    if (op.code == Code::loop)
      run_loop(op);
    else if (op.code == Code::store)
      store(op);
    else
      value(id) = evaluate(op);
    for (const Id done : done_after_[static_cast<std::size_t>(id)]) value(done).reset();
  }
}

void Interpreter::run_loop(const Op& op) {
  const Region& body = program_.regions[static_cast<std::size_t>(op.index)];
  std::vector<Value> carried;
  for (std::size_t i = 1; i < op.operands.size(); ++i) carried.push_back(value(op.operands[i]));
  const std::int64_t count = number(op.operands[0]);
  for (std::int64_t k = 0; k < count; ++k) {
    value(body.arguments[0]) = single(k);
    for (std::size_t i = 0; i < carried.size(); ++i) value(body.arguments[i + 1]) = std::move(carried[i]);
    run(body);
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = value(body.results[i]);
  }
  results_[static_cast<std::size_t>(op.index)] = std::move(carried);
}

Value Interpreter::leaf(const Op& op) {
  const auto axis = static_cast<std::size_t>(op.axis);
  switch (op.code) {
    case Code::constant:
      return constant(op);
    case Code::scalar:
      return scalar(op.type, scalars_[op.index]);
    case Code::dim:
      return single(dims_[static_cast<std::size_t>(op.index)][axis]);
    case Code::tile_dim:
      return single(tile_[axis]);
    case Code::origin:
      return single(block_[axis] * tile_[axis]);
    case Code::block:
      return single(block_[axis]);
    default:
      return iota(dims_of(op), op.axis);
  }
}

Value Interpreter::evaluate(const Op& op) {
  if (op.code <= Code::iota) return leaf(op);
  const Dims dims = dims_of(op);
  if (op.code == Code::result)
    return results_[static_cast<std::size_t>(program_[op.operands[0]].index)][static_cast<std::size_t>(op.index)];
  std::vector<Value> operands;
  operands.reserve(op.operands.size());
  for (const Id operand : op.operands) operands.push_back(value(operand));
  if (is_pointwise(op.code)) {
    for (Value& operand : operands) operand = expanded(operand, dims);
    return pointwise(op, operands);
  }
  if (is_reduction(op.code)) return reduce(op, *operands[0]);
  switch (op.code) {
    case Code::load: {
      const auto buffer = static_cast<std::size_t>(op.index);
      return load(op, buffers_[buffer], dims_[buffer], operands, dims);
    }
    case Code::broadcast:
      return expanded(operands[0], dims);
    case Code::reshape:
      return reshape(operands[0], dims);
    case Code::transpose:
      return transpose(*operands[0], op.list);
    case Code::slice:
      return slice(*operands[0], std::span<const Value>(operands).subspan(1), dims);
    case Code::pick: {
      const std::size_t rank = operands.size() / 3;
      const std::span<const Value> all = operands;
      return pick(op, *operands[0], all.subspan(1, rank), all.subspan(1 + rank, rank), all.subspan(1 + 2 * rank), dims);
    }
    default:
      return mma(operands[0], operands[1], operands[2]);
  }
}

void Interpreter::store(const Op& op) {
  const Value from = expanded(value(op.operands[0]), tile_);
  const std::span<const std::int64_t> to = dims_[0];
  const Dims strides = strides_of(to);
  const std::size_t element = static_cast<std::size_t>(bits_of(op.type)) / 8;
  // The part of the tile inside the output.
  Dims inside;
  std::int64_t begin = 0;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    const std::int64_t origin = block_[axis] * tile_[axis];
    inside.push_back(std::min(tile_[axis], to[axis] - origin));
    begin += origin * strides[axis];
  }
  const Value cut = inside == tile_ ? from : picked(*from, inside, strides_of(tile_));
  const std::size_t bytes = static_cast<std::size_t>(inside.empty() ? 1 : inside.back()) * element;
  for_each_row(inside, strides, [&](std::int64_t row, std::int64_t at) {
    std::memcpy(buffers_[0] + static_cast<std::size_t>(begin + at) * element,
                cut->data<std::byte>() + static_cast<std::size_t>(row) * element, bytes);
  });
}

}  // namespace

void interpret(const Program& program, std::span<std::byte* const> buffers, const std::int64_t* dims,
               const std::uint64_t* scalars, std::span<const std::int64_t> tile_extents, std::int64_t first,
               std::int64_t last) {
  if (first >= last) return;
  if (const ExtentChecks checks(program, tile_extents); !checks.empty()) checks.run(program, dims);
  try {
    Interpreter interpreter(program, buffers, dims, scalars, tile_extents);
    for (std::int64_t tile = first; tile < last; ++tile) interpreter.run(tile);
  } catch (const std::bad_alloc&) {
    throw Error(Errc::out_of_memory, core::text("[", program.name, "] its tiles do not fit in memory"));
  }
}

}  // namespace tessera::ir
