#include "driver/gpu/gpu_driver.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "driver/gpu/address_space.hpp"
#include "driver/gpu/chains.hpp"
#include "driver/gpu/exit_safe_driver.hpp"
#include "driver/gpu/gpu_executable.hpp"
#include "driver/gpu/long_launches.hpp"
#include "driver/gpu/scratch_pool.hpp"
#include "driver/gpu/split_64bit.hpp"
#include "driver/gpu/time_limit.hpp"
#include "driver/gpu/watchdog.hpp"
#include "ir/analysis.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::driver::gpu {

namespace {

using core::text;

class GpuRecording final : public driver::Recording {
 public:
  std::vector<std::unique_ptr<gpu::Recording>> recordings;  // one for each submission
  std::vector<Scratch> scratch;
};

class GpuDriver final : public Driver {
 public:
  GpuDriver(std::unique_ptr<Api> api, std::string backend)
      : api_(std::move(api)), info_(api_->info()), scratch_(*api_), chains_(*api_), watchdog_(*api_) {
    info_.backend = std::move(backend);
  }

  const DeviceInfo& info() const override { return info_; }

  Block allocate(std::size_t bytes) override {
    const std::size_t rounded =
        (bytes + AddressSpace::alignment - 1) / AddressSpace::alignment * AddressSpace::alignment;
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
  // Scratch memory may need a binding, and so may arguments on Vulkan.
  std::size_t most_buffers() const noexcept override {
    const int other = api_->target().dialect == compile::gpu::Dialect::vulkan ? 2 : 1;
    return static_cast<std::size_t>(std::max(1, api_->target().most_buffers - other));
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
    std::vector<Dispatch> calls = dispatches(launches, scratch);
    const std::uint64_t number =
        submit_all(split_into_submissions(calls, api_->most_work()),
                   [&](std::span<const Dispatch> submission) { return api_->submit(submission); });
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
    for (const std::span<const Dispatch> submission : split_into_submissions(chained, api_->most_work())) {
      made->recordings.push_back(api_->record(submission));
    }
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
    // Perhaps short of memory for now. Calls that are not prepared are recorded one by one.
  }
  std::uint64_t start(driver::Recording& recording) override {
    return submit_all(static_cast<GpuRecording&>(recording).recordings,
                      [&](const auto& submission) { return api_->submit(*submission); });
  }

  driver::Progress wait(std::uint64_t number, Clock::time_point until) override {
    const gpu::Progress progress = watchdog_.wait(number, until);
    give_back_scratch(progress.ended);
    return {progress.ended, progress.failure};
  }

 private:
  // Returns the number of the last one. If one fails, nothing is in flight afterwards: the caller reuses the memory.
  template <class Submissions, class Submit>
  std::uint64_t submit_all(const Submissions& submissions, const Submit& submit) {
    std::uint64_t number = 0;
    try {
      for (const auto& submission : submissions) number = watchdog_.started(submit(submission));
    } catch (...) {
      if (number != 0) wait(number, Clock::time_point::max());
      throw;
    }
    return number;
  }

  std::vector<Dispatch> dispatches(std::span<const Launch> launches, std::vector<Scratch>& scratch,
                                   std::vector<Chains::Part>* parts = nullptr) {
    std::vector<Dispatch> calls;
    calls.reserve(launches.size());
    for (const Launch& launch : launches) {
      if (launch.elements != 0) add_dispatches(launch, calls, scratch, parts);
    }
    return calls;
  }

  // Calls done(first, count) for each chain or single call.
  template <class Done>
  void each_chain(std::span<const Chains::Part> parts, const Done& done) const {
    for (std::size_t first = 0; first < parts.size();) {
      const std::size_t count = std::max<std::size_t>(1, chains_.length(parts, first));
      done(first, count);
      first += count;
    }
  }

  void add_dispatches(const Launch& given, std::vector<Dispatch>& calls, std::vector<Scratch>& scratch,
                      std::vector<Chains::Part>* parts) {
    GpuExecutable& executable = executable_of(given);
    std::optional<Launch> split;
    if (executable.is_split()) split = split_64bit(given);
    const Launch& launch = split ? *split : given;
    const GpuExecutable::Code& code = executable.code(*api_, launch);
    const compile::gpu::Kernel& kernel = code.kernel;
    check_size(executable.program(), launch, kernel.most_elements);
    kernel.check(executable.program(), launch.dims.data(), launch.scalars.data());
    const auto grid = kernel.grid(executable.program(), launch.dims.data());
    std::int64_t groups = std::min<std::int64_t>(std::max<std::int64_t>(grid.groups, 1), api_->most_groups());
    Dispatch call;
    call.module = code.module.get();
    for (const int buffer : kernel.buffers) {
      call.buffers.push_back(memory_.find(launch.buffers[static_cast<std::size_t>(buffer)]).memory);
    }
    if (kernel.has_scratch) {
      const std::int64_t each = std::max<std::int64_t>(grid.scratch_bytes, 4);
      check_scratch(executable.program(), each);
      groups = std::clamp<std::int64_t>(most_scratch / each, 1, groups);
      const auto bytes = static_cast<std::size_t>(each * groups);
      scratch.push_back(scratch_.take(bytes));
      call.buffers.push_back(scratch.back().memory.get());
    }
    call.groups = static_cast<std::uint32_t>(groups);
    const std::int64_t steps = kernel.steps(executable.program(), launch.dims.data(), launch.scalars.data());
    check_steps(executable.program(), steps, (grid.groups + groups - 1) / groups);
    call.arguments = kernel.arguments(executable.program(), launch.dims.data(), launch.scalars.data(), grid);
    const auto operations = static_cast<std::int64_t>(executable.program().ops.size());
    add_cut(calls, std::move(call), kernel, {grid.groups, steps, operations}, api_->most_work());
    if (parts) parts->resize(calls.size(), {&kernel, grid.groups <= 1, steps});
  }

  void check_size(const ir::Program& program, const Launch& launch, std::int64_t most) const {
    const std::int64_t* dims = launch.dims.data();
    for (const ir::Buffer& buffer : program.buffers) {
      std::int64_t elements = 1;
      std::int64_t longest = 0;  // of a buffer without elements, too
      for (int axis = 0; axis < buffer.rank(); ++axis) {
        longest = std::max(longest, *dims);
        elements *= *dims++;
      }
      if (std::max(elements, longest) <= most) continue;
      const char* what = elements > most ? " elements" : " elements along an axis";
      throw Error(Errc::unsupported, text("[", program.name, "] ", buffer.name, " has ", std::max(elements, longest),
                                          what, ": on ", full_name(info_), " it can have at most ", most));
    }
  }

  // Words of scratch memory are counted in 32 bits.
  void check_scratch(const ir::Program& program, std::int64_t bytes) const {
    const std::int64_t most = std::min<std::int64_t>(std::int64_t{4} * std::numeric_limits<std::int32_t>::max(),
                                                     static_cast<std::int64_t>(api_->most_buffer_bytes()));
    if (bytes <= most) return;
    throw Error(Errc::out_of_memory, text("[", program.name, "] its tiles do not fit in memory: they need ", bytes,
                                          " bytes, and a kernel on ", full_name(info_), " can use ", most));
  }

  // Refuses kernels that the device would abort.
  void check_steps(const ir::Program& program, std::int64_t steps, std::int64_t pieces) const {
    const std::int64_t most = api_->target().most_steps;
    if (most == 0) return;
    if (steps <= most / std::max<std::int64_t>(1, pieces)) return;
    const std::string needs = steps < compile::gpu::Kernel::uncounted
                                  ? text("needs about ", steps, " loop iterations per invocation")
                                  : "has a loop whose iterations cannot be counted in advance";
    throw Error(Errc::unsupported,
                text("[", program.name, "] ", needs, "; ", full_name(info_), " stops an invocation after ", most));
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
  Watchdog watchdog_;
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::unique_ptr<GpuExecutable>> executables_;
  std::vector<std::pair<std::uint64_t, std::vector<Scratch>>> in_use_;
};

}  // namespace

std::unique_ptr<Driver> make_gpu_driver(std::unique_ptr<Api> api, std::string backend) {
  check_time_limit();
  return make_exit_safe_driver(std::make_unique<GpuDriver>(std::move(api), std::move(backend)));
}

}  // namespace tessera::driver::gpu
