#include "operation/recorder.hpp"

#include <tessera/error.hpp>
#include <tessera/tile.hpp>

#include "api/kernel_call.hpp"
#include "core/text.hpp"
#include "engine/stream_state.hpp"
#include "kernels/kernel.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

namespace tessera::detail {

using core::text;
using plan::GraphBuffer;

namespace {

// Calls that are planned together at most: planning takes longer than linear time, and code should fit the caches.
constexpr std::size_t most_calls = 128;
// Memory that a graph pins, of the device's limit, before it is cut and run.
constexpr std::size_t share_of_limit = 8;
// Temporaries of a plan that are kept for its next run; larger ones go back to the pool each time.
constexpr std::size_t kept_bytes = 65'536;
constexpr std::size_t most_plans = 256;

core::FailurePtr failure_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error.failure();
  } catch (const std::exception& error) {
    return core::make_failure(Errc::internal, error.what());
  } catch (...) {
    return core::make_failure(Errc::internal, "something that is no std::exception was thrown");
  }
}

}  // namespace

// Writes a key, over the one that was there: a key has some hundred words, of which each is one store.
class KeyWriter {
 public:
  explicit KeyWriter(OperationCache::Key& key) : key_(key) { key_.resize(key_.capacity()); }
  ~KeyWriter() { key_.resize(size_); }
  KeyWriter(const KeyWriter&) = delete;
  KeyWriter& operator=(const KeyWriter&) = delete;

  void add(std::uint64_t number) {
    if (size_ == key_.size()) grow();
    key_[size_++] = number;
  }
  void add(std::string_view characters) {
    add(characters.size());
    for (; !characters.empty(); characters.remove_prefix(std::min(characters.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, characters.data(), std::min(characters.size(), sizeof word));
      add(word);
    }
  }
  void add(const Shape& shape) {
    add(static_cast<std::uint64_t>(shape.rank()));
    for (const std::int64_t extent : shape) add(static_cast<std::uint64_t>(extent));
  }
  void add(const Value& value) {
    if (value.is_integer()) {
      add(1);
      add(static_cast<std::uint64_t>(value.integer()));
    } else if (value.is_number()) {
      add(2);
      add(std::bit_cast<std::uint64_t>(value.number()));  // -0 is not 0
    } else if (value.is_bool()) {
      add(value.boolean() ? 3 : 4);
    } else if (value.is_list()) {
      add(5);
      add(value.items().size());
      for (const Value& item : value.items()) add(item);
    } else {
      add(6);
      add(std::string_view(to_string(value)));
    }
  }

 private:
  [[gnu::noinline]] void grow() { key_.resize(std::max<std::size_t>(64, 2 * size_)); }

  OperationCache::Key& key_;
  std::size_t size_ = 0;
};

void set_tile(const KernelWork& work, std::vector<std::int64_t>& tile) {
  tile.clear();
  if (!work.grid) {
    if (work.tile) tile.assign(work.tile->begin(), work.tile->end());
    return;
  }
  const Shape &shape = work.output->shape(), &grid = *work.grid;
  const std::string_view name = work.kernel ? work.kernel->name : work.name;
  if (shape.rank() != grid.rank()) {
    throw Error(Errc::shape_mismatch, text("[", name, "] a grid of ", to_string(grid), " does not fit the output, ",
                                           to_string(shape), ": it has another number of axes"));
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (grid[axis] < 1) {
      throw Error(Errc::invalid_argument, text("[", name, "] a grid of ", to_string(grid), " has no tiles"));
    }
    tile.push_back(std::max<std::int64_t>(1, (shape[axis] + grid[axis] - 1) / grid[axis]));
  }
}

std::size_t OperationCache::Hash::operator()(const Key& key) const noexcept {
  // Two sums that do not wait for each other: keys have some hundred words.
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;
  std::uint64_t even = key.size(), odd = 0;
  std::size_t i = 0;
  for (; i + 1 < key.size(); i += 2) {
    even = std::rotl((even ^ key[i]) * factor, 29);
    odd = std::rotl((odd ^ key[i + 1]) * factor, 31);
  }
  if (i < key.size()) even = std::rotl((even ^ key[i]) * factor, 29);
  return (even ^ std::rotl(odd, 32)) * factor;
}

std::shared_ptr<const OperationPlan> OperationCache::find(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second.last_use = ++uses_;
  return found->second.plan;
}

void OperationCache::add(const Key& key, std::shared_ptr<const OperationPlan> plan) {
  decltype(plans_)::node_type forgotten;  // goes after the lock
  const std::scoped_lock lock(mutex_);
  if (plans_.size() >= most_plans) {
    const auto last_use = [](const auto& entry) { return entry.second.last_use; };
    forgotten = plans_.extract(std::ranges::min_element(plans_, {}, last_use));
  }
  plans_.insert_or_assign(key, Entry{std::move(plan), ++uses_});
}

std::shared_ptr<OperationCache> OperationCache::of(engine::DeviceState& device) {
  static const char key = 0;
  if (std::shared_ptr<void> kept = device.attachments.get(&key)) return std::static_pointer_cast<OperationCache>(kept);
  auto made = std::make_shared<OperationCache>();
  for (Stream& stream : made->streams)
    stream = Access::make<Stream>(Ref<engine::StreamState>::adopt(new engine::StreamState(device, {})));
  return std::static_pointer_cast<OperationCache>(device.attachments.put(&key, std::move(made)));
}

void Recorder::open(engine::DeviceState& device, const Stream& stream, const std::shared_ptr<Recorder>& self) {
  device_ = &device;
  stream_ = stream;
  self_ = self;
}

void Recorder::close() noexcept {
  settle(nullptr);
  stream_ = {};
  commands_.clear();
  failure_ = nullptr;
}

const std::shared_ptr<Recorder>& Recorder::self() {
  if (!held_self_) held_self_ = self_.lock();
  return held_self_;
}

TensorHandle Recorder::make(const Shape& shape, DType dtype) {
  const std::size_t bytes = shape.size_bytes(dtype);
  const std::scoped_lock lock(mutex_);
  make_room(bytes);
  auto state = Ref<TensorState>::adopt(new TensorState(*device_, shape, dtype, self()));
  state->number = operands_.size();
  operands_.push_back({.tensor = state, .buffer = {}, .is_promised = true});
  return TensorHandle(std::move(state));
}

void Recorder::check_room(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  make_room(bytes);
}

void Recorder::make_room(std::size_t bytes) {
  promised_ += bytes;
  if (promised_ < Evaluation::least_room) return;
  const std::size_t room = device_->memory.info().limit / share_of_limit;
  if (promised_ <= room) return;
  promised_ = pinned() + bytes;
  if (promised_ <= room) return;
  try_flush(true);
  promised_ = pinned() + bytes;
}

// Memory that tensors in use will have, and that which only the recorded calls keep.
std::size_t Recorder::pinned() const noexcept {
  std::size_t bytes = 0;
  for (const Operand& operand : operands_) {
    if (operand.is_promised == operand.is_held()) bytes += operand.tensor->shape.size_bytes(operand.tensor->dtype);
  }
  return bytes;
}

std::size_t Recorder::promised() {
  const std::scoped_lock lock(mutex_);
  return promised_;
}

std::size_t Recorder::operand_of(const TensorHandle& tensor) {
  if (!tensor.state()) throw Error(Errc::invalid_argument, "a tensor that was moved from");
  TensorState* state = &tensor.state()->memory();
  if (state->number < operands_.size() && operands_[state->number].tensor.get() == state) return state->number;
  const std::shared_ptr<Recorder> other = state->recorder();
  if (other && other.get() != this) other->flush();
  TensorState::Contents contents = state->contents();
  if (contents.failure) throw Error(contents.failure);
  const engine::Storage* storage = Access::get(contents.buffer)->storage;
  const auto found = std::ranges::find_if(operands_, [&](const Operand& operand) {
    return operand.buffer && Access::get(operand.buffer)->storage == storage;
  });
  if (found != operands_.end()) return static_cast<std::size_t>(found - operands_.begin());
  if (storage->device.get() != device_) {
    throw Error(Errc::wrong_device,
                text("a tensor, ", to_string(state->dtype, state->shape), ", is on ", storage->device->name(),
                     ", and the operation runs on ", device_->name(), ": copy_to() it"));
  }
  state->set_recorder(self());
  operands_.push_back({.tensor = Ref<TensorState>(state), .buffer = std::move(contents.buffer)});
  return operands_.size() - 1;
}

Recorder::Use Recorder::use_of(const TensorHandle& tensor) {
  const std::size_t number = operand_of(tensor);
  const bool is_same =
      tensor.state() == operands_[number].tensor.get() || tensor.shape() == shape_of(operands_[number]);
  return {number, is_same ? nullptr : std::make_unique<const Shape>(tensor.shape())};
}

const Shape& Recorder::shape_of(const Operand& operand) const noexcept {
  const engine::View* view = Access::get(operand.buffer);
  return view ? view->shape : operand.tensor->shape;
}
const Shape& Recorder::shape_of(const Use& use) const noexcept {
  return use.seen ? *use.seen : shape_of(operands_[use.operand]);
}

void Recorder::add(const KernelWork& work) {
  const std::scoped_lock lock(mutex_);
  if (call_count_ >= most_calls) try_flush(true);
  if (call_count_ == calls_.size()) calls_.emplace_back();
  Call& call = calls_[call_count_];
  call.kernel = work.kernel ? work.kernel : &kernels::find(work.name);
  if (work.params || !call.params.empty()) call.params = work.params ? std::move(*work.params) : Params();
  call.values.assign(work.values.begin(), work.values.end());
  set_tile(work, call.tile);
  call.uses.clear();
  call.uses.push_back(use_of(*work.output));
  for (const TensorHandle* input : work.inputs) {
    call.uses.push_back(use_of(*input));
    Operand& operand = operands_[call.uses.back().operand];
    operand.is_read = true;
    operand.is_early = operand.is_early || operand.writer == none;
  }
  // Kernels write all of their output: what was written before, and not read, was for nothing.
  Operand& output = operands_[call.uses[0].operand];
  if (output.writer != none && !output.is_read) calls_[output.writer].kernel = nullptr;
  for (const Use& use : call.uses) operands_[use.operand].last_use = call_count_;
  output.writer = call_count_++;
  output.is_read = false;
}

void Recorder::flush() noexcept {
  const std::scoped_lock lock(mutex_);
  flush_locked();
}

Recorder::Flushed Recorder::flush(bool can_wait, std::size_t from, std::vector<Ref<engine::Work>>& commands) noexcept {
  const std::scoped_lock lock(mutex_);
  const bool is_short = !try_flush(can_wait);
  for (std::size_t i = from; i < commands_.size(); ++i) commands.push_back(commands_[i]);
  return {commands_.size(), failure_, is_short};
}

void Recorder::give_up(const core::FailurePtr& why) noexcept {
  const std::scoped_lock lock(mutex_);
  settle(why);
}

void Recorder::submit_host(engine::HostWork work) {
  Ref<engine::Work> node = engine::submit_host(*device_, std::move(work));
  if (!node) return;
  const std::scoped_lock lock(mutex_);
  commands_.push_back(std::move(node));
}

void Recorder::flush_locked() noexcept {
  while (!try_flush(false)) {
  }
}

// False if there was not enough memory for all: the rest stays recorded.
bool Recorder::try_flush(bool can_wait) noexcept {
  if (operands_.empty()) return true;
  core::FailurePtr failure;
  const std::size_t before = commands_.size();
  try {
    submit_all();
  } catch (...) {
    failure = failure_of_current_exception();
    const bool is_short = failure->code == Errc::out_of_memory;
    if (is_short && (can_wait || commands_.size() != before)) return false;
    if (is_short && !is_cut_ && call_count_ > 1) {
      cut();
      return false;
    }
    if (!failure_) failure_ = failure;
  }
  settle(failure);
  return true;
}

// The tensors that are held have their memory, or the reason why they have none.
void Recorder::settle(const core::FailurePtr& why) noexcept {
  for (const Operand& operand : operands_) {
    if (!operand.is_held()) continue;  // it goes now
    // What should have been written was not.
    const bool is_spoilt = operand.is_promised || operand.writer != none;
    operand.tensor->settle(*this, operand.buffer, is_spoilt ? why : nullptr);
  }
  operands_.clear();
  call_count_ = 0;
  promised_ = 0;
  is_cut_ = false;
  held_self_ = nullptr;  // whoever called holds it
}

void Recorder::submit_all() {
  drop_unneeded();
  if (is_cut_) return submit_one_by_one();
  const auto is_needed = [](const Call& call) { return call.kernel != nullptr; };
  const auto count = std::ranges::count_if(calls(), is_needed);
  give_memory(count == 1);
  if (count == 0) return;
  if (count == 1) return submit_one(*std::ranges::find_if(calls(), is_needed));
  submit_plan();
}

// All at once need too much memory: each has what it needs by itself, and no longer than until it is over.
void Recorder::submit_one_by_one() {
  for (std::size_t c = 0; c < call_count_; ++c) {
    Call& call = calls_[c];
    if (!call.kernel) continue;
    for (const Use& use : call.uses) give_memory(operands_[use.operand]);
    submit_one(call);
    call.kernel = nullptr;
    for (const Use& use : call.uses) {
      Operand& operand = operands_[use.operand];
      if (operand.last_use != c || !operand.is_promised || operand.is_held()) continue;
      operand.buffer = {};
      operand.is_needed = false;
    }
  }
  give_memory(false);
}

void Recorder::cut() noexcept {
  is_cut_ = true;
  for (Operand& operand : operands_) {
    if (operand.is_promised) operand.buffer = {};
  }
}

// Calls whose results nobody holds or reads.
void Recorder::drop_unneeded() {
  for (Operand& operand : operands_) operand.is_needed = !operand.is_promised || operand.is_held();
  for (std::size_t c = call_count_; c-- > 0;) {
    Call& call = calls_[c];
    if (!call.kernel) continue;
    if (!operands_[call.uses[0].operand].is_needed) {
      call.kernel = nullptr;
      continue;
    }
    // One that is needed stays so: something may have read what was in it before.
    for (std::size_t i = 1; i < call.uses.size(); ++i) operands_[call.uses[i].operand].is_needed = true;
  }
}

// For what is held, for what is read without ever having been written, and for a call that is submitted by itself.
void Recorder::give_memory(bool is_single) {
  for (Operand& operand : operands_) {
    if (operand.buffer || !operand.is_needed) continue;
    if (is_single || operand.is_early || operand.is_held()) give_memory(operand);
  }
}

void Recorder::give_memory(Operand& operand) {
  if (!operand.buffer)
    operand.buffer =
        Access::make<Buffer>(engine::allocate(*device_, operand.tensor->shape, operand.tensor->dtype, false));
}

Buffer Recorder::buffer_of(const Use& use) const {
  const Buffer& buffer = operands_[use.operand].buffer;
  return use.seen ? buffer.reshape(*use.seen) : buffer;
}

void Recorder::submit_one(const Call& call) {
  const Buffer output = buffer_of(call.uses[0]);
  std::array<Buffer, 4> few;
  std::vector<Buffer> many;
  const std::size_t count = call.uses.size() - 1;
  if (count > few.size()) many.resize(count);
  const std::span<Buffer> inputs(count > few.size() ? many.data() : few.data(), count);
  for (std::size_t i = 0; i < count; ++i) inputs[i] = buffer_of(call.uses[i + 1]);
  KernelCall kernel_call(std::span<const Buffer>(inputs), output, call.given(), Access::get(stream_));
  submitted(engine::submit(*device_, kernel_call.of(*call.kernel, call.tile)));
}

// One that was refused has written nothing and poisoned nothing.
void Recorder::submitted(Ref<engine::Work> command) {
  if (command->is_settled() && command->failure) throw Error(command->failure);
  commands_.push_back(std::move(command));
}

void Recorder::submit_plan() {
  numbers_.assign(operands_.size(), none);
  std::size_t count = 0;
  for (const Call& call : calls()) {
    if (!call.kernel) continue;
    for (const Use& use : call.uses) {
      if (numbers_[use.operand] == none) numbers_[use.operand] = count++;
    }
  }
  check_memory();
  const std::shared_ptr<OperationCache> cache = OperationCache::of(*device_);
  const std::shared_ptr<const engine::PlanVariant> variant = find_or_make_variant(cache.get());
  std::vector<engine::Storage*> bound(count, nullptr);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (numbers_[i] != none && operands_[i].buffer) bound[numbers_[i]] = Access::get(operands_[i].buffer)->storage;
  }
  std::erase(bound, nullptr);
  const auto log = cache ? cache->log : std::make_shared<engine::RunLog>();
  submitted(engine::submit(*device_, {variant, log, bound, Access::get(stream_)}));
  if (variant->plan->plan.peak > kept_bytes) engine::drop_instances(*device_, *variant->plan);
}

// That nobody has freed, by the buffer, what calls use.
void Recorder::check_memory() const {
  for (const Call& call : calls()) {
    if (!call.kernel) continue;
    for (std::size_t i = 0; i < call.uses.size(); ++i) {
      const engine::View* view = Access::get(operands_[call.uses[i].operand].buffer);
      if (!view || !view->storage->is_freed.load(std::memory_order_relaxed)) continue;
      const std::string which = i == 0 ? "output" : text("input ", i - 1, " (", call.kernel->inputs[i - 1], ")");
      throw Error(engine::unusable(text("[", call.kernel->name, "] ", which), *view->storage));
    }
  }
}

// By all that the calls are given; else by what their kernels make of it, which leaves out the numbers that are only
// scalars of a launch: those are put into the plan then.
std::shared_ptr<const engine::PlanVariant> Recorder::find_or_make_variant(OperationCache* cache) {
  set_key();
  if (cache) {
    if (const auto found = cache->find(key_)) return variant_of(*found, {});
  }
  std::vector<kernels::Lowering> plans;
  for (const Call& call : calls()) {
    if (call.kernel) plans.push_back(plan_of(call));
  }
  const OperationCache::Key exact = key_;
  set_form_key(plans);
  if (cache) {
    if (const auto found = cache->find(key_)) return variant_of(*found, plans);
  }
  const std::shared_ptr<const OperationPlan> made = plan(plans);
  if (cache) {
    cache->add(exact, made);
    if (!made->planned.empty()) cache->add(key_, made);
  }
  return variant_of(*made, {});
}

template <class AddParams>
void Recorder::write_key(KeyWriter& key, AddParams&& add_params) const {
  constexpr std::uint64_t first_use = std::uint64_t{1} << 62, other_shape = std::uint64_t{1} << 63;
  std::size_t known = 0;  // operands have their numbers in the order in which calls use them
  for (const Call& call : calls()) {
    if (!call.kernel) continue;
    key.add(call.kernel->number | call.uses.size() << 32U | call.tile.size() << 56U);
    for (const Use& use : call.uses) {
      const Operand& operand = operands_[use.operand];
      const std::size_t number = numbers_[use.operand];
      const engine::View* view = Access::get(operand.buffer);
      const bool is_first = number == known;
      key.add(number | (is_first ? first_use : 0) | (use.seen ? other_shape : 0));
      if (is_first) {
        ++known;
        key.add(static_cast<std::uint64_t>(view ? view->dtype : operand.tensor->dtype) | (view ? 0x100U : 0U));
        key.add(shape_of(operand));
      }
      if (use.seen) key.add(*use.seen);
    }
    add_params(call);
    for (const std::int64_t extent : call.tile) key.add(static_cast<std::uint64_t>(extent));
  }
}

void Recorder::set_key() {
  KeyWriter key(key_);
  write_key(key, [&](const Call& call) {
    key.add(call.params.size());
    for (const Param& param : call.params) {
      key.add(std::string_view(param.name));
      key.add(param.value);
    }
  });
}

void Recorder::set_form_key(std::span<const kernels::Lowering> plans) {
  constexpr std::uint64_t is_form = ~std::uint64_t{0};  // no other key begins so
  KeyWriter key(key_);
  key.add(is_form);
  write_key(key, [&, plan = plans.begin()](const Call&) mutable {
    key.add(std::string_view(plan->variant));
    key.add(plan->scalars.size());
    key.add(plan->shapes.size());
    for (const Shape& shape : plan->shapes) key.add(shape);
    key.add(plan->fixed.size());
    for (const auto& [buffer, axis] : plan->fixed) {
      key.add(static_cast<std::uint64_t>(buffer));
      key.add(static_cast<std::uint64_t>(axis));
    }
    key.add(plan->is_pointwise ? 1 : 0);
    ++plan;
  });
}

// How a kernel would do a call. Throws what is wrong with it.
kernels::Lowering Recorder::plan_of(const Call& call) const {
  call.kernel->check_count(call.uses.size() - 1);
  std::vector<kernels::Operand> operands;
  operands.reserve(call.uses.size());
  for (const Use& use : call.uses) {
    const Operand& operand = operands_[use.operand];
    const engine::View* view = Access::get(operand.buffer);
    operands.push_back({view ? view->dtype : operand.tensor->dtype, &shape_of(use)});
  }
  kernels::Arguments arguments;
  call.kernel->bind(call.given(), arguments);
  return call.kernel->lower({*call.kernel,
                             std::span<const kernels::Operand>(operands).subspan(1),
                             operands[0],
                             {arguments.data(), arguments.size()},
                             call.tile});
}

// The plan with the numbers of these calls; those that are named only if the kernels' plans for them are given.
std::shared_ptr<const engine::PlanVariant> Recorder::variant_of(const OperationPlan& plan,
                                                                    std::span<const kernels::Lowering> plans) {
  if (plan.scalars.empty() && plans.empty()) return plan.variant;
  auto variant = std::make_shared<engine::PlanVariant>();
  variant->plan = plan.variant->plan;
  variant->patches = plan.variant->patches;
  const auto patch = [&](std::span<const OperationPlan::Scalar> scalars) {
    auto patched = variant->patches.begin();  // both are in the order of their groups
    for (const OperationPlan::Scalar& scalar : scalars) {
      while (patched != variant->patches.end() && patched->group < scalar.group) ++patched;
      if (patched == variant->patches.end() || patched->group != scalar.group) {
        const auto& planned = variant->plan->groups[scalar.group].launch.scalars;
        patched = variant->patches.insert(patched, {scalar.group, {planned.begin(), planned.end()}});
      }
      patched->scalars[scalar.number] = bits_[scalar.value];
    }
  };
  bits_.clear();
  for (const Call& call : calls()) {
    if (!call.kernel || call.values.empty()) continue;
    kernels::Arguments arguments;
    call.kernel->bind(call.given(), arguments);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_float = call.kernel->params[i].kind == kernels::ParamSpec::Kind::number;
      bits_.push_back(kernels::scalar_bits(is_float ? DType::f64 : DType::s64, arguments[i]));
    }
  }
  patch(plan.scalars);
  if (plans.empty()) return variant;
  bits_.clear();
  auto planned = plans.begin();
  for (const Call& call : calls()) {
    if (!call.kernel) continue;
    if (call.values.empty()) {
      for (const kernels::Lowering::Scalar& scalar : planned->scalars) bits_.push_back(scalar.bits());
    }
    ++planned;
  }
  patch(plan.planned);
  return variant;
}

std::shared_ptr<const OperationPlan> Recorder::plan(std::span<const kernels::Lowering> plans) const {
  plan::Graph graph;
  std::vector<std::size_t> first_value, first_planned;  // by stage; none: it has none
  std::size_t value_count = 0, planned_count = 0;
  graph.buffers.resize(
      static_cast<std::size_t>(std::ranges::count_if(numbers_, [](std::size_t number) { return number != none; })));
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (numbers_[i] == none) continue;
    const Operand& operand = operands_[i];
    const engine::View* view = Access::get(operand.buffer);
    graph.buffers[numbers_[i]] = {view ? GraphBuffer::Kind::slot : GraphBuffer::Kind::temporary,
                                  text("tensor ", numbers_[i]), view ? view->dtype : operand.tensor->dtype,
                                  shape_of(operand)};
  }
  for (const Call& call : calls()) {
    if (!call.kernel) continue;
    plan::GraphStage& stage = graph.stages.emplace_back();
    stage.label = call.kernel->name;
    stage.kernel = call.kernel;
    stage.params = call.given().named(*call.kernel);
    stage.tile = call.tile;
    first_value.push_back(call.values.empty() ? none : value_count);
    value_count += call.values.size();
    first_planned.push_back(call.values.empty() ? planned_count : none);
    if (call.values.empty()) planned_count += plans[first_value.size() - 1].scalars.size();
    for (std::size_t i = 0; i < call.uses.size(); ++i) {
      const std::size_t number = numbers_[call.uses[i].operand];
      (i == 0 ? stage.outputs : stage.inputs).push_back({number, graph.buffers[number].dtype, shape_of(call.uses[i])});
    }
  }
  std::vector<Buffer> buffers(graph.buffers.size());
  auto variant = std::make_shared<engine::PlanVariant>();
  variant->plan = std::make_shared<engine::ExecutablePlan>();
  compile({device_->calls, *device_->driver}, std::move(graph), {}, true, {}, *variant->plan);
  for (const Buffer& buffer : buffers) variant->plan->buffers.emplace_back(Access::get(buffer));
  variant->plan->complete(*device_);

  auto made = std::make_shared<OperationPlan>();
  const std::vector<plan::Group>& groups = variant->plan->plan.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t count = variant->plan->groups[g].launch.scalars.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t stage = groups[g].fused ? groups[g].fused->scalars[i].stage : groups[g].stages.front();
      const std::size_t value = groups[g].fused ? groups[g].fused->scalars[i].number : i;
      if (first_value[stage] != none) {
        made->scalars.push_back({g, i, first_value[stage] + value});
      } else {
        made->planned.push_back({g, i, first_planned[stage] + value});
        // Other runs of the plan may leave other numbers behind.
        if (variant->patches.empty() || variant->patches.back().group != g) {
          const auto& scalars = variant->plan->groups[g].launch.scalars;
          variant->patches.push_back({g, {scalars.begin(), scalars.end()}});
        }
      }
    }
  }
  made->variant = std::move(variant);
  return made;
}

}  // namespace tessera::detail
