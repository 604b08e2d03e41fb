#pragma once

#include <tessera/buffer.hpp>
#include <tessera/detail/access.hpp>

#include "core/inline_vector.hpp"
#include "engine/submission.hpp"

namespace tessera::detail {

// Makes an engine::Call from the caller's handles, which must outlive it.
class KernelCall {
 public:
  KernelCall(const BufferList& inputs, const Buffer& output, kernels::ParamsView params,
             engine::StreamState* stream = nullptr)
      : call_{.output = Access::get(output), .params = params, .stream = stream} {
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_.push_back(Access::get(inputs[i]));
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  const engine::Call& of(std::string_view name, std::span<const std::int64_t> tile = {}) {
    call_.name = name;
    call_.tile = tile;
    return complete();
  }
  const engine::Call& of(const tile::Kernel& kernel) {
    call_.tile_kernel = &kernel;
    return complete();
  }
  const engine::Call& of(const kernels::Kernel& kernel, std::span<const std::int64_t> tile) {
    call_.known = &kernel;
    call_.tile = tile;
    return complete();
  }

 private:
  const engine::Call& complete() {
    call_.inputs = {inputs_.data(), inputs_.size()};
    return call_;
  }

  core::InlineVector<const engine::View*, 4> inputs_;
  engine::Call call_;
};

}  // namespace tessera::detail
