#include "plan/call_cache.hpp"

#include <tessera/error.hpp>

#include "compile/compile.hpp"
#include "core/text.hpp"
#include "ir/analysis.hpp"
#include "ir/cost.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

namespace tessera::plan {

namespace {

using core::text;
using kernels::Argument;
using kernels::Call;
using kernels::Kernel;
using kernels::Lowering;
using kernels::Operand;

using Dims = std::vector<std::vector<std::int64_t>>;

// Calls of ever new sizes must not fill the memory.
constexpr std::size_t most_known = 4096;

bool is_uniform(std::span<const Operand> operands) {
  const Operand& first = operands[0];
  return std::ranges::all_of(operands.subspan(1), [&](const Operand& operand) {
    return operand.dtype == first.dtype && *operand.shape == *first.shape;
  });
}

// A map key, as bytes.
class Key {
 public:
  explicit Key(std::string& bytes) : bytes_(bytes) { bytes_.clear(); }
  void add(std::int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add(std::string_view name) {
    add(static_cast<std::int64_t>(name.size()));
    bytes_.append(name);
  }
  template <class Numbers>
  void add_all(const Numbers& numbers) {
    add(std::distance(numbers.begin(), numbers.end()));
    for (std::int64_t number : numbers) add(number);
  }
  void add(DType dtype) { add(static_cast<std::int64_t>(dtype)); }

 private:
  std::string& bytes_;
};

void add(Key& key, const Argument& argument) {
  key.add(argument.is_given ? 1 : 0);
  if (argument.value->is_string()) {
    key.add(argument.value->string());
  } else if (argument.value->is_list()) {
    key.add(to_string(*argument.value));
  } else {
    key.add(argument.integer);
    key.add(std::bit_cast<std::int64_t>(argument.number));  // -0 is not 0
  }
}

// Everything that distinguishes a call, in a thread-local string.
const std::string& key_of(const Call& call) {
  thread_local std::string bytes;
  Key key(bytes);
  key.add(static_cast<std::int64_t>(call.kernel.number));
  key.add(call.output.dtype);
  key.add_all(*call.output.shape);
  for (const Operand& input : call.inputs) {
    key.add(input.dtype);
    key.add_all(*input.shape);
  }
  for (const Argument& argument : call.arguments) add(key, argument);
  key.add_all(call.tile);
  return bytes;
}

// The extents that are compiled into the program: those of 1 and those that the plan fixes. For a pointwise plan it
// only matters whether an input is broadcast: an output of one element is like any other.
Dims program_dims(const std::vector<Shape>& shapes, const Lowering& lowering, bool is_pointwise) {
  const bool is_single = shapes[0].elements() == 1;
  Dims dims;
  for (const Shape& shape : shapes) {
    std::vector<std::int64_t>& known = dims.emplace_back();
    for (std::int64_t extent : shape) known.push_back(extent == 1 && !(is_pointwise && is_single) ? 1 : -1);
  }
  for (const auto& [buffer, axis] : lowering.fixed) {
    dims[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(axis)] =
        shapes[static_cast<std::size_t>(buffer)][axis];
  }
  return dims;
}

void check_same_extents(const Call& call, const std::vector<Shape>& shapes,
                        const std::vector<ir::SameExtent>& same_extents) {
  for (const ir::SameExtent& same : same_extents) {
    const Shape& shape = shapes[static_cast<std::size_t>(same.buffer)];
    if (shape[same.axis] == same.factor * shapes[0][same.output_axis]) continue;
    const auto input = static_cast<std::size_t>(same.buffer) - 1;
    throw Error(Errc::shape_mismatch,
                text(kernels::describe_input(call, input), " must broadcast to ",
                     to_string(call.output.dtype, shapes[0]), ", got ", to_string(call.inputs[input].dtype, shape)));
  }
}

std::int64_t bytes_of(const Call& call) {
  const auto bytes = [](const Operand& operand) {
    return static_cast<std::int64_t>(operand.shape->size_bytes(operand.dtype));
  };
  std::int64_t sum = bytes(call.output);
  for (const Operand& input : call.inputs) sum += bytes(input);
  return sum;
}

std::vector<std::int64_t> flat(const std::vector<Shape>& shapes) {
  std::vector<std::int64_t> dims;
  for (const Shape& shape : shapes) dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

// The program of a call over merged axes; nothing if the kernel's body needs the call's own axes.
std::optional<ir::Program> trace_merged(const Call& call, const Lowering& lowering) {
  std::vector<Shape> shapes = lowering.shapes;
  kernels::merge_axes(shapes);
  try {
    return kernels::trace(call, lowering, program_dims(shapes, lowering, true));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The same program over merged axes if it is pointwise, else unchanged. The merged program is used only if it is the
// same computation: the kernel's body may depend on the rank.
ir::Program merged(const Call& call, const Lowering& lowering, ir::Program program, bool* is_merged) {
  *is_merged = false;
  if (!ir::is_pointwise(program)) return program;
  std::optional<ir::Program> simpler = trace_merged(call, lowering);
  if (!simpler || !ir::is_pointwise(*simpler) || !ir::is_same_pointwise(program, *simpler)) return program;
  *is_merged = true;
  return *std::move(simpler);
}

}  // namespace

CallCache::~CallCache() {
  for (std::atomic<Block*>& block : ready_) delete block.load(std::memory_order_relaxed);
}

const CallCache::Ready* CallCache::ready(const Kernel& kernel, DType dtype) const noexcept {
  if (kernel.number >= blocks * block_size) return nullptr;
  const Block* block = ready_[kernel.number / block_size].load(std::memory_order_acquire);
  if (!block) return nullptr;
  return (*block)[kernel.number % block_size][static_cast<std::size_t>(dtype)].load(std::memory_order_acquire);
}

void CallCache::set_ready(const Kernel& kernel, DType dtype, Ready entry) {
  if (kernel.number >= blocks * block_size) return;
  const std::scoped_lock lock(mutex_);
  std::atomic<Block*>& block = ready_[kernel.number / block_size];
  if (!block.load(std::memory_order_relaxed)) block.store(new Block(), std::memory_order_release);
  std::atomic<const Ready*>& slot =
      (*block.load(std::memory_order_relaxed))[kernel.number % block_size][static_cast<std::size_t>(dtype)];
  if (slot.load(std::memory_order_relaxed)) return;
  ready_entries_.push_back(std::make_unique<const Ready>(std::move(entry)));
  slot.store(ready_entries_.back().get(), std::memory_order_release);
}

const CallProgram& CallCache::resolve(const Kernel& kernel, std::span<const Operand> operands,
                                      const kernels::ParamsView& params, driver::Launch& launch,
                                      std::span<const std::int64_t> tile) {
  kernel.check_count(operands.size() - 1);
  if (!tile.empty()) kernels::check_tile(kernel, operands[0], tile);
  kernels::Arguments arguments;
  kernel.bind(params, arguments);
  if (is_uniform(operands)) {
    const Shape& shape = *operands[0].shape;
    const Ready* entry = ready(kernel, operands[0].dtype);
    if (entry && (entry->rank < 0 || entry->rank == shape.rank())) [[likely]] {
      launch.executable = entry->program->executable;
      for (std::size_t i = 0; i < operands.size(); ++i) launch.dims.push_back(shape.elements());
      for (const Ready::Scalar& scalar : entry->scalars) {
        launch.scalars.push_back(kernels::scalar_bits(scalar.dtype, arguments[scalar.param]));
      }
      launch.cost = launch.bytes * entry->weight;
      return *entry->program;
    }
  }
  return resolve_known({kernel, operands.subspan(1), operands[0], {arguments.data(), arguments.size()}, tile}, launch);
}

const CallProgram& CallCache::resolve_known(const Call& call, driver::Launch& launch) {
  const std::string& key = key_of(call);
  std::shared_ptr<const Known> known;
  {
    const std::scoped_lock lock(known_lock_);
    if (const auto found = known_.find(key); found != known_.end()) known = found->second;
  }
  if (!known) {
    known = plan(call);
    std::string stored_key = key_of(call);  // again: the kernel's body may have called kernels itself
    KnownCalls forgotten;                   // destroyed after the lock is released
    const std::scoped_lock lock(known_lock_);
    if (known_.size() >= most_known) forgotten.swap(known_);
    known_.emplace(std::move(stored_key), known);
  }
  launch.executable = known->program->executable;
  for (std::int64_t dim : known->dims) launch.dims.push_back(dim);
  for (std::uint64_t bits : known->scalars) launch.scalars.push_back(bits);
  launch.cost = known->cost;
  return *known->program;
}

std::shared_ptr<const CallCache::Known> CallCache::plan(const Call& call) {
  Lowering lowering = call.kernel.lower(call);
  if (!call.tile.empty() && lowering.is_user_code && program_of(call, lowering).sees_tiles) {
    lowering.tile.assign(call.tile.begin(), call.tile.end());
  }
  if (!lowering.tile.empty())
    lowering.is_pointwise = lowering.is_user_code = false;  // the caller's tiles have the call's axes
  if (lowering.is_pointwise) kernels::merge_axes(lowering.shapes);
  const CallProgram& program = program_of(call, lowering);
  check_same_extents(call, lowering.shapes, program.same_extents);
  note_ready(call, lowering, program);
  if (program.is_merged && !lowering.is_pointwise) kernels::merge_axes(lowering.shapes);

  auto known = std::make_shared<Known>();
  known->program = &program;
  known->dims = flat(lowering.shapes);
  known->cost = ir::cost(program.program, known->dims, bytes_of(call));
  for (const Lowering::Scalar& scalar : lowering.scalars) known->scalars.push_back(scalar.bits());
  return known;
}

const CallProgram& CallCache::program_of(const Call& call, const Lowering& lowering) {
  std::string bytes;
  Key key(bytes);
  key.add(static_cast<std::int64_t>(call.kernel.number));
  key.add(call.output.dtype);
  for (const Operand& input : call.inputs) key.add(input.dtype);
  for (const auto& dims : program_dims(lowering.shapes, lowering, lowering.is_pointwise)) key.add_all(dims);
  key.add_all(lowering.tile);
  key.add(lowering.variant);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = programs_.find(bytes); found != programs_.end()) return *found->second;
  }
  // Without the lock: the kernel's body may take long and may call kernels itself. Two threads may both get here; the
  // driver recognizes that the program is the same.
  std::unique_ptr<CallProgram> made = make_program(call, lowering);
  const std::scoped_lock lock(mutex_);
  return *programs_.try_emplace(std::move(bytes), std::move(made)).first->second;
}

std::unique_ptr<CallProgram> CallCache::make_program(const Call& call, const Lowering& lowering) {
  auto made = std::make_unique<CallProgram>();
  made->is_merged = lowering.is_pointwise;
  ir::Program program = kernels::trace(call, lowering, program_dims(lowering.shapes, lowering, lowering.is_pointwise));
  made->same_extents = program.same_extents;
  made->sees_tiles = compile::sees_tiles(program);
  check_same_extents(call, lowering.shapes, made->same_extents);
  if (lowering.is_user_code) program = merged(call, lowering, std::move(program), &made->is_merged);
  for (std::size_t i = 0; i < call.inputs.size() && i < 64; ++i) {
    if (ir::reads_in_place(program, static_cast<int>(i) + 1)) made->in_place |= std::uint64_t{1} << i;
  }
  made->executable = &driver_.compile(program);
  made->program = std::move(program);
  return made;
}

// Makes later calls that differ only in scalars and shape *ready*, if they need no lowering.
void CallCache::note_ready(const Call& call, const Lowering& lowering, const CallProgram& program) {
  if (!program.is_merged || !(lowering.only_scalars_vary || call.kernel.params.empty())) return;
  const Operand& output = call.output;
  for (const Operand& input : call.inputs) {
    if (input.dtype != output.dtype || *input.shape != *output.shape) return;
  }
  Ready entry;
  entry.program = &program;
  // All operands are alike, so the cost grows with their size: of any size, it is this much a byte.
  constexpr std::int64_t elements = 1024;
  const std::vector<std::int64_t> dims(program.program.buffers.size(), elements);
  const auto bytes = elements * static_cast<std::int64_t>(dims.size() * size_of(output.dtype));
  const std::int64_t cost = ir::cost(program.program, dims, bytes);
  if (cost == ir::unlimited) return;
  entry.weight = (cost + bytes - 1) / bytes;
  if (lowering.is_user_code) entry.rank = output.shape->rank();
  for (const Lowering::Scalar& scalar : lowering.scalars) {
    const auto spec = std::ranges::find(call.kernel.params, scalar.name, &kernels::ParamSpec::name);
    if (spec == call.kernel.params.end()) return;
    entry.scalars.push_back({static_cast<std::size_t>(spec - call.kernel.params.begin()), scalar.dtype});
  }
  set_ready(call.kernel, output.dtype, std::move(entry));
}

void check_alias(const CallProgram& program, std::string_view label, std::size_t input, const kernels::Operand& read,
                 const kernels::Operand& written) {
  const bool is_in_place = program.may_be_in_place(input);
  if (is_in_place && *read.shape == *written.shape && read.dtype == written.dtype) return;
  throw Error(Errc::invalid_argument,
              core::text(label.empty() ? "" : core::text("[", label, "] "), "output must not be input ", input, ": ",
                         is_in_place ? core::text("it is read as ", to_string(read.dtype, *read.shape),
                                                  " and written as ", to_string(written.dtype, *written.shape))
                                     : "the kernel reads neighbouring elements"));
}

}  // namespace tessera::plan
