#include "driver/gpu/gpu_driver.hpp"

#include <tessera/error.hpp>

#include "compile/dump.hpp"
#include "core/text.hpp"
#include "driver/gpu/exit_safe_driver.hpp"
#include "driver/gpu/split_64bit.hpp"
#include "ir/analysis.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace tessera::driver::gpu {

namespace {

using compile::gpu::Form;
using core::text;

// What all workgroups of a launch may take of scratch memory.
constexpr std::int64_t most_scratch = std::int64_t{64} << 20;
constexpr std::size_t alignment = 64;

class GpuExecutable final : public Executable {
 public:
  GpuExecutable(ir::Program given, const compile::gpu::Target& target)
      : given_(std::move(given)),
        words_(in_words(given_, target)),
        program_(words_ ? *words_ : given_),
        choice_(compile::gpu::choice_of(program_)) {}

  struct Code {
    compile::gpu::Kernel kernel;
    std::unique_ptr<Module> module;
  };

  const ir::Program& given() const noexcept { return given_; }
  // What is compiled.
  const ir::Program& program() const noexcept { return program_; }
  bool is_in_words() const noexcept { return words_.has_value(); }

  // What a launch runs; compiled by the first that wants it, while the others wait.
  const Code& code(Api& api, const Launch& launch) {
    const Form form = compile::gpu::best_form(choice_, program_, launch.dims.data());
    Slot& slot = slots_[form == Form::few ? 1 : 0];
    if (const Code* ready = slot.ready.load(std::memory_order_acquire)) return *ready;
    const std::scoped_lock lock(slot.mutex);
    if (slot.code) return *slot.code;
    auto code = std::make_unique<Code>();
    code->kernel = compile::gpu::compile(program_, api.target(), form);
    code->module = api.compile(code->kernel, program_.name);
    slot.code = std::move(code);
    slot.ready.store(slot.code.get(), std::memory_order_release);
    set_ready();
    return *slot.code;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Code> code;
    std::atomic<const Code*> ready{nullptr};
  };

  const ir::Program given_;
  const std::optional<ir::Program> words_;
  const ir::Program& program_;
  const compile::gpu::Choice choice_;
  std::array<Slot, 2> slots_;
};

// The executable of a launch that came from this driver, which alone may change it.
GpuExecutable& executable_of(const Launch& launch) {
  return const_cast<GpuExecutable&>(static_cast<const GpuExecutable&>(*launch.executable));
}

// The device's memory by addresses that mean nothing to the host: where the runtime thinks it is.
class AddressSpace {
 public:
  std::byte* add(std::unique_ptr<Memory> memory, std::size_t bytes) {
    const std::unique_lock lock(mutex_);
    const std::uintptr_t address = next_;
    next_ += (bytes + 2 * alignment - 1) / alignment * alignment;
    blocks_.emplace(address, Block{std::move(memory), bytes});
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): nobody follows it
  }

  struct Found {
    Memory* memory;
    std::size_t offset;
  };
  Found find(const std::byte* address) const {
    const std::shared_lock lock(mutex_);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) throw Error(Errc::internal, "an address that is no memory of the device");
    const auto& [start, block] = *std::prev(after);
    return {block.memory.get(), at - start};
  }
  std::unique_ptr<Memory> remove(const std::byte* address) {
    const std::unique_lock lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
    std::unique_ptr<Memory> memory = std::move(found->second.memory);
    blocks_.erase(found);
    return memory;
  }

 private:
  struct Block {
    std::unique_ptr<Memory> memory;
    std::size_t bytes;
  };
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  std::uintptr_t next_ = alignment;
};

struct Scratch {
  std::unique_ptr<Memory> memory;
  std::size_t bytes = 0;
};

// Scratch memory, kept for the next launch that needs about as much.
class ScratchPool {
 public:
  explicit ScratchPool(Api& api) : api_(api) {}

  Scratch take(std::size_t wanted) {
    const std::size_t bytes = rounded(wanted);
    {
      const std::scoped_lock lock(mutex_);
      const auto found = free_.lower_bound(bytes);
      if (found != free_.end() && found->first / 2 <= bytes) return take_out(found);
    }
    if (auto memory = api_.allocate(bytes)) return {std::move(memory), bytes};
    trim();
    auto memory = api_.allocate(bytes);
    if (!memory) {
      throw Error(Errc::out_of_memory, text("no scratch memory on ", api_.info().name, ": ", bytes, " bytes asked"));
    }
    return {std::move(memory), bytes};
  }
  void give_back(Scratch scratch) {
    const std::scoped_lock lock(mutex_);
    kept_ += scratch.bytes;
    free_.emplace(scratch.bytes, std::move(scratch.memory));
    while (kept_ > most_kept) take_out(std::prev(free_.end()));
  }
  std::size_t trim() {
    const std::scoped_lock lock(mutex_);
    free_.clear();
    return std::exchange(kept_, 0);
  }

 private:
  using Free = std::multimap<std::size_t, std::unique_ptr<Memory>>;

  // To four sizes between a power of two and the next.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t unit = std::max<std::size_t>(alignment, std::bit_floor(bytes) / 4);
    return (bytes + unit - 1) / unit * unit;
  }
  Scratch take_out(Free::iterator found) {
    Scratch scratch{std::move(found->second), found->first};
    free_.erase(found);
    kept_ -= scratch.bytes;
    return scratch;
  }

  static constexpr auto most_kept = static_cast<std::size_t>(most_scratch);
  Api& api_;
  std::mutex mutex_;
  Free free_;
  std::size_t kept_ = 0;  // bytes of it
};

// Kernels that were made one (compile::gpu::chain), by what they are and which of their memory is the same. Kept as
// long as the device.
class Chains {
 public:
  // A call, and whether it may be part of a chain.
  struct Part {
    const compile::gpu::Kernel* kernel = nullptr;
    bool is_link = false;  // it is one workgroup's work
    std::int64_t steps = 0;
  };

  explicit Chains(Api& api) : api_(api) {}

  // How many calls from this one on make a chain; less than two: none.
  std::size_t length(std::span<const Part> parts, std::size_t first) const {
    const std::int64_t most_steps = api_.target().most_steps;
    std::int64_t steps = 0;
    std::size_t count = 0;
    for (; count < longest && first + count < parts.size() && parts[first + count].is_link; ++count) {
      steps += parts[first + count].steps;
      if (most_steps != 0 && steps > most_steps) break;
    }
    return count;
  }

  // Compiles what takes the place of these calls. What cannot be compiled is none: the calls do without.
  void prepare(std::span<const Part> parts, std::span<const Dispatch> calls) {
    std::vector<int> memory;
    Key key = key_of(parts, calls, memory);
    {
      const std::scoped_lock lock(mutex_);
      if (known_.contains(key)) return;
    }
    Code made = make(parts, calls, memory);  // without the lock: others record meanwhile
    const std::scoped_lock lock(mutex_);
    known_.try_emplace(std::move(key), std::move(made));
  }
  // That, if it was prepared.
  std::optional<Dispatch> find(std::span<const Part> parts, std::span<const Dispatch> calls) {
    std::vector<int> memory;
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(key_of(parts, calls, memory));
    if (found == known_.end() || !found->second.module) return std::nullopt;
    // A memory's number is the place where it comes first.
    std::vector<Memory*> by_number;
    for (const Dispatch& call : calls) by_number.insert(by_number.end(), call.buffers.begin(), call.buffers.end());
    Dispatch all;
    all.module = found->second.module.get();
    for (const int number : found->second.bindings) all.buffers.push_back(by_number[static_cast<std::size_t>(number)]);
    for (const Dispatch& call : calls) {
      all.arguments.insert(all.arguments.end(), call.arguments.begin(), call.arguments.end());
    }
    return all;
  }

 private:
  // The text grows with it, and so does the time to compile it: ten times `scale` take lavapipe a quarter of a second.
  static constexpr std::size_t longest = 16;
  using Key = std::vector<std::pair<const compile::gpu::Kernel*, std::vector<int>>>;
  struct Code {
    std::unique_ptr<Module> module;
    std::vector<int> bindings;  // numbers of memory
  };

  static Key key_of(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory) {
    Key key;
    std::unordered_map<const Memory*, int> numbers;
    int place = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      memory.clear();
      for (const Memory* buffer : calls[i].buffers)
        memory.push_back(numbers.try_emplace(buffer, place++).first->second);
      key.emplace_back(parts[i].kernel, memory);
    }
    return key;
  }

  Code make(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory) try {
    std::vector<compile::gpu::Link> links;
    for (const auto& [kernel, numbers] : key_of(parts, calls, memory)) links.push_back({kernel, numbers});
    const std::optional<compile::gpu::Kernel> kernel = compile::gpu::chain(links, api_.target());
    if (!kernel) return {};
    const std::string name = text("chain of ", links.size());
    if (compile::dump_wants("gpu")) compile::dump_show(name, "gpu", kernel->source);
    return {api_.compile(*kernel, name), kernel->buffers};
  } catch (const Error&) {
    return {};
  }

  Api& api_;
  std::mutex mutex_;
  std::map<Key, Code> known_;
};

class GpuRecording final : public driver::Recording {
 public:
  std::unique_ptr<gpu::Recording> recording;  // null: there is nothing to do
  std::vector<Scratch> scratch;
};

class GpuDriver final : public Driver {
 public:
  GpuDriver(std::unique_ptr<Api> api, std::string backend)
      : api_(std::move(api)), info_(api_->info()), scratch_(*api_), chains_(*api_) {
    info_.backend = std::move(backend);
  }

  const DeviceInfo& info() const override { return info_; }

  Block allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    if (rounded > api_->most_buffer_bytes()) {
      throw Error(Errc::out_of_memory, text("a kernel on ", full_name(info_), " can use at most ",
                                            api_->most_buffer_bytes(), " bytes of one buffer"));
    }
    std::unique_ptr<Memory> memory = api_->allocate(rounded);
    if (!memory) return {};
    return {memory_.add(std::move(memory), rounded), false};
  }
  void deallocate(std::byte* address, std::size_t) override { memory_.remove(address); }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (from.empty()) return;
    const auto [memory, offset] = memory_.find(to);
    api_->upload(*memory, offset, from);
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    if (to.empty()) return;
    const auto [memory, offset] = memory_.find(from);
    api_->download(to, *memory, offset);
  }
  void fill_zero(std::byte* to, std::size_t bytes) override {
    if (bytes == 0) return;
    const auto [memory, offset] = memory_.find(to);
    api_->fill_zero(*memory, offset, bytes);
  }
  std::byte* host_address(std::byte* address) override {
    const auto [memory, offset] = memory_.find(address);
    std::byte* start = memory->host_address();
    return start ? start + offset : nullptr;
  }

  std::size_t trim() override { return scratch_.trim(); }

  const Executable& compile(const ir::Program& program) override {
    const std::scoped_lock lock(mutex_);
    const std::size_t hash = ir::hash_code(program);
    const auto [begin, end] = executables_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      if (ir::is_same_code(known->second->given(), program)) return *known->second;
    }
    auto made = std::make_unique<GpuExecutable>(program, api_->target());
    compile::gpu::check(made->program(), api_->target());
    return *executables_.emplace(hash, std::move(made))->second;
  }
  // Scratch memory and arguments may need one each.
  std::size_t most_buffers() const noexcept override {
    return static_cast<std::size_t>(std::max(1, api_->target().most_buffers - 2));
  }
  std::int64_t pieces(const Launch& launch) override {
    if (launch.elements != 0) executable_of(launch).code(*api_, launch);
    return 1;
  }
  void launch(const Launch& launch, std::int64_t) override {
    const std::uint64_t number = start({&launch, 1});
    const driver::Progress progress = wait(number, Clock::time_point::max());
    if (progress.ended < number && progress.failure) throw Error(progress.failure);
  }

  bool has_queue() const noexcept override { return true; }

  std::uint64_t start(std::span<const Launch> launches) override {
    std::vector<Scratch> scratch;
    const std::vector<Dispatch> calls = dispatches(launches, scratch);
    const std::uint64_t number = api_->submit(calls);
    if (!scratch.empty()) {
      const std::scoped_lock lock(mutex_);
      in_use_.emplace_back(number, std::move(scratch));
    }
    return number;
  }

  std::unique_ptr<driver::Recording> record(std::span<const Launch> launches) override {
    auto made = std::make_unique<GpuRecording>();
    std::vector<Chains::Part> parts;
    const std::vector<Dispatch> calls = dispatches(launches, made->scratch, &parts);
    std::vector<Dispatch> chained;
    each_chain(parts, [&](std::size_t first, std::size_t count) {
      const std::span some = std::span(calls).subspan(first, count);
      std::optional<Dispatch> chain;
      if (count > 1) chain = chains_.find(std::span(parts).subspan(first, count), some);
      if (chain) {
        chained.push_back(std::move(*chain));
      } else {
        chained.insert(chained.end(), some.begin(), some.end());
      }
    });
    made->recording = api_->record(chained);
    return made;
  }
  void prepare_to_record(std::span<const Launch> launches) override try {
    if (api_->target().dialect != compile::gpu::Dialect::vulkan) return;
    std::vector<Scratch> scratch;
    std::vector<Chains::Part> parts;
    const std::vector<Dispatch> calls = dispatches(launches, scratch, &parts);
    each_chain(parts, [&](std::size_t first, std::size_t count) {
      if (count > 1) chains_.prepare(std::span(parts).subspan(first, count), std::span(calls).subspan(first, count));
    });
    for (Scratch& taken : scratch) scratch_.give_back(std::move(taken));
  } catch (const Error&) {
    // There may be no memory for a moment. What is not prepared is recorded call by call.
  }
  std::uint64_t start(driver::Recording& recording) override {
    return api_->submit(*static_cast<GpuRecording&>(recording).recording);
  }

  driver::Progress wait(std::uint64_t number, Clock::time_point until) override {
    const gpu::Progress progress = api_->wait(number, until);
    give_back_scratch(progress.ended);
    return {progress.ended, progress.failure};
  }

 private:
  std::vector<Dispatch> dispatches(std::span<const Launch> launches, std::vector<Scratch>& scratch,
                                   std::vector<Chains::Part>* parts = nullptr) {
    std::vector<Dispatch> calls;
    calls.reserve(launches.size());
    for (const Launch& launch : launches) {
      if (launch.elements != 0) calls.push_back(dispatch(launch, scratch, parts));
    }
    return calls;
  }

  // Calls `done` for all calls, one by one or as chains.
  template <class Done>
  void each_chain(std::span<const Chains::Part> parts, const Done& done) const {
    for (std::size_t first = 0; first < parts.size();) {
      const std::size_t count = std::max<std::size_t>(1, chains_.length(parts, first));
      done(first, count);
      first += count;
    }
  }

  Dispatch dispatch(const Launch& given, std::vector<Scratch>& scratch, std::vector<Chains::Part>* parts) {
    GpuExecutable& executable = executable_of(given);
    std::optional<Launch> words;
    if (executable.is_in_words()) words = in_words(given);
    const Launch& launch = words ? *words : given;
    const GpuExecutable::Code& code = executable.code(*api_, launch);
    const compile::gpu::Kernel& kernel = code.kernel;
    check_size(executable.program(), launch, kernel.most_elements);
    const auto grid = kernel.grid(executable.program(), launch.dims.data());
    std::int64_t groups = std::min<std::int64_t>(std::max<std::int64_t>(grid.groups, 1), api_->most_groups());
    Dispatch call;
    call.module = code.module.get();
    for (const int buffer : kernel.buffers) {
      call.buffers.push_back(memory_.find(launch.buffers[static_cast<std::size_t>(buffer)]).memory);
    }
    if (kernel.has_scratch) {
      const std::int64_t each = std::max<std::int64_t>(grid.scratch_bytes, 4);
      groups = std::clamp<std::int64_t>(most_scratch / each, 1, groups);
      const auto bytes = static_cast<std::size_t>(each * groups);
      scratch.push_back(scratch_.take(bytes));
      call.buffers.push_back(scratch.back().memory.get());
    }
    call.groups = static_cast<std::uint32_t>(groups);
    check_steps(executable.program(), launch, kernel, (grid.groups + groups - 1) / groups);
    call.arguments = kernel.arguments(executable.program(), launch.dims.data(), launch.scalars.data(), grid);
    if (parts) {
      const std::int64_t steps = kernel.steps(executable.program(), launch.dims.data(), launch.scalars.data());
      parts->push_back({&kernel, grid.groups <= 1, steps});
    }
    return call;
  }

  void check_size(const ir::Program& program, const Launch& launch, std::int64_t most) const {
    const std::int64_t* dims = launch.dims.data();
    for (const ir::Buffer& buffer : program.buffers) {
      std::int64_t elements = 1;
      for (int axis = 0; axis < buffer.rank(); ++axis) elements *= *dims++;
      if (elements <= most) continue;
      throw Error(Errc::unsupported, text("[", program.name, "] ", buffer.name, " has ", elements, " elements: on ",
                                          full_name(info_), " it can have at most ", most));
    }
  }

  // What the device would not do to the end is refused.
  void check_steps(const ir::Program& program, const Launch& launch, const compile::gpu::Kernel& kernel,
                   std::int64_t pieces) const {
    const std::int64_t most = api_->target().most_steps;
    if (most == 0) return;
    const std::int64_t steps = kernel.steps(program, launch.dims.data(), launch.scalars.data());
    if (steps <= most / std::max<std::int64_t>(1, pieces)) return;
    const std::string needs = steps < compile::gpu::Kernel::uncounted
                                  ? text("needs about ", steps, " steps of loops an invocation")
                                  : "has a loop whose steps cannot be told before it runs";
    throw Error(Errc::unsupported,
                text("[", program.name, "] ", needs, ", ", full_name(info_), " stops an invocation after ", most));
  }

  void give_back_scratch(std::uint64_t ended) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(in_use_, [&](auto& used) {
      if (used.first > ended) return false;
      for (Scratch& scratch : used.second) scratch_.give_back(std::move(scratch));
      return true;
    });
  }

  const std::unique_ptr<Api> api_;
  DeviceInfo info_;
  AddressSpace memory_;
  ScratchPool scratch_;
  Chains chains_;
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::unique_ptr<GpuExecutable>> executables_;
  std::vector<std::pair<std::uint64_t, std::vector<Scratch>>> in_use_;
};

}  // namespace

std::unique_ptr<Driver> make_gpu_driver(std::unique_ptr<Api> api, std::string backend) {
  return make_exit_safe_driver(std::make_unique<GpuDriver>(std::move(api), std::move(backend)));
}

}  // namespace tessera::driver::gpu
