#pragma once

#include <tessera/bindings.hpp>
#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/device.hpp>
#include <tessera/params.hpp>
#include <tessera/stage.hpp>
#include <tessera/stream.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

namespace detail::pipeline {
struct HostCallView;
struct PipelineState;
}  // namespace detail::pipeline

// Access to the buffers of a call stage from its function.
class TESSERA_API HostCall {
 public:
  // The elements of the index-th buffer that the stage reads or writes; every element of an output must be written.
  // Throws Errc::dtype_mismatch if T is not the buffer's element type.
  template <Element T>
  std::span<const T> input(std::size_t index) const {
    const std::span<std::byte> bytes = input_bytes(index, dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <Element T>
  std::span<T> output(std::size_t index) const {
    const std::span<std::byte> bytes = output_bytes(index, dtype_of<T>);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  const Shape& input_shape(std::size_t index) const;
  const Shape& output_shape(std::size_t index) const;

  explicit HostCall(const detail::pipeline::HostCallView& view) noexcept : view_(view) {}

 private:
  std::span<std::byte> input_bytes(std::size_t index, DType dtype) const;
  std::span<std::byte> output_bytes(std::size_t index, DType dtype) const;
  const detail::pipeline::HostCallView& view_;
};

// The function of a call stage, taking nothing or a HostCall&. It may use commands and buffers that its pipeline does
// not use. It must not wait, directly or indirectly, for the run it is part of (Errc::invalid_argument). If it throws,
// the stage fails.
class HostFunction {
 public:
  HostFunction() noexcept = default;
  template <std::invocable<HostCall&> F>
  HostFunction(F function)  // NOLINT(google-explicit-constructor)
      : function_(std::move(function)) {}
  template <std::invocable<> F>
  HostFunction(F function) {  // NOLINT(google-explicit-constructor)
    if (is_empty(function)) return;
    function_ = [inner = std::move(function)](HostCall&) mutable { inner(); };
  }

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  void operator()(HostCall& call) const { function_(call); }

 private:
  // A null pointer to a function, or an empty std::function.
  template <class F>
  static bool is_empty(const F& function) noexcept {
    if constexpr (std::is_pointer_v<F> || (std::constructible_from<F, std::nullptr_t> && std::is_class_v<F> &&
                                           std::constructible_from<bool, const F&>)) {
      return !static_cast<bool>(function);
    } else {
      return false;
    }
  }

  std::function<void(HostCall&)> function_;
};

// A recorded stage.
//
//   pipeline.add({.op = StageOp::run_kernel, .kernel = "relu", .inputs = {a}, .output = b, .params = {{"slope",
//   0.1}}});
struct Stage {
  using enum StageOp;  // Stage::copy_buffer

  StageOp op = StageOp::run_kernel;
  std::string kernel = {};                               // the kernel's name; for a call, its name in messages
  std::vector<Buffer> inputs = {};                       // buffers it reads
  Buffer output = {};                                    // the buffer it writes
  Params params = {};                                    // of a kernel
  std::vector<Buffer> outputs = {};                      // for a call, instead of `output`
  HostFunction function = {};                            // of a call
  std::shared_ptr<const tile::Kernel> tile_kernel = {};  // instead of a kernel's name
  std::vector<std::int64_t> tile = {};                   // tile shape of the output; empty: the compiler's choice
};

// When a stage ran, relative to the start of its run. Fused stages share a group and its times.
struct StageTime {
  std::size_t stage = 0;
  std::string label;  // the kernel's name
  std::size_t group = 0;
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds compiling{0};  // of the group's code, before the start; 0 once it is compiled
};
struct RunTimes {
  std::uint64_t run = 0;  // number of the run, from 1; 0: none has been timed
  Status status = Status::pending;
  std::chrono::nanoseconds total{0};
  std::vector<StageTime> stages;  // stages that started
};

// Many stages, recorded, checked and planned once, then run any number of times. Like commands, stages are ordered by
// the buffers they share; independent stages run in parallel. A run has the same result as its stages one by one.
//
//   Pipeline pipeline(device);
//   Buffer blurred = pipeline.temporary(size, u8);
//   pipeline.add("gaussian_blur", {input}, blurred, {{"radius", 3}}).add("grayscale", {blurred}, gray);
//   pipeline.run();
//
// Any thread may call any member. Using a moved-from pipeline throws Errc::invalid_argument.
class TESSERA_API Pipeline {
 public:
  explicit Pipeline(const Device& device, const PipelineOptions& options = {});
  Pipeline(Pipeline&& other) noexcept;
  Pipeline& operator=(Pipeline&& other) noexcept;
  ~Pipeline();  // does not wait; runs in flight finish
  // Returns a copy with its own memory for temporaries. This pipeline's temporary and slot handles are valid for it
  // too.
  Pipeline clone() const;

  Device device() const;
  PipelineOptions options() const;

  // Record a stage and return *this. compile() checks the stages and reports all errors at once; only a call without a
  // function is refused here, with Errc::invalid_argument.
  Pipeline& add(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {});
  Pipeline& add(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {});
  Pipeline& add(Stage stage);
  // One of the buffers may be on another device, which orders the copy like a command of its own.
  Pipeline& copy(const Buffer& from, const Buffer& to);
  Pipeline& fill(const Buffer& output, Value value);
  Pipeline& barrier();
  // Calls a user function, which may access only these of the pipeline's buffers. It runs on a worker thread of the
  // device if it has any, otherwise on the thread that called run().
  //
  //   pipeline.call("count", [](HostCall& call) { call.output<float>(0)[0] = …; }, {image}, {counts});
  Pipeline& call(HostFunction function, const BufferList& reads, const BufferList& writes);
  Pipeline& call(std::string_view name, HostFunction function, const BufferList& reads, const BufferList& writes);

  // A buffer that exists only inside the pipeline: stages write it, then read it. Temporaries with disjoint lifetimes
  // share memory, and fusion may eliminate one altogether.
  Buffer temporary(const Shape& shape, DType dtype = f32);
  // A buffer that each run binds: run({{"frame", buffer}}). Throws Errc::invalid_argument if the name is taken.
  Buffer slot(std::string_view name, const Shape& shape, DType dtype = f32);
  // A parameter that each run may bind: add(…, {{"sigma", pipeline.param("sigma", 1.5)}}). Calling it again with the
  // same name changes the default.
  Value param(std::string_view name, Value default_value);

  std::vector<Stage> stages() const;
  std::size_t stage_count() const;

  // Checks all stages, plans them and compiles their code, on all workers; otherwise the first run does. Blocks. Throws
  // one Error that lists every problem, one per line, with the code of the first.
  void compile();
  // Probably unintended: stages whose output is overwritten before anything reads it. Compiles first.
  std::vector<std::string> warnings();

  // Runs all stages and blocks until they have finished. Throws if the pipeline or a binding is wrong, without running
  // anything, or if a stage fails: stages that depend on it then fail too, the others complete, unwritten outputs are
  // poisoned, and the pipeline can be run again.
  //
  // A buffer bound to a slot must not be used elsewhere in the pipeline if either use writes it.
  void run(const Bindings& bindings = {});
  void run(const Bindings& bindings, const Stream& stream);
  // Like run, but returns one Command for the whole run at once. Never throws for a wrong call: the command has then
  // already failed. cancel() stops every stage that has not started; if none has, the command is cancelled at once.
  // Several runs may be in flight as far as their buffers allow; each has its own temporaries.
  //
  // On a stream a run counts as one command: one unit of max_in_flight, one deadline by which its stages must start.
  // Blocks only if the stream is full and has WhenFull::block.
  Command submit(const Bindings& bindings = {});
  Command submit(const Bindings& bindings, const Stream& stream);

  // The plan as text: groups, their stages, why stages are not fused, memory, bytes moved. Compiles first.
  std::string explain();
  // The plan as a graph for Graphviz: dot -Tsvg. Compiles first.
  std::string to_dot();
  // The stages as JSON, and back. Buffers other than temporaries and slots become slots, "buffer 0" and so on; kernels
  // are found by name. to_json throws Errc::unsupported if there is a call stage; from_json throws
  // Errc::invalid_argument with the position of the error.
  std::string to_json() const;
  static Pipeline from_json(const Device& device, std::string_view text);

  // Times of the last finished run that was timed. Of runs so small that the calling thread does them at once, only the
  // first and one in 64 are timed, since reading the clock takes longer than such a stage.
  RunTimes last_run() const;

  explicit Pipeline(std::unique_ptr<detail::pipeline::PipelineState> state) noexcept;
  detail::pipeline::PipelineState& state(std::string_view call) const;

 private:
  std::unique_ptr<detail::pipeline::PipelineState> state_;
};

}  // namespace tessera
