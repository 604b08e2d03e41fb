#include "compile/cpu/jit.hpp"

#include <tessera/error.hpp>

#include "compile/compiler_exit_guard.hpp"
#include "compile/cpu/evictable_code.hpp"
#include "compile/cpu/llvm/plugin.hpp"
#include "compile/disk_cache.hpp"
#include "compile/dump.hpp"
#include "compile/emitter_version.hpp"
#include "compile/plugin_library.hpp"
#include "core/platform.hpp"
#include "core/text.hpp"
#include "ir/extents.hpp"
#include "ir/ir.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace tessera::compile::cpu {

namespace {

std::atomic<std::uint64_t> compiled_count{0};
std::atomic<std::uint64_t> disk_count{0};

// Null if there is none at the moment: then kernels are interpreted, which is told once.
const Plugin* plugin() {
  static PluginLibrary& library = *new PluginLibrary("tessera_llvm", plugin_symbol);
  const PluginLibrary::Symbol symbol = library.symbol();
  if (!symbol.address) {
    static std::once_flag told;
    std::call_once(told, [&] {
      std::cerr << "tessera: kernels are interpreted, which is much slower, since there is no compiler: "
                << symbol.why_not << '\n';
    });
    return nullptr;
  }
  const auto* found = static_cast<const Plugin*>(symbol.address);
  if (std::string_view(found->version) != emitter_version) {
    throw Error(Errc::internal, "the compiler plugin was built for another version of this library");
  }
  return found;
}

// Everything that the code depends on, as bytes.
class Key {
 public:
  Key(const ir::Program& program, const Tiling& tiling, const Host& host, Form form) {
    add(std::string_view(emitter_version));
    add(form);
    add(host.description);
    add(tiling.extents);
    add(program.name);
    for (const ir::Buffer& buffer : program.buffers) add(buffer.type, buffer.dims);
    for (const ir::Scalar& scalar : program.scalars) add(scalar.type);
    for (const ir::Op& op : program.ops) {
      add(op.code, op.type, op.border, op.axis, op.index, op.number, op.integer, op.region);
      add(op.operands, op.shape, op.list);
    }
    for (const ir::Region& region : program.regions) {
      add(region.parent, region.loop, region.arguments, region.ops, region.results);
    }
    for (const ir::SameExtent& same : program.same_extents) {
      add(same.buffer, same.axis, same.output_axis, same.factor);
    }
    add(program.tile);
    add(program.part.begin, program.part.extent, program.part.inside);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class... T>
  void add(const T&... values) {
    (add_one(values), ...);
  }
  template <class T>
  void add_one(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T> && !std::is_same_v<T, std::string_view>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      const std::size_t size = value.size();
      bytes_.append(reinterpret_cast<const char*>(&size), sizeof size);
      bytes_.append(reinterpret_cast<const char*>(value.data()), size * sizeof *value.data());
    }
  }
  std::string bytes_;
};

// Scratch memory for a call. A thread keeps it for its next call unless it is large.
class Scratch {
 public:
  Scratch(std::int64_t bytes, CodeThread* thread, const std::string& kernel) : thread_(thread) {
    if (bytes != 0) [[unlikely]]
      take(bytes, kernel);
  }
  ~Scratch() {
    if (address) [[unlikely]]
      give_back();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* address = nullptr;

 private:
  [[gnu::noinline]] void take(std::int64_t needed, const std::string& kernel) {
    // A system that overcommits memory would end the process later.
    static const auto most = static_cast<std::int64_t>(core::usable_memory());
    const auto bytes = static_cast<std::size_t>(needed);
    if (needed > 0 && thread_ && thread_->scratch_size >= bytes) {
      address = thread_->scratch;
      return;
    }
    if (thread_) forget();
    if (needed > 0 && needed <= most) {
      address = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    }
    if (!address) {
      throw Error(Errc::out_of_memory,
                  core::text("[", kernel, "] its tiles do not fit in memory: they need ", needed, " bytes"));
    }
    if (!thread_) return;
    thread_->scratch = address;
    thread_->scratch_size = bytes;
  }
  [[gnu::noinline]] void give_back() noexcept {
    constexpr std::size_t largest_kept = std::size_t{16} << 20;
    if (!thread_) std::free(address);
    if (thread_ && thread_->scratch_size > largest_kept) forget();
  }
  void forget() noexcept {
    std::free(std::exchange(thread_->scratch, nullptr));
    thread_->scratch_size = 0;
  }

  CodeThread* thread_;  // null: nothing is kept
};

DiskCache& disk_cache() {
  static DiskCache& cache = *new DiskCache;  // never destroyed: workers may still compile while the process exits
  return cache;
}

// A program and the processor and tiles that it is compiled for.
struct Source {
  ir::Program program;
  Tiling tiling;
  Host host;

  // The code of a form, which must have the function `entry`; nothing if there is no compiler.
  std::optional<LoadedCode> code(Form form, std::string_view entry) const;
};

std::optional<LoadedCode> Source::code(Form form, std::string_view entry) const {
  const Key key(program, tiling, host, form);
  const Dump dump{dump_wants,
                  [&](std::string_view step, const std::string& text) { dump_show(program.name, step, text); }};
  const bool is_dumped = dump.wants("llvm") || dump.wants("asm");  // cached code would not show these steps
  if (const auto object = is_dumped ? std::nullopt : disk_cache().find(key.bytes())) {
    try {
      LoadedCode loaded{ObjectCode(*object), entry};
      if (form == Form::plain) ++disk_count;
      return loaded;
    } catch (const Error&) {
      // The loader rejects it: compile it again.
    }
  }
  std::vector<std::byte> object;
  {
    const CompilerExitGuard guard;
    const Plugin* compiler = plugin();
    if (!compiler) return std::nullopt;
    object = compiler->compile(program, tiling, host, form, dump);
  }
  LoadedCode compiled{ObjectCode(object), entry};
  disk_cache().store(key.bytes(), object);
  if (form == Form::plain) ++compiled_count;
  return compiled;
}

class Jitted final : public Compiled {
 public:
  Jitted(Source source, LoadedCode code)
      : source_(std::move(source)),
        element_bytes_(ir::bits_of(source_.program.buffers[0].type) / 8),
        may_stream_(code.object.try_find("kernel_can_stream") && !code.scratch_bytes) {
    tiling = source_.tiling;
    checks_ = ir::ExtentChecks(source_.program, tiling.extents);
    for (const ir::Buffer& buffer : source_.program.buffers) dims_ += buffer.dims.size();
    plain_.load(std::move(code));
  }

  void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    if (has_empty_input(arguments)) {  // the code must not read from an empty buffer
      interpret(source_.program, tiling, arguments, begin, end);
      return;
    }
    if (!checks_.empty()) [[unlikely]]
      checks_.run(source_.program, arguments.dims);
    if (is_large(arguments) && run_streaming(arguments, begin, end)) return;
    if (!run_plain(arguments, begin, end)) [[unlikely]]
      load_and_run(arguments, begin, end);
  }

  void report_readiness(std::atomic<bool>& is_ready) const override { plain_.report_to(is_ready); }

 private:
  bool has_empty_input(const Arguments& arguments) const {
    for (std::size_t i = tiling.extents.size(); i < dims_; ++i) {
      if (arguments.dims[i] == 0) return true;
    }
    return false;
  }
  bool is_large(const Arguments& arguments) const {
    const std::vector<ir::Buffer>& buffers = source_.program.buffers;
    std::int64_t bytes = element_bytes_;
    for (std::size_t axis = 0; axis < tiling.extents.size(); ++axis) bytes *= arguments.dims[axis];
    if (bytes < least_streaming_bytes || bytes < streaming_bytes()) return false;
    // If the output is also an input, it is in the caches already.
    return std::find(arguments.buffers + 1, arguments.buffers + buffers.size(), arguments.buffers[0]) ==
           arguments.buffers + buffers.size();
  }

  // False if the code is not loaded.
  bool run_plain(const Arguments& arguments, std::int64_t begin, std::int64_t end) const {
    const EvictableCode::Use use(plain_);
    if (!use.code) [[unlikely]]
      return false;
    const Scratch scratch(use.code->scratch_bytes ? use.code->scratch_bytes(arguments.dims) : 0, use.thread,
                          source_.program.name);
    use.code->kernel(arguments.buffers, arguments.dims, arguments.scalars, scratch.address, begin, end);
    return true;
  }
  // What follows is not inlined: run() would save more registers than a tiny kernel needs.
  [[gnu::noinline]] void load_and_run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const {
    do {
      if (!load()) return interpret(source_.program, tiling, arguments, begin, end);
    } while (!run_plain(arguments, begin, end));
  }
  // Loads the plain code, after it was unloaded. False if it is no longer on the disk and there is no compiler.
  bool load() const {
    const std::scoped_lock lock(mutex_);
    if (plain_.is_loaded()) return true;
    auto code = source_.code(Form::plain, "kernel");
    if (code) plain_.load(std::move(*code));
    return code.has_value();
  }

  // With non-temporal stores. False if there is no such kernel or it is not loaded yet: the plain one computes the
  // same.
  [[gnu::noinline]] bool run_streaming(const Arguments& arguments, std::int64_t begin, std::int64_t end) const {
    if (!may_stream_.load(std::memory_order_relaxed)) return false;
    if (!streaming_.is_loaded() && !load_streaming()) return false;
    const EvictableCode::Use use(streaming_);
    if (!use.code) return false;
    use.code->kernel(arguments.buffers, arguments.dims, arguments.scalars, nullptr, begin, end);
    return true;
  }

  // Loaded when it is first needed: most programs never need it, and it takes as long as the plain one.
  bool load_streaming() const {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    if (streaming_.is_loaded()) return true;
    try {
      if (auto code = source_.code(Form::streaming, "kernel_streaming")) {
        streaming_.load(std::move(*code));
        return true;
      }
    } catch (const Error&) {
      // The plain kernel computes the same.
    }
    may_stream_.store(false, std::memory_order_relaxed);
    return false;
  }

  Source source_;
  ir::ExtentChecks checks_;
  std::size_t dims_ = 0;        // of all buffers
  std::int64_t element_bytes_;  // of the output
  mutable std::mutex mutex_;
  mutable EvictableCode plain_;
  mutable EvictableCode streaming_;
  mutable std::atomic<bool> may_stream_;
};

}  // namespace

std::shared_ptr<const Compiled> jit(const ir::Program& program, const Tiling& tiling, const Host& host) {
  Source source{program, tiling, host};
  std::optional<LoadedCode> code = source.code(Form::plain, "kernel");
  if (!code) return nullptr;
  return std::make_shared<const Jitted>(std::move(source), std::move(*code));
}

JitCounts jit_counts() noexcept { return {compiled_count.load(), disk_count.load()}; }

}  // namespace tessera::compile::cpu
