#include "pipelines.hpp"

#include "device.hpp"

#include <algorithm>
#include <unordered_map>

namespace tessera_nif {

namespace {

struct Table {
  std::mutex mutex;
  std::uint64_t last_number = 0;
  std::unordered_map<std::uint64_t, Ref<Pipeline>> pipelines;
  std::unordered_map<std::string, std::shared_ptr<const Compiled>> commands;
};
Table& table() {
  static auto* const all = new Table;
  return *all;
}

Ref<Pipeline> expect_pipeline(ErlNifEnv* env, Term term) {
  if (Pipeline* const found = Resource<Pipeline>::find(env, term)) return Ref<Pipeline>::keep(*found);
  ErlNifUInt64 number = 0;
  if (!enif_is_number(env, term)) throw BadArgument("the pipeline must be a pipeline, got " + show(term));
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto found = enif_get_uint64(env, term, &number) ? all.pipelines.find(number) : all.pipelines.end();
  if (found == all.pipelines.end()) {
    throw Refused("no pipeline has the number " + show(term) + ": it was freed, or the process that made it has ended");
  }
  return found->second;
}

// Records the stages in a pipeline of the library's.
class Compiler {
 public:
  explicit Compiler(const std::vector<Stage>& stages) : stages_(stages) {}
  ~Compiler() {
    for (tessera_buffer* slot : slots_) tessera_buffer_release(slot);
  }
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  std::shared_ptr<const Compiled> compile() {
    expect_ok(tessera_pipeline_create(device(), nullptr, &made_->native));
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (!stages_[i].problem.empty()) throw Refused("stage " + std::to_string(i) + ": " + stages_[i].problem);
      add(stages_[i]);
    }
    made_->stages = stages_.size();
    if (!stages_.empty()) expect_ok(tessera_pipeline_compile(made_->native));
    return std::move(made_);
  }

 private:
  void add(const Stage& stage) {
    std::vector<tessera_buffer*> inputs;
    inputs.reserve(stage.inputs.size());
    for (const Ref<Buffer>& input : stage.inputs) inputs.push_back(slot(input));
    if (stage.operation == Operation::barrier) return expect_ok(tessera_pipeline_barrier(made_->native));
    const Ref<Buffer>& written = stage.outputs.at(0);
    const bool is_read = indices_.contains(written.get());
    tessera_buffer* const output = slot(written);
    const auto is_same = [&](const Writing::Output& other) { return other.buffer == written.get(); };
    if (std::ranges::none_of(made_->outputs, is_same)) made_->outputs.push_back({written.get(), is_read});
    if (stage.operation == Operation::copy_buffer) {
      return expect_ok(tessera_pipeline_copy(made_->native, inputs.at(0), output));
    }
    expect_ok(tessera_pipeline_add(made_->native, stage.kernel.c_str(), inputs.data(), inputs.size(), output,
                                   stage.params.empty() ? nullptr : stage.params.c_str()));
  }

  tessera_buffer* slot(const Ref<Buffer>& buffer) {
    const auto [found, is_new] = indices_.try_emplace(buffer.get(), slots_.size());
    if (!is_new) return slots_[found->second];
    made_->buffers.push_back(buffer);
    made_->slots.push_back("buffer " + std::to_string(slots_.size()));
    tessera_buffer* made = nullptr;
    expect_ok(tessera_pipeline_slot(made_->native, made_->slots.back().c_str(), buffer->shape.data(),
                                    buffer->shape.size(), buffer->dtype, &made));
    slots_.push_back(made);
    return made;
  }

  const std::vector<Stage>& stages_;
  std::shared_ptr<Compiled> made_ = std::make_shared<Compiled>();
  std::unordered_map<const Buffer*, std::size_t> indices_;
  std::vector<tessera_buffer*> slots_;
};

// The compiled form; null if that would take long here. Compiles without the lock, which schedulers take too.
std::shared_ptr<const Compiled> compiled_of(Pipeline& pipeline) {
  while (true) {
    std::vector<Stage> stages;
    std::uint64_t version = 0;
    {
      const std::lock_guard lock(pipeline.mutex);
      if (pipeline.is_freed) throw Refused("the pipeline has been freed");
      if (pipeline.compiled || !is_in_background()) return pipeline.compiled;
      stages = pipeline.stages;
      version = pipeline.version;
    }
    std::shared_ptr<const Compiled> compiled = Compiler(stages).compile();
    const std::lock_guard lock(pipeline.mutex);
    if (version != pipeline.version) continue;
    pipeline.compiled = compiled;
    return compiled;
  }
}

bool writes(const Compiled& compiled, const Buffer* buffer) {
  return std::ranges::any_of(compiled.outputs, [&](const Writing::Output& output) { return output.buffer == buffer; });
}

Term submit(ErlNifEnv* env, const std::shared_ptr<const Compiled>& compiled, const Stream* stream,
            CommandOptions options) {
  if (!compiled) return atom(env, "slow");
  const auto submitted = [&](std::uint64_t id) {
    return enif_make_tuple3(env, atoms().ok, enif_make_uint64(env, id), enif_make_uint64(env, compiled->stages));
  };
  if (compiled->stages == 0) return submitted(add_completed(std::move(options)));
  Place place(stream);
  if (!place) return atom(env, "full");
  const std::size_t count = compiled->buffers.size();
  std::vector<MemoryPtr> memories(count);
  for (std::size_t i = 0; i < count; ++i) {
    Buffer& buffer = *compiled->buffers[i];
    // Before those that are written are locked: no thread waits for a buffer's lock while it has another's.
    if (!writes(*compiled, &buffer)) memories[i] = locked_memory_of(buffer, [&] { return compiled->slots[i]; });
  }
  Writing writing(compiled->outputs);
  std::vector<tessera_binding> bindings;
  for (std::size_t i = 0; i < count; ++i) {
    if (!memories[i]) memories[i] = memory_of(*compiled->buffers[i], [&] { return compiled->slots[i]; });
    bindings.push_back({compiled->slots[i].c_str(), memories[i]->handle, nullptr});
  }
  tessera_command* command = nullptr;
  expect_ok(tessera_pipeline_submit(compiled->native, bindings.data(), bindings.size(),
                                    stream ? stream->handle : nullptr, &command));
  options.finished = place.hand_over();
  const std::uint64_t id = expect_accepted(command, std::move(options));
  writing.submitted(id);
  return submitted(id);
}

std::vector<Ref<Buffer>> keep(const std::vector<Buffer*>& buffers) {
  std::vector<Ref<Buffer>> kept;
  kept.reserve(buffers.size());
  for (Buffer* buffer : buffers) kept.push_back(Ref<Buffer>::keep(*buffer));
  return kept;
}

void expect_counts(Stage& stage) {
  const std::size_t outputs = stage.operation == Operation::barrier ? 0 : 1;
  if (!stage.problem.empty()) return;
  if (stage.outputs.size() != outputs) {
    stage.problem = "has " + std::to_string(stage.outputs.size()) + " outputs, not " + std::to_string(outputs);
  } else if (stage.operation == Operation::copy_buffer && stage.inputs.size() != 1) {
    stage.problem = "copy_buffer has " + std::to_string(stage.inputs.size()) + " inputs, not 1";
  }
}

}  // namespace

void pipeline_owner_ended(ErlNifEnv* env, void* pipeline, ErlNifPid*, ErlNifMonitor*) {
  const Calling calling(env);
  Table& all = table();
  std::unordered_map<std::uint64_t, Ref<Pipeline>>::node_type removed;  // released after the lock
  const std::lock_guard lock(all.mutex);
  removed = all.pipelines.extract(static_cast<Pipeline*>(pipeline)->number);
}

Term pipeline_new(ErlNifEnv* env, const Term* argv) {
  const Ref<Pipeline> made = Ref<Pipeline>::make();
  if (atom_name(env, argv[0]) != "true") return ok(env, made.term(env));
  ErlNifPid self;
  enif_self(env, &self);
  Table& all = table();
  {
    const std::lock_guard lock(all.mutex);
    made->number = ++all.last_number;
    all.pipelines.emplace(made->number, made);
  }
  enif_monitor_process(env, made.get(), &self, &made->owner);
  return ok(env, enif_make_uint64(env, made->number));
}

Term pipeline_add(ErlNifEnv* env, const Term* argv) {
  static const char* const operations[] = {"run_kernel", "copy_buffer", "barrier", nullptr};
  const Ref<Pipeline> pipeline = expect_pipeline(env, argv[0]);
  Stage stage;
  stage.operation = static_cast<Operation>(expect_choice(env, argv[1], "op", operations));
  stage.kernel = expect_text_or_nil(env, argv[2], "the kernel's name");
  stage.inputs = keep(expect_buffers(env, argv[3], "input"));
  stage.outputs = keep(expect_buffers(env, argv[4], "output"));
  stage.params = expect_text_or_nil(env, argv[5], "params");
  stage.spec = std::make_shared<Spec>(argv[6]);
  stage.problem = expect_text_or_nil(env, argv[7], "problem");
  expect_counts(stage);
  const std::lock_guard lock(pipeline->mutex);
  if (pipeline->is_freed) throw Refused("the pipeline has been freed");
  pipeline->compiled = nullptr;
  ++pipeline->version;
  pipeline->stages.push_back(std::move(stage));
  return atoms().ok;
}

Term pipeline_stages(ErlNifEnv* env, const Term* argv) {
  const Ref<Pipeline> pipeline = expect_pipeline(env, argv[0]);
  const std::lock_guard lock(pipeline->mutex);
  std::vector<Term> specs;
  for (const Stage& stage : pipeline->stages) specs.push_back(enif_make_copy(env, stage.spec->term));
  return ok(env, enif_make_list_from_array(env, specs.data(), static_cast<unsigned>(specs.size())));
}

Term pipeline_free(ErlNifEnv* env, const Term* argv) {
  const Ref<Pipeline> pipeline = expect_pipeline(env, argv[0]);
  Table& all = table();
  {
    const std::lock_guard lock(all.mutex);
    if (pipeline->number != 0 && all.pipelines.erase(pipeline->number) == 0) {
      throw Refused("the pipeline has been freed");
    }
  }
  if (pipeline->number != 0) enif_demonitor_process(env, pipeline.get(), &pipeline->owner);
  std::vector<Stage> stages;  // released after the lock
  std::shared_ptr<const Compiled> compiled;
  const std::lock_guard lock(pipeline->mutex);
  pipeline->is_freed = true;
  ++pipeline->version;
  stages.swap(pipeline->stages);
  compiled.swap(pipeline->compiled);
  return atoms().ok;
}

Term pipeline_submit(ErlNifEnv* env, const Term* argv) {
  const Ref<Pipeline> pipeline = expect_pipeline(env, argv[0]);
  const Stream* const stream = expect_stream_or_nil(env, argv[1]);
  CommandOptions options = options_of(env, "pipeline", argv[2]);
  return submit(env, compiled_of(*pipeline), stream, std::move(options));
}

Term define_command(ErlNifEnv* env, const Term* argv) {
  const std::string name = expect_text(env, argv[0], "the command's name");
  std::shared_ptr<const Compiled> compiled = compiled_of(*expect_pipeline(env, argv[1]));
  if (!compiled) return atom(env, "slow");
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::swap(all.commands[name], compiled);  // an older one is released after the lock
  return atoms().ok;
}

Term submit_command(ErlNifEnv* env, const Term* argv) {
  const std::string name = expect_text(env, argv[0], "the command's name");
  const Stream* const stream = expect_stream_or_nil(env, argv[1]);
  CommandOptions options = options_of(env, name, argv[2]);
  std::shared_ptr<const Compiled> compiled;
  {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.commands.find(name); found != all.commands.end()) compiled = found->second;
  }
  if (!compiled) throw Refused("no command is named \"" + name + "\": define_command names a pipeline");
  return submit(env, compiled, stream, std::move(options));
}

Term completed_stages(ErlNifEnv* env, const Term* argv) {
  const std::uint64_t count = expect_number(env, argv[0], "the number of stages");
  if (count > remembered_commands) throw Refused("more stages than numbers are remembered");
  std::vector<Term> ids;
  for (const std::uint64_t id : add_completed(count)) ids.push_back(enif_make_uint64(env, id));
  return ok(env, enif_make_list_from_array(env, ids.data(), static_cast<unsigned>(ids.size())));
}

}  // namespace tessera_nif
