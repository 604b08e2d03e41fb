// Pipelines as JSON:
//
//   {"tessera": "pipeline", "version": 1, "fuse": true,
//    "buffers": [{"kind": "slot", "name": "frame", "dtype": "u8", "shape": [480, 640, 4]}, {"kind": "temporary", …}],
//    "params": [{"name": "sigma", "default": 1.5}],
//    "stages": [{"op": "run_kernel", "kernel": "gaussian_blur", "inputs": [0], "output": 1,
//                "params": {"sigma": {"param": "sigma"}}}, …]}
//
// A buffer that a stage uses with another shape is {"buffer": 0, "shape": [307200, 4]}.
#include <nlohmann/json.hpp>

#include <tessera/error.hpp>

#include "core/text.hpp"
#include "plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

namespace tessera::plan {

namespace {

using core::text;
using Json = nlohmann::ordered_json;

constexpr int format_version = 1;
// The nesting of lists and objects: more than any pipeline needs, and safe for the stack.
constexpr int deepest = 32;

Json to_json(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_integer()) return value.integer();
  // JSON has no infinities.
  if (value.is_number() && !std::isfinite(value.number())) return {{"number", tessera::to_string(value)}};
  if (value.is_number()) return value.number();
  if (value.is_string()) return value.string();
  if (value.is_parameter()) return {{"param", value.parameter_name()}};
  Json list = Json::array();
  for (const Value& item : value.items()) list.push_back(to_json(item));
  return list;
}

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

// Reads JSON, and names the path in error messages: "stages[0].inputs".
class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Errc::invalid_argument, text("[from_json] ", path_.empty() ? "the document" : path_, ": ", what));
  }

  // Refuses other keys: a misspelled key must not count as a missing one.
  void expect_keys(std::initializer_list<std::string_view> keys) const {
    if (!json_.is_object()) fail("expected an object");
    for (const auto& member : json_.items()) {
      if (std::ranges::find(keys, member.key()) != keys.end()) continue;
      fail(text("'", member.key(), "' is unknown", core::suggestion(member.key(), {keys.begin(), keys.size()})));
    }
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Reader operator[](const char* key) const {
    if (!json_.is_object()) fail("expected an object");
    if (!json_.contains(key)) fail(text("'", key, "' is missing"));
    return {json_[key], path_ + (path_.empty() ? "" : ".") + key};
  }
  // Calls read(Reader) for each item of a list, or read(name, Reader) for each member of an object.
  template <class Read>
  void each(Read&& read) const {
    if (!json_.is_array()) fail("expected a list");
    for (std::size_t i = 0; i < json_.size(); ++i) read(Reader(json_[i], text(path_, "[", i, "]")));
  }
  template <class Read>
  void each_member(Read&& read) const {
    if (!json_.is_object()) fail("expected an object");
    for (const auto& [name, member] : json_.items()) read(name, Reader(member, text(path_, ".", name)));
  }

  std::string string() const {
    if (!json_.is_string()) fail("expected a string");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) fail("expected true or false");
    return json_.get<bool>();
  }
  bool is_integer() const {
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    return json_.is_number_integer() && (!json_.is_number_unsigned() || json_.get<std::uint64_t>() <= most);
  }
  std::int64_t integer() const {
    if (!is_integer()) fail("expected an integer");
    return json_.get<std::int64_t>();
  }

  Value value() const {
    if (json_.is_boolean()) return json_.get<bool>();
    if (is_integer()) return json_.get<std::int64_t>();
    if (json_.is_number()) return json_.get<double>();
    if (json_.is_string()) return json_.get<std::string>();
    if (has("param")) return Value::parameter((*this)["param"].string());
    if (has("number")) return (*this)["number"].special_number();
    if (!json_.is_array()) fail("expected a parameter value");
    Value::List items;
    each([&](const Reader& item) { items.push_back(item.value()); });
    return items;
  }

  Shape shape() const {
    std::vector<std::int64_t> dims;
    each([&](const Reader& dim) { dims.push_back(dim.integer()); });
    try {
      return Shape(std::span<const std::int64_t>(dims));
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  DType dtype() const {
    const std::string name = string();
    for (const DType dtype : all_dtypes) {
      if (tessera::to_string(dtype) == name) return dtype;
    }
    fail(text("unknown element type '", name, "'"));
  }

 private:
  double special_number() const {
    const std::string name = string();
    const double infinity = std::numeric_limits<double>::infinity();
    if (name == "inf") return infinity;
    if (name == "-inf") return -infinity;
    if (name == "nan" || name == "-nan") return std::numeric_limits<double>::quiet_NaN();
    fail(text("unknown number '", name, "'"));
  }

  const Json& json_;
  std::string path_;
};

// A name that no earlier slot or parameter has.
std::string read_name(const Reader& json, const Graph& graph) {
  std::string name = json.string();
  if (name.empty()) json.fail("is empty");
  const auto is_taken = [&](const GraphBuffer& buffer) {
    return buffer.kind == GraphBuffer::Kind::slot && buffer.name == name;
  };
  if (std::ranges::any_of(graph.buffers, is_taken)) json.fail(text("there is already a slot '", name, "'"));
  if (graph.param_number(name) < graph.params.size()) json.fail(text("there is already a parameter '", name, "'"));
  return name;
}

GraphBuffer read_buffer(const Reader& json, const Graph& graph) {
  json.expect_keys({"kind", "name", "dtype", "shape"});
  GraphBuffer buffer;
  const std::string kind = json["kind"].string();
  if (kind == "slot") {
    buffer.kind = GraphBuffer::Kind::slot;
    buffer.name = read_name(json["name"], graph);
  } else if (kind == "temporary") {
    buffer.kind = GraphBuffer::Kind::temporary;
  } else {
    json["kind"].fail(text("expected slot or temporary, got '", kind, "'"));
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
    json["op"].fail(text("expected run_kernel, copy_buffer or barrier, got '", op, "'"));
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

// Before parsing, since the parser itself recurses.
void check_depth(std::string_view text) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > deepest) {
      throw Error(Errc::invalid_argument, core::text("[from_json] byte ", i + 1,
                                                     ": lists and objects are nested more than ", deepest, " deep"));
    }
  }
}

// Refuses two members of the same name, of which the parser would silently keep the last.
class UniqueNames {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key && !open_.back().insert(parsed.get<std::string>()).second) {
      throw Error(Errc::invalid_argument, text("[from_json] an object has '", parsed.get<std::string>(), "' twice"));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;  // names of the objects that enclose the parser's position
};

Json parsed(std::string_view text) {
  check_depth(text);
  try {
    return Json::parse(text, UniqueNames());
  } catch (const Json::parse_error& error) {
    throw Error(Errc::invalid_argument, core::text("[from_json] byte ", error.byte, ": ", error.what()));
  } catch (const Json::exception& error) {  // a number that is too large
    throw Error(Errc::invalid_argument, core::text("[from_json] ", error.what()));
  }
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
    throw Error(Errc::invalid_argument, text("[to_json] ", error.what()));
  }
}

Graph from_json(std::string_view text, PipelineOptions* options) {
  const Json json = parsed(text);
  const Reader reader(json, "");
  if (reader["tessera"].string() != "pipeline") reader["tessera"].fail("expected 'pipeline'");
  if (reader["version"].integer() != format_version) {
    reader["version"].fail(core::text("this library reads version ", format_version));
  }
  reader.expect_keys({"tessera", "version", "fuse", "buffers", "params", "stages"});
  if (reader.has("fuse")) options->fuse = reader["fuse"].boolean();
  Graph graph;
  reader["buffers"].each([&](const Reader& buffer) { graph.buffers.push_back(read_buffer(buffer, graph)); });
  reader["params"].each([&](const Reader& param) {
    param.expect_keys({"name", "default"});
    Value value = param["default"].value();
    graph.params.emplace_back(read_name(param["name"], graph), std::move(value));
  });
  reader["stages"].each([&](const Reader& stage) { graph.stages.push_back(read_stage(stage, graph)); });
  return graph;
}

}  // namespace tessera::plan
