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
#include <utility>
#include <vector>

namespace tessera {

namespace detail::pipeline {
struct HostCallView;
struct PipelineState;
}  // namespace detail::pipeline

// The buffers of a call stage, in the hands of its function.
class TESSERA_API HostCall {
 public:
  // The elements of the buffers that the stage was declared to read, and to write (all of which it must write). T must
  // be the buffer's element type (Errc::dtype_mismatch).
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

// A function of a call stage: takes nothing, or a HostCall&. It may use commands and buffers that its pipeline does not
// use; it must not wait for the run that it is part of, nor for what waits for the run, directly or not
// (Errc::invalid_argument). An exception that leaves it is the stage's failure.
class HostFunction {
 public:
  HostFunction() noexcept = default;
  template <std::invocable<HostCall&> F>
  HostFunction(F function)  // NOLINT(google-explicit-constructor)
      : function_(std::move(function)) {}
  template <std::invocable<> F>
  HostFunction(F function)  // NOLINT(google-explicit-constructor)
      : function_([inner = std::move(function)](HostCall&) mutable { inner(); }) {}

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  void operator()(HostCall& call) const { function_(call); }

 private:
  std::function<void(HostCall&)> function_;
};

// One stage, as it was recorded.
//
//   pipeline.add({.op = StageOp::run_kernel, .kernel = "relu", .inputs = {a}, .output = b, .params = {{"slope",
//   0.1}}});
struct Stage {
  using enum StageOp;  // Stage::copy_buffer

  StageOp op = StageOp::run_kernel;
  std::string kernel = {};                               // its name; of a call what it is called in messages
  std::vector<Buffer> inputs = {};                       // what it reads
  Buffer output = {};                                    // what it writes
  Params params = {};                                    // of a kernel
  std::vector<Buffer> outputs = {};                      // instead of `output`, of a call
  HostFunction function = {};                            // of a call
  std::shared_ptr<const tile::Kernel> tile_kernel = {};  // instead of a kernel's name
  std::vector<std::int64_t> tile = {};  // of its output's tiles, if it matters; else the compiler's choice
};

// When a stage ran, counted from the beginning of its run. Stages that were fused ran together.
struct StageTime {
  std::size_t stage = 0;
  std::string label;  // the kernel's name
  std::size_t group = 0;
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds duration{0};
};
struct RunTimes {
  std::uint64_t run = 0;  // which: 1 is the pipeline's first; 0: none has been timed
  Status status = Status::pending;
  std::chrono::nanoseconds total{0};
  std::vector<StageTime> stages;  // those that were started
};

// Many stages, recorded once, checked at once, planned once and run as often as wanted: a graph whose order follows
// from the buffers, as that of commands does. The result of a run equals that of its stages one by one; stages that
// share nothing run at the same time.
//
//   Pipeline pipeline(device);
//   Buffer blurred = pipeline.temporary(size, u8);
//   pipeline.add("gaussian_blur", {input}, blurred, {{"radius", 3}}).add("grayscale", {blurred}, gray);
//   pipeline.run();
//
// Every member may be called from any thread. A pipeline that was moved from is empty: Errc::invalid_argument.
class TESSERA_API Pipeline {
 public:
  explicit Pipeline(const Device& device, const PipelineOptions& options = {});
  Pipeline(Pipeline&& other) noexcept;
  Pipeline& operator=(Pipeline&& other) noexcept;
  ~Pipeline();  // runs that are under way finish
  // The same stages once more, with temporaries' memory of its own. Handles of this pipeline's temporaries and slots
  // are good for the copy too.
  Pipeline clone() const;

  Device device() const;
  PipelineOptions options() const;

  // Recording. Nothing is checked before compile(), so that it can tell all that is wrong at once.
  Pipeline& add(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {});
  Pipeline& add(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {});
  Pipeline& add(Stage stage);
  // One of the two may be a buffer of another device, which orders the copy as a command of its own.
  Pipeline& copy(const Buffer& from, const Buffer& to);
  Pipeline& fill(const Buffer& output, Value value);
  Pipeline& barrier();
  // A function of the program's own, which reads and writes these buffers and no other that the pipeline uses. It runs
  // on a thread of the device's, if it has any, or on the one that is in run().
  //
  //   pipeline.call("count", [](HostCall& call) { call.output<float>(0)[0] = …; }, {image}, {counts});
  Pipeline& call(HostFunction function, const BufferList& reads, const BufferList& writes);
  Pipeline& call(std::string_view name, HostFunction function, const BufferList& reads, const BufferList& writes);

  // A buffer that lives inside the pipeline: stages write it, then read it. Temporaries that are not needed at the same
  // time share memory, and fusion may make one unnecessary. It can be used nowhere else.
  Buffer temporary(const Shape& shape, DType dtype = f32);
  // A buffer that each run brings: run({{"frame", buffer}}). Errc::invalid_argument for a name that is taken.
  Buffer slot(std::string_view name, const Shape& shape, DType dtype = f32);
  // The value of a parameter that each run may bring: add(…, {{"sigma", pipeline.param("sigma", 1.5)}}). The same name
  // again is the same parameter, with the new default.
  Value param(std::string_view name, Value default_value);

  std::vector<Stage> stages() const;
  std::size_t stage_count() const;

  // Checks everything and makes the plan and its code, as the first run does otherwise. One Error has all that is
  // wrong, a line a problem; its code is the first one's. Nothing has been written then.
  void compile();
  // What is no mistake but hardly meant: stages that write what nobody reads before it is written again.
  std::vector<std::string> warnings();

  // Runs all stages and returns when they are over. Throws if the pipeline or a binding is wrong (and nothing has been
  // written), or if a stage fails: what depends on it then fails too, the rest is done, what should have been written
  // is poisoned, and the pipeline can be run again.
  //
  // A buffer that is bound to a slot must not be used by the pipeline otherwise, if one of the two is written.
  void run(const Bindings& bindings = {});
  void run(const Bindings& bindings, const Stream& stream);
  // The same without waiting: one Command for the whole run. Never throws for what is wrong: the command has then
  // failed already. cancel() stops all of it that has not started; if nothing has, the command is cancelled at once. On
  // a stream a run is one command: one place of max_in_flight, one deadline until which its stages can start. Several
  // runs may be under way at once, as far as the buffers allow; each has its own temporaries.
  Command submit(const Bindings& bindings = {});
  Command submit(const Bindings& bindings, const Stream& stream);

  // What becomes of it, in words: groups, stages, why they are not fused, memory, bytes moved. Compiles first.
  std::string explain();
  // The graph for Graphviz: dot -Tsvg.
  std::string to_dot();
  // The stages as JSON, and back. The caller's own buffers come back as slots, "buffer 0" and so on; kernels are found
  // by their names. Errc::unsupported if there is a call; from_json throws Errc::invalid_argument that names the place.
  std::string to_json() const;
  static Pipeline from_json(const Device& device, std::string_view text);

  // Of the last run that is over and was timed. Of runs so small that they are done at once, by the caller's thread,
  // one in 64 is timed, the first too: the clock takes longer than such a stage.
  RunTimes last_run() const;

  explicit Pipeline(std::unique_ptr<detail::pipeline::PipelineState> state) noexcept;
  detail::pipeline::PipelineState& state(std::string_view call) const;

 private:
  std::unique_ptr<detail::pipeline::PipelineState> state_;
};

}  // namespace tessera
