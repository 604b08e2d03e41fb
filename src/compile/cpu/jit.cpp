#include "compile/cpu/jit.hpp"

#include <tessera/error.hpp>

#include "compile/compiler_exit_guard.hpp"
#include "compile/cpu/llvm/plugin.hpp"
#include "compile/cpu/object_code.hpp"
#include "compile/disk_cache.hpp"
#include "compile/dump.hpp"
#include "compile/emitter_version.hpp"
#include "core/text.hpp"
#include "ir/ir.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace tessera::compile::cpu {

namespace {

std::atomic<std::uint64_t> compiled_count{0};
std::atomic<std::uint64_t> disk_count{0};

// The plugin, opened when something is first compiled; null if there is none.
const Plugin* plugin() {
  static const Plugin* const opened = []() -> const Plugin* {
    // Searched for beside this library and in the program's library path, or only in TESSERA_PLUGIN_DIR.
    std::string file = "libtessera_llvm.so";
    if (const char* folder = std::getenv("TESSERA_PLUGIN_DIR")) file = std::string(folder) + "/" + file;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const std::string why = dlerror();
      if (why.find("cannot open shared object file") != std::string::npos) return nullptr;
      throw Error(Errc::internal, "cannot load the compiler plugin: " + why);
    }
    const auto* found = static_cast<const Plugin*>(dlsym(handle, plugin_symbol));
    if (!found || std::string_view(found->version) != emitter_version) {
      throw Error(Errc::internal, "the compiler plugin " + file + " was built for another version of this library");
    }
    CompilerExitGuard::close_at_exit();
    return found;
  }();
  return opened;
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
  core::Hash128 hash() const { return core::hash128(std::as_bytes(std::span(bytes_))); }

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

// A thread's scratch memory, which is reused by the next call unless it is large.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) {
    if (bytes == 0) return;
    Block& block = own_block();
    if (block.size < static_cast<std::size_t>(bytes)) {
      block.memory.reset(
          static_cast<std::byte*>(std::aligned_alloc(64, (static_cast<std::size_t>(bytes) + 63) / 64 * 64)));
      block.size = block.memory ? static_cast<std::size_t>(bytes) : 0;
      if (!block.memory) {
        throw Error(Errc::out_of_memory, core::text("cannot allocate ", bytes, " bytes of scratch memory for a tile"));
      }
    }
    address = block.memory.get();
  }
  ~Scratch() {
    constexpr std::size_t largest_reused = std::size_t{16} << 20;
    if (address && own_block().size > largest_reused) own_block() = {};
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* address = nullptr;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
  };
  static Block& own_block() {
    static thread_local Block block;
    return block;
  }
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
  std::optional<ObjectCode> code(Form form, std::string_view entry) const;
};

std::optional<ObjectCode> Source::code(Form form, std::string_view entry) const {
  const core::Hash128 key = Key(program, tiling, host, form).hash();
  const Dump dump{dump_wants,
                  [&](std::string_view step, const std::string& text) { dump_show(program.name, step, text); }};
  const bool is_dumped = dump.wants("llvm") || dump.wants("asm");  // cached code would not show these steps
  if (const auto object = is_dumped ? std::nullopt : disk_cache().find(key)) {
    try {
      ObjectCode loaded(*object);
      loaded.find(entry);
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
  ObjectCode compiled(object);
  disk_cache().store(key, object);
  if (form == Form::plain) ++compiled_count;
  return compiled;
}

class Jitted final : public Compiled {
 public:
  Jitted(Source source, ObjectCode code)
      : source_(std::move(source)),
        code_(std::move(code)),
        scratch_(code_.function<std::int64_t(const std::int64_t*)>("scratch")),
        kernel_(code_.function<Kernel>("kernel")),
        streaming_(code_.try_find("kernel_can_stream") ? nullptr : kernel_) {
    tiling = source_.tiling;
    for (const ir::Buffer& buffer : source_.program.buffers) dims_ += buffer.dims.size();
  }

  void run(const Arguments& arguments, std::int64_t begin, std::int64_t end) const override {
    if (has_empty_input(arguments)) {  // the code must not read from an empty buffer
      interpret(source_.program, tiling, arguments, begin, end);
      return;
    }
    const Scratch scratch(scratch_(arguments.dims));
    Kernel* kernel = is_large(arguments) ? streaming() : kernel_;
    kernel(arguments.buffers, arguments.dims, arguments.scalars, scratch.address, begin, end);
  }

 private:
  using Kernel = void(std::byte* const*, const std::int64_t*, const std::uint64_t*, std::byte*, std::int64_t,
                      std::int64_t);

  bool has_empty_input(const Arguments& arguments) const {
    for (std::size_t i = tiling.extents.size(); i < dims_; ++i) {
      if (arguments.dims[i] == 0) return true;
    }
    return false;
  }
  bool is_large(const Arguments& arguments) const {
    const std::vector<ir::Buffer>& buffers = source_.program.buffers;
    std::int64_t bytes = ir::bits_of(buffers[0].type) / 8;
    for (int axis = 0; axis < buffers[0].rank(); ++axis) bytes *= arguments.dims[axis];
    if (bytes < least_streaming_bytes || bytes < streaming_bytes()) return false;
    // If the output is also an input, it is in the caches already.
    return std::find(arguments.buffers + 1, arguments.buffers + buffers.size(), arguments.buffers[0]) ==
           arguments.buffers + buffers.size();
  }

  // The kernel with non-temporal stores. Compiled when it is first needed: most programs never need it, and it takes as
  // long as the plain one. Meanwhile, or if there is none, calls use the plain kernel.
  Kernel* streaming() const {
    if (Kernel* ready = streaming_.load(std::memory_order_acquire)) return ready;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return kernel_;
    if (Kernel* ready = streaming_.load(std::memory_order_relaxed)) return ready;
    Kernel* made = kernel_;
    try {
      streaming_code_ = source_.code(Form::streaming, "kernel_streaming");
      if (streaming_code_) made = streaming_code_->function<Kernel>("kernel_streaming");
    } catch (const Error&) {
      // The plain kernel computes the same.
    }
    streaming_.store(made, std::memory_order_release);
    return made;
  }

  Source source_;
  std::size_t dims_ = 0;  // of all buffers
  ObjectCode code_;
  std::int64_t (*scratch_)(const std::int64_t*);
  Kernel* kernel_;
  mutable std::mutex mutex_;
  mutable std::optional<ObjectCode> streaming_code_;
  mutable std::atomic<Kernel*> streaming_;  // null: not known yet
};

}  // namespace

std::shared_ptr<const Compiled> jit(const ir::Program& program, const Tiling& tiling, const Host& host) {
  Source source{program, tiling, host};
  std::optional<ObjectCode> code = source.code(Form::plain, "kernel");
  if (!code) return nullptr;
  return std::make_shared<const Jitted>(std::move(source), std::move(*code));
}

JitCounts jit_counts() noexcept { return {compiled_count.load(), disk_count.load()}; }

}  // namespace tessera::compile::cpu
