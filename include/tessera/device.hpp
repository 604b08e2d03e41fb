#pragma once

#include <tessera/bindings.hpp>
#include <tessera/buffer.hpp>
#include <tessera/command.hpp>
#include <tessera/detail/access.hpp>
#include <tessera/detail/export.hpp>
#include <tessera/detail/handle.hpp>
#include <tessera/device_info.hpp>
#include <tessera/dtype.hpp>
#include <tessera/kernel_info.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>
#include <tessera/simulation.hpp>
#include <tessera/stream.hpp>
#include <tessera/values.hpp>

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class Image;
class Pipeline;

// A processor that runs commands: a shared handle. Any thread may use any device.
//
// Where a call can fail, the message names the culprit; nothing was changed when it throws.
//
// A device belongs to the process that opened it: in a child that fork() made, every use of it is Errc::unsupported.
class TESSERA_API Device {
 public:
  // The device to use when the program has no wish: the one that TESSERA_DEVICE names, else the first that can be
  // opened of the GPUs with memory of their own, the other GPUs, and the processor. Every call gives the same device.
  static Device best();
  // The device of a backend: "cpu", "vulkan", "opencl", "gles"; "vulkan:1" is the second one of its kind. The same
  // device at every call. Errc::unknown_device lists what there is.
  static Device open(std::string_view backend);
  // What there is to open, the processor first. The first call asks all loaders, which takes some tenths of a second.
  static std::vector<DeviceInfo> devices();
  // A device of its own for tests: see simulation.hpp.
  static Device simulated(const SimulationOptions& options = {});

  const DeviceInfo& info() const noexcept;

  // A new buffer with these values, copied before the call returns; their number must be that of the shape's elements
  // (Errc::count_mismatch), and without a shape it is a vector. Errc::out_of_memory beyond the pool's limit.
  //
  //   device.buffer<float>({1, 2, 3}, {3})   device.buffer<float>(vector, {480, 640})
  template <Element T>
  Buffer buffer(const Values<T>& values, const Shape& shape) const {
    return make_buffer(std::as_bytes(values.span()), values.span().size(), shape, dtype_of<T>);
  }
  template <Element T>
  Buffer buffer(const Values<T>& values) const {
    return buffer<T>(values, Shape(values.span().size()));
  }
  // With a copy of the pixels: u8 [height,width], [height,width,3] or [height,width,4] (image.hpp).
  Buffer buffer(const Image& image) const;
  // From raw bytes (Errc::count_mismatch if there are not exactly as many as the shape needs).
  template <std::ranges::contiguous_range R>
    requires(sizeof(std::ranges::range_value_t<R>) == 1)
  Buffer from_bytes(const R& bytes, const Shape& shape, DType dtype) const {
    return from_bytes(std::as_bytes(std::span(std::ranges::data(bytes), std::ranges::size(bytes))), shape, dtype);
  }
  Buffer from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype) const;
  Buffer zeros(const Shape& shape, DType dtype = f32) const;
  // With any contents: for outputs that are written whole.
  Buffer empty(const Shape& shape, DType dtype = f32) const;

  // Runs a kernel, by its name or as it is (tile.hpp), and returns when the output is written: on the caller's thread
  // if nothing is ahead of it. Throws if the call is wrong (and has changed nothing) or if the command fails. The first
  // call of a kind compiles the kernel.
  void run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  void run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;

  // The same without waiting. Never blocks, never throws for a wrong call: the command has then already failed, has
  // changed nothing, and its wait() throws. Work so small that handing it over would cost more than doing it is done
  // before submit returns; what has to be compiled first is not.
  Command submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;
  Command submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;

  // Gives a pipeline of this device a name, under which run and submit know it from now on: a copy of it as it is now,
  // kept until the name is given again or the last handle of the device goes. Throws as Pipeline::compile.
  //
  //   device.define_command("preview", pipeline);
  //   device.submit("preview", {{"frame", buffer}});
  void define_command(std::string_view name, const Pipeline& pipeline) const;
  // Runs such a pipeline, as Pipeline::run and submit do. An unknown name is Errc::unknown_command.
  void run(std::string_view command, const Bindings& bindings = {}) const;
  Command submit(std::string_view command, const Bindings& bindings = {}) const;

  // As the Command's members, by number, which is known for at least 65,536 commands after the end of its own.
  // Errc::unknown_command for one that was never given out or is not known any more.
  Status poll(CommandId id) const;
  void wait(CommandId id) const;
  bool cancel(CommandId id) const;

  // The kernels that run and submit know.
  std::vector<KernelInfo> kernels() const;

  MemoryInfo memory() const;
  // The pool's limit: Errc::invalid_argument if it is below what live buffers take (their blocks may be an eighth
  // larger than they are).
  void set_memory_limit(std::size_t bytes) const;
  // Gives the memory that no buffer uses back to the device; returns the number of bytes.
  std::size_t trim_memory() const;

  PowerLevel power_level() const;
  void set_power_level(PowerLevel level) const;

  Stream stream(const StreamOptions& options = {}) const;

  // Blocks until every command submitted before the call is over, memory that only such commands kept has gone back to
  // the pool, and their on_complete callbacks have returned; the latter two not where it is called in a callback, nor
  // the last on a thread of the device's. Throws what left a callback, not the errors of commands: those stay with the
  // commands and the buffers they poisoned.
  void synchronize() const;

  friend bool operator==(const Device&, const Device&) noexcept = default;

  Device(const Device& other) noexcept;  // there is no move: a device is never empty
  Device& operator=(const Device& other) noexcept;
  ~Device();

 private:
  friend struct detail::Access;
  explicit Device(detail::Ref<detail::engine::DeviceState> ref) noexcept;
  Buffer make_buffer(std::span<const std::byte> bytes, std::size_t values, const Shape& shape, DType dtype) const;
  detail::Ref<detail::engine::DeviceState> ref_;
};

}  // namespace tessera
