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
#include <functional>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

class Image;
class Pipeline;

// A processor that runs commands. A shared handle that any thread may use.
//
// A wrong call changes nothing, and its Error names the offending argument. Only members that say so block.
//
// A device belongs to the process that opened it: after fork(), any use of it in the child throws Errc::unsupported.
class TESSERA_API Device {
 public:
  // The default device: the one named by TESSERA_DEVICE, else the first that opens of the discrete GPUs, the other GPUs
  // and the CPU. Every call returns the same device, unless it was lost. Throws Errc::unknown_device if TESSERA_DEVICE
  // names none.
  static Device best();
  // The device of a backend: "cpu", "vulkan", "opencl", "gles"; "vulkan:1" is the second Vulkan device. Every call
  // returns the same device. Throws Errc::unknown_device, whose message lists the available ones.
  //
  // A GPU is lost if it is unplugged, if the system resets it, or if it makes no progress for 60 s, as with a kernel
  // that hangs (TESSERA_GPU_TIMEOUT sets the seconds, 0 for no limit). Its commands then fail with
  // Errc::device_failure, now and later, and its buffers cannot be read; other devices go on. Calling this again opens
  // the GPU anew.
  static Device open(std::string_view backend);
  // The available devices, the CPU first. The first call loads all drivers, which takes a few tenths of a second.
  static std::vector<DeviceInfo> devices();
  // A new device for tests: see simulation.hpp.
  static Device simulated(const SimulationOptions& options = {});

  const DeviceInfo& info() const noexcept;

  // Returns a new buffer with a copy of these values; without a shape it has rank 1. Throws Errc::count_mismatch if the
  // shape has a different number of elements, and Errc::out_of_memory beyond the pool's limit, as do all of these.
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
  // A copy of the pixels: u8 [height,width], [height,width,3] or [height,width,4]. See image.hpp.
  Buffer buffer(const Image& image) const;
  // A copy of raw bytes; Errc::count_mismatch if their number is not the size of the shape.
  template <std::ranges::contiguous_range R>
    requires(sizeof(std::ranges::range_value_t<R>) == 1)
  Buffer from_bytes(const R& bytes, const Shape& shape, DType dtype) const {
    return from_bytes(std::as_bytes(std::span(std::ranges::data(bytes), std::ranges::size(bytes))), shape, dtype);
  }
  Buffer from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype) const;
  // A buffer of the caller's memory, which is used in place where that is possible: on the CPU, if it is aligned to 64
  // bytes. It belongs to the buffer from now on and must be accessed only through it, by map() for example, until
  // `release` is called: once, on any thread, when nothing uses it any more. Elsewhere the contents are copied, and
  // `release` is called before wrap returns. Memory in place does not count against the pool's limit. `release` must
  // not throw, and is not called if wrap throws.
  //
  //   device.wrap({pixels, size}, {1080, 1920, 4}, u8, [=] { std::free(pixels); })
  Buffer wrap(std::span<std::byte> bytes, const Shape& shape, DType dtype, std::function<void()> release) const;
  Buffer zeros(const Shape& shape, DType dtype = f32) const;
  // Uninitialised, for outputs that are written completely.
  Buffer empty(const Shape& shape, DType dtype = f32) const;

  // Runs a kernel, given by name or as a tile program (tile.hpp), and blocks until the output is written. Runs on the
  // calling thread if no earlier command is in the way. Throws if the call is wrong, without running anything, or if
  // the command fails. The first call with given types and ranks compiles the kernel.
  void run(std::string_view kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;
  void run(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output, const Params& params = {}) const;

  // Like run, but returns a command at once. Never blocks, and never throws for a wrong call: the command has then
  // already failed, without running anything; its wait() throws, and its output is poisoned. Work so small that
  // scheduling it would cost more than running it is done before submit returns, unless it has to be compiled first.
  Command submit(std::string_view kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;
  Command submit(const tile::Kernel& kernel, const BufferList& inputs, const Buffer& output,
                 const Params& params = {}) const;

  // Names a copy of a pipeline of this device, so that run and submit below find it. It is kept until the name is
  // defined again or the device is destroyed. Compiles the pipeline, and throws as Pipeline::compile does.
  //
  //   device.define_command("preview", pipeline);
  //   device.submit("preview", {{"frame", buffer}});
  void define_command(std::string_view name, const Pipeline& pipeline) const;
  // Runs a pipeline by name, like Pipeline::run and submit. An unknown name is Errc::unknown_command.
  void run(std::string_view command, const Bindings& bindings = {}) const;
  Command submit(std::string_view command, const Bindings& bindings = {}) const;

  // Like Command::poll, wait and cancel, by number. Numbers stay valid for at least 65,536 commands after their own has
  // finished. Throws Errc::unknown_command for a number that was never assigned or has expired.
  Status poll(CommandId id) const;
  void wait(CommandId id) const;
  bool cancel(CommandId id) const;

  // The kernels that run and submit find by name, sorted.
  std::vector<KernelInfo> kernels() const;

  MemoryInfo memory() const;
  // Sets the pool's limit. Throws Errc::invalid_argument if live buffers take more; their blocks may be up to an eighth
  // larger than the buffers.
  void set_memory_limit(std::size_t bytes) const;
  // Returns unused pool memory to the device, and the number of bytes to the caller. Also releases what the runtime
  // keeps for commands that have finished.
  std::size_t trim_memory() const;

  PowerLevel power_level() const;
  void set_power_level(PowerLevel level) const;

  // A new stream on this device: see stream.hpp.
  Stream stream(const StreamOptions& options = {}) const;

  // Blocks until every command submitted before the call has finished, memory that only those commands held is back in
  // the pool, and their on_complete callbacks have returned. (From inside a callback it waits for the commands only,
  // and on a worker thread not for callbacks.)
  //
  // Then throws the oldest exception that left a callback or, if there is none, the oldest failure of a command,
  // pipeline run or dropped operation that nobody has looked at: not by wait(), poll() or error(), nor by reading what
  // it poisoned. Cancelled commands and those that a full stream refused are not failures. Each is thrown once; the
  // device goes on.
  void synchronize() const;

  friend bool operator==(const Device&, const Device&) noexcept = default;

  Device(const Device& other) noexcept;  // no move: a device is never empty
  Device& operator=(const Device& other) noexcept;
  ~Device();

 private:
  friend struct detail::Access;
  explicit Device(detail::Ref<detail::engine::DeviceState> ref) noexcept;
  Buffer make_buffer(std::span<const std::byte> bytes, std::size_t values, const Shape& shape, DType dtype) const;
  detail::Ref<detail::engine::DeviceState> ref_;
};

}  // namespace tessera
