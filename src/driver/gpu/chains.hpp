#pragma once

#include "compile/gpu/source.hpp"
#include "driver/gpu/api.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tessera::driver::gpu {

// Small kernels merged into one (compile::gpu::chain), keyed by the kernels and by which of their buffers are the same.
// Kept for the lifetime of the device.
class Chains {
 public:
  // A call, and whether it may be part of a chain.
  struct Part {
    const compile::gpu::Kernel* kernel = nullptr;
    bool is_link = false;  // a single workgroup does it
    std::int64_t steps = 0;
  };

  explicit Chains(Api& api) : api_(api) {}

  // The number of calls, starting with `first`, that can form a chain; below 2: none.
  std::size_t length(std::span<const Part> parts, std::size_t first) const;

  // Compiles the kernel that replaces these calls. If that fails, they stay separate.
  void prepare(std::span<const Part> parts, std::span<const Dispatch> calls);
  // The call that replaces these, if it was prepared.
  std::optional<Dispatch> find(std::span<const Part> parts, std::span<const Dispatch> calls);

 private:
  // Compile time grows with the length: a chain of ten `scale` takes lavapipe a quarter of a second.
  static constexpr std::size_t longest = 16;
  using Key = std::vector<std::pair<const compile::gpu::Kernel*, std::vector<int>>>;
  struct Code {
    std::unique_ptr<Module> module;
    std::vector<int> bindings;  // numbers of buffers
  };

  static Key key_of(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory);
  Code make(std::span<const Part> parts, std::span<const Dispatch> calls, std::vector<int>& memory);

  Api& api_;
  std::mutex mutex_;
  std::map<Key, Code> known_;
};

}  // namespace tessera::driver::gpu
