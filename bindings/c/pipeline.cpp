#include "objects.hpp"

#include <nlohmann/json.hpp>

using namespace tessera;
using namespace tessera::c;

namespace tessera::c {

namespace {

// A C function as a stage's host function.
struct HostCallback {
  HostCallback(tessera_host_function of, void* with, void (*destroy_with)(void*))
      : function(of), user(with), destroy(destroy_with) {}
  ~HostCallback() {
    if (destroy) destroy(user);
  }
  HostCallback(const HostCallback&) = delete;
  HostCallback& operator=(const HostCallback&) = delete;

  void operator()(HostCall& call, const std::vector<DType>& reads, const std::vector<DType>& writes) const {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<std::size_t> input_bytes, output_bytes;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const auto add = [&](const auto& elements) {
        inputs.push_back(elements.data());
        input_bytes.push_back(elements.size_bytes());
      };
      with_type(reads[i], [&](auto zero) { add(call.input<decltype(zero)>(i)); });
    }
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const auto add = [&](const auto& elements) {
        outputs.push_back(elements.data());
        output_bytes.push_back(elements.size_bytes());
      };
      with_type(writes[i], [&](auto zero) { add(call.output<decltype(zero)>(i)); });
    }
    const tessera_host_call given = {inputs.data(),       outputs.data(), input_bytes.data(),
                                     output_bytes.data(), inputs.size(),  outputs.size()};
    if (const int code = function(&given, user); code != 0) {
      throw Error(Errc::call_failed, "the function returned " + std::to_string(code));
    }
  }

  tessera_host_function function;
  void* user;
  void (*destroy)(void*);
};

std::vector<DType> dtypes_of(const std::vector<Buffer>& buffers) {
  std::vector<DType> dtypes;
  dtypes.reserve(buffers.size());
  for (const Buffer& buffer : buffers) dtypes.push_back(buffer.dtype());
  return dtypes;
}

std::vector<Binding> expect_bindings(const tessera_binding* bindings, std::size_t count, Call call) {
  expect_list(bindings, count, call, "bindings");
  std::vector<Binding> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const tessera_binding& given = bindings[i];
    const std::string_view name = expect_text(given.name, call, {"bindings", i, ".name"});
    if (!given.buffer && !given.value) refuse(call, {"bindings", i}, "neither a buffer nor a value");
    if (given.buffer && given.value) refuse(call, {"bindings", i}, "both a buffer and a value");
    if (given.buffer) {
      list.emplace_back(name, *get(given.buffer, call, {"bindings", i, ".buffer"}));
    } else {
      list.emplace_back(name, expect_value(given.value, call, {"bindings", i, ".value"}));
    }
  }
  return list;
}

// The stream of a run; an empty handle if there is none.
Stream stream_of(tessera_stream* stream, Call call) { return stream ? *get(stream, call, "stream") : Stream(); }

template <class Make>
tessera_code text_of(tessera_pipeline* pipeline, tessera_text** text, Call call, Make&& make) {
  return guarded([&] {
    tessera_text*& to = result(text, call, "text");
    const auto of = get(pipeline, call, "pipeline");
    to = make_text(make(*of));
  });
}

}  // namespace
}  // namespace tessera::c

tessera_code tessera_pipeline_create(tessera_device* device, const tessera_pipeline_options* options,
                                     tessera_pipeline** pipeline) {
  return guarded(__func__, [&](Call call) {
    tessera_pipeline*& to = result(pipeline, call, "pipeline");
    const auto on = get(device, call, "device");
    const tessera_pipeline_options given = options_or(options, TESSERA_PIPELINE_OPTIONS, call);
    to = make_handle<tessera_pipeline>(Pipeline(*on, {.fuse = given.fuse != 0}));
  });
}

tessera_code tessera_pipeline_clone(tessera_pipeline* pipeline, tessera_pipeline** clone) {
  return guarded(__func__, [&](Call call) {
    tessera_pipeline*& to = result(clone, call, "clone");
    to = make_handle<tessera_pipeline>(get(pipeline, call, "pipeline")->clone());
  });
}

tessera_code tessera_pipeline_device(tessera_pipeline* pipeline, tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    to = make_handle<tessera_device>(get(pipeline, call, "pipeline")->device());
  });
}

void tessera_pipeline_release(tessera_pipeline* pipeline) { release_handle(pipeline, Kind::pipeline, __func__); }

tessera_code tessera_pipeline_add(tessera_pipeline* pipeline, const char* kernel, tessera_buffer* const* inputs,
                                  size_t input_count, tessera_buffer* output, const char* params) {
  return guarded(__func__, [&](Call call) {
    const auto to = get(pipeline, call, "pipeline");
    const std::vector<Buffer> list = expect_buffers(inputs, input_count, call, "inputs");
    to->add(expect_text(kernel, call, "kernel"), list, *get(output, call, "output"), expect_params(params, call));
  });
}

tessera_code tessera_pipeline_copy(tessera_pipeline* pipeline, tessera_buffer* from, tessera_buffer* to) {
  return guarded(__func__, [&](Call call) {
    const auto of = get(pipeline, call, "pipeline");
    of->copy(*get(from, call, "from"), *get(to, call, "to"));
  });
}

tessera_code tessera_pipeline_fill(tessera_pipeline* pipeline, tessera_buffer* output, const char* value) {
  return guarded(__func__, [&](Call call) {
    const auto of = get(pipeline, call, "pipeline");
    of->fill(*get(output, call, "output"), expect_value(value, call, "value"));
  });
}

tessera_code tessera_pipeline_barrier(tessera_pipeline* pipeline) {
  return guarded(__func__, [&](Call call) { get(pipeline, call, "pipeline")->barrier(); });
}

tessera_code tessera_pipeline_call(tessera_pipeline* pipeline, const char* name, tessera_host_function function,
                                   void* user, void (*destroy)(void* user), tessera_buffer* const* reads,
                                   size_t read_count, tessera_buffer* const* writes, size_t write_count) {
  std::shared_ptr<HostCallback> callback;
  const tessera_code code = guarded([&] { callback = std::make_shared<HostCallback>(function, user, destroy); });
  if (code != TESSERA_OK) {
    if (destroy) destroy(user);
    return code;
  }
  return guarded(__func__, [&](Call call) {
    expect(function, call, "function");
    const auto to = get(pipeline, call, "pipeline");
    const std::vector<Buffer> read = expect_buffers(reads, read_count, call, "reads");
    const std::vector<Buffer> written = expect_buffers(writes, write_count, call, "writes");
    to->call(
        expect_text(name, call, "name"),
        [callback, of_reads = dtypes_of(read), of_writes = dtypes_of(written)](HostCall& host) {
          (*callback)(host, of_reads, of_writes);
        },
        read, written);
  });
}

tessera_code tessera_pipeline_temporary(tessera_pipeline* pipeline, const int64_t* shape, size_t rank,
                                        tessera_dtype dtype, tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto of = get(pipeline, call, "pipeline");
    to = make_buffer(of->temporary(expect_shape(shape, rank, call), expect_dtype(dtype, call)));
  });
}

tessera_code tessera_pipeline_slot(tessera_pipeline* pipeline, const char* name, const int64_t* shape, size_t rank,
                                   tessera_dtype dtype, tessera_buffer** buffer) {
  return guarded(__func__, [&](Call call) {
    tessera_buffer*& to = result(buffer, call, "buffer");
    const auto of = get(pipeline, call, "pipeline");
    to = make_buffer(
        of->slot(expect_text(name, call, "name"), expect_shape(shape, rank, call), expect_dtype(dtype, call)));
  });
}

tessera_code tessera_pipeline_param(tessera_pipeline* pipeline, const char* name, const char* default_value) {
  return guarded(__func__, [&](Call call) {
    const auto of = get(pipeline, call, "pipeline");
    of->param(expect_text(name, call, "name"), expect_value(default_value, call, "default_value"));
  });
}

tessera_code tessera_pipeline_stage_count(tessera_pipeline* pipeline, size_t* count) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(count, call, "count");
    to = get(pipeline, call, "pipeline")->stage_count();
  });
}

tessera_code tessera_pipeline_compile(tessera_pipeline* pipeline) {
  return guarded(__func__, [&](Call call) { get(pipeline, call, "pipeline")->compile(); });
}

tessera_code tessera_pipeline_run(tessera_pipeline* pipeline, const tessera_binding* bindings, size_t count,
                                  tessera_stream* stream) {
  return guarded(__func__, [&](Call call) {
    const auto of = get(pipeline, call, "pipeline");
    const std::vector<Binding> bound = expect_bindings(bindings, count, call);
    if (const Stream on = stream_of(stream, call)) {
      of->run(bound, on);
    } else {
      of->run(bound);
    }
  });
}

tessera_code tessera_pipeline_submit(tessera_pipeline* pipeline, const tessera_binding* bindings, size_t count,
                                     tessera_stream* stream, tessera_command** command) {
  return guarded(__func__, [&](Call call) {
    tessera_command*& to = result(command, call, "command");
    const auto of = get(pipeline, call, "pipeline");
    const std::vector<Binding> bound = expect_bindings(bindings, count, call);
    const Stream on = stream_of(stream, call);
    to = handle_to<tessera_command>([&] { return on ? of->submit(bound, on) : of->submit(bound); });
  });
}

tessera_code tessera_define_command(tessera_device* device, const char* name, tessera_pipeline* pipeline) {
  return guarded(__func__, [&](Call call) {
    const auto on = get(device, call, "device");
    on->define_command(expect_text(name, call, "name"), *get(pipeline, call, "pipeline"));
  });
}

tessera_code tessera_run_command(tessera_device* device, const char* name, const tessera_binding* bindings,
                                 size_t count) {
  return guarded(__func__, [&](Call call) {
    const Device on = *get(device, call, "device");
    const std::string_view command = expect_text(name, call, "name");
    on.run(command, expect_bindings(bindings, count, call));
  });
}

tessera_code tessera_submit_command(tessera_device* device, const char* name, const tessera_binding* bindings,
                                    size_t count, tessera_command** command) {
  return guarded(__func__, [&](Call call) {
    tessera_command*& to = result(command, call, "command");
    const auto on = get(device, call, "device");
    const std::string_view named = expect_text(name, call, "name");
    const std::vector<Binding> bound = expect_bindings(bindings, count, call);
    to = handle_to<tessera_command>([&] { return on->submit(named, bound); });
  });
}

tessera_code tessera_pipeline_explain(tessera_pipeline* pipeline, tessera_text** text) {
  return text_of(pipeline, text, __func__, [](Pipeline& of) { return of.explain(); });
}

tessera_code tessera_pipeline_to_dot(tessera_pipeline* pipeline, tessera_text** text) {
  return text_of(pipeline, text, __func__, [](Pipeline& of) { return of.to_dot(); });
}

tessera_code tessera_pipeline_warnings(tessera_pipeline* pipeline, tessera_text** text) {
  return text_of(pipeline, text, __func__, [](Pipeline& of) {
    std::string lines;
    for (const std::string& warning : of.warnings()) lines += warning + "\n";
    return lines;
  });
}

tessera_code tessera_pipeline_to_json(tessera_pipeline* pipeline, tessera_text** text) {
  return text_of(pipeline, text, __func__, [](Pipeline& of) { return of.to_json(); });
}

tessera_code tessera_pipeline_from_json(tessera_device* device, const char* json, tessera_pipeline** pipeline) {
  return guarded(__func__, [&](Call call) {
    tessera_pipeline*& to = result(pipeline, call, "pipeline");
    const auto on = get(device, call, "device");
    to = make_handle<tessera_pipeline>(Pipeline::from_json(*on, expect_text(json, call, "json")));
  });
}

tessera_code tessera_pipeline_last_run(tessera_pipeline* pipeline, tessera_text** text) {
  return text_of(pipeline, text, __func__, [](Pipeline& of) {
    const RunTimes times = of.last_run();
    nlohmann::ordered_json json = {{"run", times.run},
                                   {"status", to_string(times.status)},
                                   {"total_ns", times.total.count()},
                                   {"stages", nlohmann::ordered_json::array()}};
    for (const StageTime& stage : times.stages) {
      json["stages"].push_back({{"stage", stage.stage},
                                {"label", stage.label},
                                {"group", stage.group},
                                {"start_ns", stage.start.count()},
                                {"duration_ns", stage.duration.count()},
                                {"compiling_ns", stage.compiling.count()}});
    }
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  });
}
