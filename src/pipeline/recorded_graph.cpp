// Turns recorded stages into a graph of numbered buffers, and finds what is wrong with them so far.
#include <tessera/error.hpp>

#include "core/text.hpp"
#include "pipeline/pipeline_state.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tessera::detail::pipeline {

const Buffer* borrowed_of(const Stage& stage, const DeviceState& device) {
  if (stage.op != StageOp::copy_buffer || stage.inputs.size() != 1 || !stage.inputs[0] || !stage.output) return nullptr;
  const auto is_own = [&](const Buffer& buffer) { return Access::get(buffer)->storage->device.get() == &device; };
  const Buffer &from = stage.inputs[0], &to = stage.output;
  if (is_own(from) == is_own(to)) return nullptr;
  return is_own(from) ? &to : &from;
}

namespace {

using core::text;
using plan::Graph;
using plan::GraphBuffer;
using plan::GraphStage;
using plan::Problem;
using plan::Use;

// Builds the graph, stage by stage.
class GraphMaker {
  // A call's name is part of its messages, and may be any text.
  static constexpr std::size_t longest_label = 256;

 public:
  GraphMaker(const PipelineState& pipeline, std::vector<Buffer>& buffers, std::vector<Problem>& problems)
      : device_(*pipeline.device), buffers_(buffers), problems_(problems) {
    graph_.params = pipeline.params;
    for (const Param& param : graph_.params) taken_.insert(param.name);
    for (const PipelineState::Placeholder& placeholder : pipeline.placeholders) {
      add(placeholder.handle, placeholder.kind, placeholder.name);
    }
  }

  void add(const Stage& stage) {
    GraphStage& made = graph_.stages.emplace_back();
    made.op = stage.op;
    made.label = label_of(stage);
    made.params = stage.params;
    made.tile = stage.tile;
    const bool is_call = stage.op == StageOp::call;
    find_ignored(stage);
    if (stage.op == StageOp::barrier) return;
    if (const Buffer* borrowed = borrowed_of(stage, device_)) return add_copy_between(stage, *borrowed, made);
    if (stage.op == StageOp::run_kernel || stage.op == StageOp::copy_buffer) set_kernel(stage, made);
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) add_use(stage.inputs[i], text("input ", i), made.inputs);
    if (!is_call || stage.output) add_use(stage.output, "output", made.outputs);
    for (std::size_t i = 0; is_call && i < stage.outputs.size(); ++i) {
      add_use(stage.outputs[i], text("output ", i), made.outputs);
    }
  }

  Graph take() { return std::move(graph_); }

 private:
  static std::string label_of(const Stage& stage) {
    if (stage.op == StageOp::copy_buffer) return "copy";
    if (stage.op == StageOp::barrier) return "barrier";
    if (stage.op == StageOp::call) return stage.kernel.empty() ? "call" : core::shortened(stage.kernel, longest_label);
    return stage.tile_kernel ? kernels::of(*stage.tile_kernel).name : stage.kernel;
  }

  // Reports fields that this kind of stage would ignore.
  void find_ignored(const Stage& stage) {
    const bool has_buffers = !stage.inputs.empty() || stage.output || !stage.outputs.empty();
    const bool has_kernel = !stage.kernel.empty() || stage.tile_kernel || !stage.params.empty() || stage.function;
    if (stage.op == StageOp::barrier) {
      if (has_buffers || has_kernel) problem(Errc::invalid_argument, "a barrier takes neither buffers nor work");
    } else if (stage.op != StageOp::call) {
      if (!stage.outputs.empty()) problem(Errc::invalid_argument, "only a call takes `outputs`; use `output`");
      if (stage.function) problem(Errc::invalid_argument, "only a call takes a function");
    }
  }

  // In the graph it is a call that uses one buffer; the other one is ordered on its own device.
  void add_copy_between(const Stage& stage, const Buffer& borrowed, GraphStage& made) {
    made.op = StageOp::call;
    made.is_between_devices = true;
    const bool reads_borrowed = &borrowed == &stage.inputs[0];
    const View &from = *Access::get(stage.inputs[0]), &to = *Access::get(stage.output);
    if (reads_borrowed) {
      add_use(stage.output, "output", made.outputs);
    } else {
      add_use(stage.inputs[0], "input 0", made.inputs);
    }
    if (from.dtype != to.dtype || from.shape != to.shape) {
      return problem(from.dtype != to.dtype ? Errc::dtype_mismatch : Errc::shape_mismatch,
                     text("input 0 is ", describe(from), ", output ", describe(to)));
    }
    if (Access::get(borrowed)->storage->is_freed) {
      const core::FailurePtr why = unusable(reads_borrowed ? "input 0" : "output", *Access::get(borrowed)->storage);
      problem(why->code, why->message);
    }
  }

  void set_kernel(const Stage& stage, GraphStage& made) {
    try {
      made.kernel = stage.tile_kernel ? &kernels::of(*stage.tile_kernel)
                                      : &kernels::find(stage.op == StageOp::copy_buffer ? "copy" : stage.kernel);
    } catch (const Error& error) {
      problem(error.code(), error.what());
    }
  }

  // An unusable buffer is added too, so that later ones keep their indices.
  void add_use(const Buffer& buffer, const std::string& what, std::vector<Use>& uses) {
    const View* view = Access::get(buffer);
    uses.push_back(view ? Use{Use::nothing, view->dtype, view->shape} : Use{.buffer = Use::nothing});
    if (!view) return problem(Errc::invalid_argument, what + " is an empty buffer handle");
    const Storage& storage = *view->storage;
    const auto found = numbers_.find(&storage);
    if (found == numbers_.end()) {
      if (storage.device.get() != &device_) {
        return problem(Errc::wrong_device, text(what, ", ", describe(*view), ", lives on another device: ",
                                                storage.device->name(), ", not ", device_.name()));
      }
      if (storage.is_freed) {
        const core::FailurePtr why = unusable(what, storage);
        return problem(why->code, why->message);
      }
    } else if (graph_.buffers[found->second].kind == GraphBuffer::Kind::own && storage.is_freed) {
      return problem(Errc::buffer_freed, what + " has been freed");
    }
    uses.back().buffer = found != numbers_.end() ? found->second : add(buffer, GraphBuffer::Kind::own, "");
  }

  std::size_t add(const Buffer& buffer, GraphBuffer::Kind kind, const std::string& name) {
    const std::size_t number = graph_.buffers.size();
    numbers_[Access::get(buffer)->storage] = number;
    buffers_.push_back(kind == GraphBuffer::Kind::own ? buffer : Buffer());
    graph_.buffers.push_back(
        {kind, kind == GraphBuffer::Kind::own ? free_name() : name, buffer.dtype(), buffer.shape()});
    if (kind != GraphBuffer::Kind::own) taken_.insert(name);
    return number;
  }

  // In JSON the caller's own buffers become slots, so their names must be unique among slots and parameters.
  std::string free_name() {
    std::string name;
    do {
      name = text("buffer ", own_++);
    } while (taken_.contains(name));
    return name;
  }

  void problem(Errc code, const std::string& what) { problems_.push_back({graph_.stages.size() - 1, code, what}); }

  const DeviceState& device_;
  Graph graph_;
  std::vector<Buffer>& buffers_;
  std::vector<Problem>& problems_;
  std::unordered_map<const Storage*, std::size_t> numbers_;
  std::unordered_set<std::string> taken_;  // names of slots, temporaries and parameters
  std::size_t own_ = 0;
};

}  // namespace

Graph PipelineState::graph(std::vector<Buffer>& buffers, std::vector<Problem>& problems) const {
  GraphMaker maker(*this, buffers, problems);
  for (const Stage& stage : stages) maker.add(stage);
  return maker.take();
}

}  // namespace tessera::detail::pipeline
