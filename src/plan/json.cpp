// Pipelines as JSON:
//
//   {"tessera": "pipeline", "version": 1, "fuse": true,
//    "buffers": [{"kind": "slot", "name": "frame", "dtype": "u8", "shape": [480, 640, 4]}, {"kind": "temporary", …}],
//    "params": [{"name": "sigma", "default": 1.5}],
//    "stages": [{"op": "run_kernel", "kernel": "gaussian_blur", "inputs": [0], "output": 1,
//                "params": {"sigma": {"param": "sigma"}}}, …]}
//
// A buffer that a stage uses with another shape is {"buffer": 0, "shape": [307200, 4]}.
//
// Reading takes time proportional to the document's size: objects, which are searched name by name, have a bounded
// number of members, and names are looked up by their hash.
#include "core/json.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "plan/plan.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::plan {

namespace {

using core::Json;
using core::text;
using core::to_json;
using Reader = core::JsonReader;

constexpr int format_version = 1;

Json to_json(const Shape& shape) { return std::vector<std::int64_t>(shape.begin(), shape.end()); }

Json to_json(const Graph& graph, const Use& use) {
  const GraphBuffer& buffer = graph.buffers[use.buffer];
  if (use.shape == buffer.shape) return use.buffer;
  return {{"buffer", use.buffer}, {"shape", to_json(use.shape)}};
}

Json to_json(const Graph& graph, std::size_t number) {
  const GraphStage& stage = graph.stages[number];
  if (stage.op == StageOp::call) {
    throw Error(Errc::unsupported,
                text("[to_json] ", stage.describe(number),
                     stage.is_between_devices ? " uses a buffer of another device" : " is a host function"));
  }
  Json json = {{"op", tessera::to_string(stage.op)}};
  if (stage.op == StageOp::run_kernel) json["kernel"] = stage.label;
  if (stage.op == StageOp::barrier) return json;
  json["inputs"] = Json::array();
  for (const Use& use : stage.inputs) json["inputs"].push_back(to_json(graph, use));
  json["output"] = to_json(graph, stage.outputs.front());
  for (const Param& param : stage.params) json["params"][param.name] = to_json(param.value);
  if (!stage.tile.empty()) json["tile"] = stage.tile;
  return json;
}

// The names of slots and parameters so far, with what they are names of.
using Names = std::unordered_map<std::string, std::string_view>;

// A name that no earlier slot or parameter has.
std::string read_name(const Reader& json, Names& names, std::string_view kind) {
  std::string name = json.string();
  if (name.empty()) json.fail("is empty");
  const auto [known, is_new] = names.try_emplace(name, kind);
  if (!is_new) json.fail(text("there is already a ", known->second, " ", core::in_quotes(name)));
  return name;
}

GraphBuffer read_buffer(const Reader& json, Names& names) {
  json.expect_keys({"kind", "name", "dtype", "shape"});
  GraphBuffer buffer;
  const std::string kind = json["kind"].string();
  if (kind == "slot") {
    buffer.kind = GraphBuffer::Kind::slot;
    buffer.name = read_name(json["name"], names, "slot");
  } else if (kind == "temporary") {
    buffer.kind = GraphBuffer::Kind::temporary;
  } else {
    json["kind"].fail(text("expected slot or temporary, got ", core::in_quotes(kind)));
  }
  buffer.dtype = json["dtype"].dtype();
  buffer.shape = json["shape"].shape();
  try {
    buffer.shape.size_bytes(buffer.dtype);
  } catch (const Error& error) {
    json["shape"].fail(error.what());
  }
  return buffer;
}

Use read_use(const Reader& json, const Graph& graph) {
  if (json.has("buffer")) json.expect_keys({"buffer", "shape"});
  const Reader number = json.has("buffer") ? json["buffer"] : json;
  const std::int64_t index = number.integer();
  if (index < 0 || index >= static_cast<std::int64_t>(graph.buffers.size())) {
    number.fail(text("there is no buffer ", index));
  }
  const GraphBuffer& buffer = graph.buffers[static_cast<std::size_t>(index)];
  Use use{static_cast<std::size_t>(index), buffer.dtype, buffer.shape};
  if (json.has("buffer")) use.shape = json["shape"].shape();
  if (use.shape.elements() != buffer.shape.elements()) {
    json["shape"].fail(text("buffer ", index, " is ", tessera::to_string(buffer.shape)));
  }
  return use;
}

GraphStage read_stage(const Reader& json, const Graph& graph) {
  json.expect_keys({"op", "kernel", "inputs", "output", "params", "tile"});
  GraphStage stage;
  const std::string op = json["op"].string();
  if (op == tessera::to_string(StageOp::barrier)) {
    stage.op = StageOp::barrier;
    return stage;
  }
  if (op == tessera::to_string(StageOp::copy_buffer)) {
    stage.op = StageOp::copy_buffer;
  } else if (op == tessera::to_string(StageOp::run_kernel)) {
    stage.label = json["kernel"].string();
  } else {
    json["op"].fail(text("expected run_kernel, copy_buffer or barrier, got ", core::in_quotes(op)));
  }
  json["inputs"].each([&](const Reader& input) { stage.inputs.push_back(read_use(input, graph)); });
  stage.outputs.push_back(read_use(json["output"], graph));
  if (json.has("params")) {
    json["params"].each_member(
        [&](const std::string& name, const Reader& value) { stage.params.set(name, value.value()); });
  }
  if (json.has("tile")) json["tile"].each([&](const Reader& extent) { stage.tile.push_back(extent.integer()); });
  return stage;
}

}  // namespace

std::string to_json(const Graph& graph, const PipelineOptions& options) {
  Json json = {{"tessera", "pipeline"}, {"version", format_version}, {"fuse", options.fuse}};
  json["buffers"] = json["params"] = json["stages"] = Json::array();
  for (const GraphBuffer& buffer : graph.buffers) {
    Json entry = {{"kind", "temporary"}};
    if (buffer.kind != GraphBuffer::Kind::temporary) entry = {{"kind", "slot"}, {"name", buffer.name}};
    entry["dtype"] = tessera::to_string(buffer.dtype);
    entry["shape"] = to_json(buffer.shape);
    json["buffers"].push_back(std::move(entry));
  }
  for (const Param& param : graph.params) {
    json["params"].push_back({{"name", param.name}, {"default", to_json(param.value)}});
  }
  for (std::size_t s = 0; s < graph.stages.size(); ++s) json["stages"].push_back(to_json(graph, s));
  try {
    return json.dump(2) + "\n";
  } catch (const Json::type_error& error) {  // a name that is not UTF-8
    throw Error(Errc::invalid_argument, text("[to_json] ", core::reason_of(error)));
  }
}

Graph from_json(std::string_view text, PipelineOptions* options) {
  constexpr std::string_view call = "from_json";
  const Json json = core::parse_json(text, call);
  const Reader reader(json, call);
  if (reader["tessera"].string() != "pipeline") reader["tessera"].fail("expected 'pipeline'");
  if (reader["version"].integer() != format_version) {
    reader["version"].fail(core::text("this library reads version ", format_version));
  }
  reader.expect_keys({"tessera", "version", "fuse", "buffers", "params", "stages"});
  if (reader.has("fuse")) options->fuse = reader["fuse"].boolean();
  Graph graph;
  Names names;
  reader["buffers"].each([&](const Reader& buffer) { graph.buffers.push_back(read_buffer(buffer, names)); });
  reader["params"].each([&](const Reader& param) {
    param.expect_keys({"name", "default"});
    Value value = param["default"].value();
    graph.params.emplace_back(read_name(param["name"], names, "parameter"), std::move(value));
  });
  reader["stages"].each([&](const Reader& stage) { graph.stages.push_back(read_stage(stage, graph)); });
  return graph;
}

}  // namespace tessera::plan
