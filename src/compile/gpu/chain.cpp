// Combines several kernels into one.
#include "compile/gpu/printer.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <set>

namespace tessera::compile::gpu {

using core::text;

namespace {

// Memory as a kernel declares it. Memory that two links declare with different element types is bound twice.
struct Binding {
  int memory;
  std::string element;

  bool operator==(const Binding&) const = default;
};

constexpr std::string_view word = "uint";  // the element of scratch memory

std::int64_t bytes_of(const Kernel::Array& array) {
  return array.elements * (array.type == "double" || array.type == "int64_t" ? 8 : 4);
}

class Chain {
 public:
  Chain(std::span<const Link> links, const Target& target) : links_(links), target_(target) {}

  std::optional<Kernel> print() {
    result_.group = target_.group;
    result_.points = 1;
    for (std::size_t number = 0; number < links_.size(); ++number) add(links_[number], number);
    result_.has_push_constants = result_.argument_words * 4 <= target_.push_bytes;
    const std::size_t bound = bindings_.size() + (result_.has_push_constants ? 0 : 1);
    if (bound > static_cast<std::size_t>(target_.most_buffers) || shared_bytes_ > target_.shared_bytes) {
      return std::nullopt;
    }
    for (const Binding& binding : bindings_) {
      result_.buffers.push_back(binding.memory);
      result_.is_written.push_back(written_.contains(binding.memory));
    }
    result_.source = text(head(target_), "layout(local_size_x = ", target_.group, ") in;\n", declared_buffers(),
                          shared_, functions(bodies_, target_), bodies_, "void main() {\n", calls_, "}\n");
    return std::move(result_);
  }

 private:
  // Macros map the names in a link's text to those of the chain.
  void add(const Link& link, std::size_t number) {
    const Kernel& kernel = *link.kernel;
    std::string names, forgotten;
    const auto stands_for = [&](std::string_view name, const std::string& what) {
      names += text("#define ", name, " ", what, "\n");
      forgotten += text("#undef ", name, "\n");
    };
    for (std::size_t i = 0; i < kernel.buffers.size(); ++i) {
      stands_for(text("b", kernel.buffers[i]), text("m", bind(link.memory[i], kernel.parts.elements[i])));
      if (kernel.is_written[i]) written_.insert(link.memory[i]);
    }
    if (kernel.has_scratch) {
      stands_for("scratch", text("m", bind(link.memory.back(), std::string(word))));
      written_.insert(link.memory.back());
    }
    for (const Kernel::Array& array : kernel.parts.shared) {
      const std::string name = text(array.name, "_of_", number);
      stands_for(array.name, name);
      shared_ += text("shared ", array.type, " ", name, "[", array.elements, "];\n");
      shared_bytes_ += bytes_of(array);
    }
    stands_for("arguments", text("arguments_of_", number));
    arguments_ += text(" int arguments_of_", number, "[", kernel.argument_words, "];");
    result_.argument_words += kernel.argument_words;

    bodies_ += text(names, "void link_", number, "() {\n",
                    "  int lane = int(gl_LocalInvocationID.x);\n  int group = 0;\n  int groups = 1;\n",
                    kernel.parts.body, "}\n", forgotten);
    if (number > 0) calls_ += text("  ", Syntax(target_).barrier(), "\n");
    calls_ += text("  link_", number, "();\n");
  }

  std::size_t bind(int memory, const std::string& element) {
    const Binding wanted{memory, element};
    const auto found = std::ranges::find(bindings_, wanted);
    if (found != bindings_.end()) return static_cast<std::size_t>(found - bindings_.begin());
    bindings_.push_back(wanted);
    return bindings_.size() - 1;
  }

  std::string declared_buffers() const {
    std::string result;
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      // An invocation may read what another one wrote, after a barrier.
      const char* access = written_.contains(bindings_[i].memory) ? "coherent" : "readonly";
      result += text("layout(std430, set = 0, binding = ", i, ") ", access, " buffer M", i, " { ", bindings_[i].element,
                     " m", i, "[]; };\n");
    }
    result += result_.has_push_constants
                  ? std::string("layout(push_constant) uniform Arguments {")
                  : text("layout(std430, set = 0, binding = ", bindings_.size(), ") readonly buffer Arguments {");
    return result + arguments_ + " };\n";
  }

  std::span<const Link> links_;
  const Target& target_;
  std::vector<Binding> bindings_;
  std::set<int> written_;  // memory
  std::int64_t shared_bytes_ = 0;
  std::string arguments_, shared_, bodies_, calls_;
  Kernel result_;
};

}  // namespace

std::optional<Kernel> chain(std::span<const Link> links, const Target& target) {
  if (target.dialect != Dialect::vulkan) return std::nullopt;
  return Chain(links, target).print();
}

}  // namespace tessera::compile::gpu
