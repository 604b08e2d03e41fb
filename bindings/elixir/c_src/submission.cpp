#include "submission.hpp"

#include "device.hpp"

#include <mutex>
#include <unordered_set>

namespace tessera_nif {

namespace {

// Calls that were found right: kernel, parameters, and the buffers' types and shapes. A wrong call must be refused
// before it becomes a command, because a command that fails loses the contents of its output.
class CheckedCalls {
 public:
  bool contains(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return calls_.contains(call);
  }
  void add(std::string call) {
    const std::lock_guard lock(mutex_);
    if (calls_.size() >= most) calls_.clear();
    calls_.insert(std::move(call));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }

 private:
  static constexpr std::size_t most = 4096;  // some hundred kilobytes
  std::mutex mutex_;
  std::unordered_set<std::string> calls_;
};
CheckedCalls& checked_calls() {
  static auto* const calls = new CheckedCalls;
  return *calls;
}

struct Call {
  std::string kernel, params;
  std::vector<Buffer*> inputs;
  Buffer* output;

  const char* params_or_null() const { return params.empty() ? nullptr : params.c_str(); }

  std::string key() const {
    std::string key = kernel + '\0' + params + '\0';
    const auto add = [&](const Buffer& buffer) {
      key += static_cast<char>(buffer.dtype);
      key += static_cast<char>(buffer.shape.size());
      key.append(reinterpret_cast<const char*>(buffer.shape.data()), buffer.shape.size() * sizeof(std::int64_t));
    };
    for (const Buffer* input : inputs) add(*input);
    add(*output);
    return key;
  }
};

std::vector<tessera_buffer*> handles_of(const std::vector<MemoryPtr>& memories) {
  std::vector<tessera_buffer*> handles;
  handles.reserve(memories.size());
  for (const MemoryPtr& memory : memories) handles.push_back(memory->handle);
  return handles;
}

void check(const Call& call, const std::vector<MemoryPtr>& inputs, const MemoryPtr& output) {
  tessera_pipeline* made = nullptr;
  expect_ok(tessera_pipeline_create(device(), nullptr, &made));
  const std::unique_ptr<tessera_pipeline, void (*)(tessera_pipeline*)> pipeline(made, tessera_pipeline_release);
  const std::vector<tessera_buffer*> handles = handles_of(inputs);
  expect_ok(tessera_pipeline_add(made, call.kernel.c_str(), handles.data(), handles.size(), output->handle,
                                 call.params_or_null()));
  if (tessera_pipeline_compile(made) == TESSERA_OK) return;
  // It is a kernel to the caller, not the only stage of a pipeline.
  constexpr std::string_view prefix = "pipeline: 1 problem:\n  stage 0 ";
  const std::string_view reason = tessera_last_error();
  throw Refused(std::string(reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason));
}

tessera_command* submit(const Call& call, const std::vector<MemoryPtr>& inputs, const Stream* stream) {
  const std::vector<tessera_buffer*> handles = handles_of(inputs);
  tessera_buffer* const output = call.output->memory->handle;
  tessera_command* command = nullptr;
  if (stream) {
    expect_ok(tessera_stream_submit(stream->handle, call.kernel.c_str(), handles.data(), handles.size(), output,
                                    call.params_or_null(), &command));
  } else {
    expect_ok(tessera_submit(device(), call.kernel.c_str(), handles.data(), handles.size(), output,
                             call.params_or_null(), &command));
  }
  return command;
}

}  // namespace

void forget_checked_calls() { checked_calls().clear(); }

std::vector<Buffer*> expect_buffers(ErlNifEnv* env, Term list, const std::string& name) {
  std::vector<Buffer*> buffers;
  Term head = 0, tail = list;
  while (enif_get_list_cell(env, tail, &head, &tail)) {
    Buffer* const buffer = Resource<Buffer>::find(env, head);
    if (!buffer) Resource<Buffer>::expect(env, head, name + " " + std::to_string(buffers.size()));
    buffers.push_back(buffer);
  }
  if (!enif_is_empty_list(env, tail)) throw BadArgument(name + "s must be a list of buffers, got " + show(list));
  return buffers;
}

Buffer& expect_output(ErlNifEnv* env, Term term) { return Resource<Buffer>::expect(env, term, "the output"); }

std::function<void()> Place::hand_over() {
  if (!places_) return nullptr;
  return [places = std::exchange(places_, nullptr)] { places->give_back(); };
}

std::uint64_t expect_accepted(tessera_command* command, CommandOptions options) {
  tessera_status status = TESSERA_PENDING;
  tessera_command_poll(command, &status);
  if (status == TESSERA_FAILED && tessera_command_error(command) == TESSERA_STREAM_FULL) {
    const std::string reason = tessera_last_error();
    tessera_command_release(command);
    throw Refused(reason);
  }
  return add_command(command, std::move(options));
}

CommandOptions options_of(ErlNifEnv* env, std::string label, Term notify) {
  CommandOptions options;
  options.label = std::move(label);
  if (!is_nil(notify)) options.notify = expect_pid(env, notify, "notify");
  return options;
}

Term submit_kernel(ErlNifEnv* env, const Term* argv) {
  const Call call = {expect_text(env, argv[0], "the kernel's name"), expect_text_or_nil(env, argv[3], "params"),
                     expect_buffers(env, argv[1], "input"), &expect_output(env, argv[2])};
  const Stream* const stream = expect_stream_or_nil(env, argv[4]);
  CommandOptions options = options_of(env, call.kernel, argv[5]);
  std::string key = call.key();
  const bool is_checked = device() && checked_calls().contains(key);
  if (!is_checked && !is_in_background()) return atom(env, "slow");

  std::vector<MemoryPtr> inputs;
  inputs.reserve(call.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(
        locked_memory_of(*call.inputs[i], [&] { return "[" + call.kernel + "] input " + std::to_string(i); }));
  }
  const auto output = [&] { return "[" + call.kernel + "] the output"; };
  if (!is_checked) {
    check(call, inputs, locked_memory_of(*call.output, output));
    checked_calls().add(std::move(key));
  }
  Place place(stream);
  if (!place) return atom(env, "full");
  // If the output is an input too, that still reads the old memory.
  Writing writing({{call.output}});
  memory_of(*call.output, output);
  tessera_command* const command = submit(call, inputs, stream);
  options.finished = place.hand_over();
  const std::uint64_t id = expect_accepted(command, std::move(options));
  writing.submitted(id);
  return ok(env, enif_make_uint64(env, id));
}

}  // namespace tessera_nif
