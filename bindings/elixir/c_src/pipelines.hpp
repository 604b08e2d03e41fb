// Pipelines and named commands. Their buffers are slots of the library's pipeline, which each run binds to the memory
// that the buffers have then.
#pragma once

#include "submission.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera_nif {

enum class Operation { run_kernel, copy_buffer, barrier };

// The caller's own description of a stage.
struct Spec {
  explicit Spec(Term of) : env(enif_alloc_env()), term(enif_make_copy(env, of)) {}
  ~Spec() { enif_free_env(env); }
  Spec(const Spec&) = delete;
  Spec& operator=(const Spec&) = delete;
  ErlNifEnv* env;
  Term term;
};

struct Stage {
  Operation operation = Operation::run_kernel;
  std::string kernel, params;
  std::vector<Ref<Buffer>> inputs;
  std::vector<Ref<Buffer>> outputs;  // one, or none for a barrier
  std::string problem;               // not empty: it cannot run
  std::shared_ptr<Spec> spec;
};

// Stages that have been checked and compiled.
struct Compiled {
  ~Compiled() { tessera_pipeline_release(native); }
  tessera_pipeline* native = nullptr;
  std::vector<Ref<Buffer>> buffers;
  std::vector<std::string> slots;  // the buffers' names
  std::vector<Writing::Output> outputs;
  std::size_t stages = 0;
};

struct Pipeline {
  static constexpr const char* name = "pipeline";

  std::mutex mutex;
  std::vector<Stage> stages;
  std::shared_ptr<const Compiled> compiled;  // null after a change
  std::uint64_t version = 0;                 // counts the changes
  bool is_freed = false;
  std::uint64_t number = 0;  // 0: known by its reference only
  ErlNifMonitor owner{};
};

// The process that made a numbered pipeline has ended.
void pipeline_owner_ended(ErlNifEnv* env, void* pipeline, ErlNifPid* pid, ErlNifMonitor* monitor);

// `pipeline` is a number or a reference.
Term pipeline_new(ErlNifEnv* env, const Term* argv);     // whether it gets a number
Term pipeline_add(ErlNifEnv* env, const Term* argv);     // pipeline, op, kernel, inputs, outputs, params, spec, problem
Term pipeline_stages(ErlNifEnv* env, const Term* argv);  // pipeline
Term pipeline_free(ErlNifEnv* env, const Term* argv);    // pipeline
Term pipeline_submit(ErlNifEnv* env, const Term* argv);  // pipeline, stream, notify; {:ok, id, stages}
Term define_command(ErlNifEnv* env, const Term* argv);   // name, pipeline
Term submit_command(ErlNifEnv* env, const Term* argv);   // name, stream, notify
Term completed_stages(ErlNifEnv* env, const Term* argv);  // count; numbers for the stages of a run that completed

}  // namespace tessera_nif
