// User functions as stages of a pipeline.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "engine/self_wait.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace tessera::detail::pipeline {

using core::text;

namespace {

// Buffers that the host cannot address are copied to the host, and the outputs back to the device.
void copy_to_host(HostCallView& view) {
  driver::Driver& driver = *view.work.device->driver;
  const auto copy = [&](const Storage& storage, const plan::Use& use) {
    std::vector<std::byte>& bytes = view.copies.emplace_back();
    if (driver.host_address(storage.block.address)) return;
    bytes.resize(use.bytes());
    driver.download(bytes, storage.block.address);
  };
  for (std::size_t i = 0; i < view.group.input_uses.size(); ++i) copy(*view.work.inputs[i], view.group.input_uses[i]);
  for (std::size_t i = 0; i < view.group.output_uses.size(); ++i)
    copy(*view.work.outputs[i], view.group.output_uses[i]);
}

void copy_to_device(const HostCallView& view) {
  const std::size_t first = view.group.input_uses.size();
  for (std::size_t i = 0; i < view.group.output_uses.size(); ++i) {
    const std::vector<std::byte>& bytes = view.copies[first + i];
    if (!bytes.empty()) view.work.device->driver->upload(view.work.outputs[i]->block.address, bytes);
  }
}

}  // namespace

void call_host_function(const plan::CompiledGroup& group, const HostFunction& function, const Work& work) {
  work.device->scheduler->before_user_code();
  HostCallView view{group, work, {}};
  if (work.device->queue) copy_to_host(view);
  HostCall call(view);
  const engine::InHostCall in_call(work);
  try {
    function(call);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Errc::call_failed, error.what());
  } catch (...) {
    throw Error(Errc::call_failed, "a non-std::exception was thrown");
  }
  if (work.device->queue) copy_to_device(view);
}

}  // namespace tessera::detail::pipeline

namespace tessera {

namespace {

using Kind = std::string_view;

// One of a call's buffers; `first` is the index of the first copy of that kind.
std::span<std::byte> bytes_of(const detail::pipeline::HostCallView& view, Kind kind, const std::vector<plan::Use>& uses,
                              detail::pipeline::Storage* const* storages, std::size_t first, std::size_t index,
                              DType dtype) {
  const auto what = [&] { return core::text("[", view.group.label, "] ", kind, " ", index); };
  if (index >= uses.size()) {
    throw Error(Errc::count_mismatch, core::text(what(), ": the call has ", uses.size(), " ", kind, "s"));
  }
  const plan::Use& use = uses[index];
  if (use.dtype != dtype) {
    throw Error(Errc::dtype_mismatch,
                core::text(what(), " is ", to_string(use.dtype, use.shape), ", not ", to_string(dtype)));
  }
  if (!view.copies.empty() && !view.copies[first + index].empty()) {
    const std::vector<std::byte>& copy = view.copies[first + index];
    return {const_cast<std::byte*>(copy.data()), copy.size()};
  }
  std::byte* address = view.work.device->driver->host_address(storages[index]->block.address);
  return {address, use.bytes()};
}

const Shape& shape_of(const detail::pipeline::HostCallView& view, Kind kind, const std::vector<plan::Use>& uses,
                      std::size_t index) {
  if (index < uses.size()) return uses[index].shape;
  throw Error(Errc::count_mismatch, core::text("[", view.group.label, "] ", kind, " ", index, ": the call has ",
                                               uses.size(), " ", kind, "s"));
}

}  // namespace

std::span<std::byte> HostCall::input_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "input", view_.group.input_uses, view_.work.inputs.data(), 0, index, dtype);
}
std::span<std::byte> HostCall::output_bytes(std::size_t index, DType dtype) const {
  return bytes_of(view_, "output", view_.group.output_uses, view_.work.outputs.data(), view_.group.input_uses.size(),
                  index, dtype);
}
const Shape& HostCall::input_shape(std::size_t index) const {
  return shape_of(view_, "input", view_.group.input_uses, index);
}
const Shape& HostCall::output_shape(std::size_t index) const {
  return shape_of(view_, "output", view_.group.output_uses, index);
}

}  // namespace tessera
