#include "core/json.hpp"

#include <cmath>
#include <set>

namespace tessera {

namespace core {

namespace {

// The nesting of lists and objects: more than any pipeline needs, and safe for the stack.
constexpr int deepest = 32;
// Of one object. Only a stage's parameters are as many as the author likes, and no kernel has a hundred.
constexpr std::size_t most_members = 1024;

// Before parsing, since the parser itself recurses.
void check_depth(std::string_view json, std::string_view call) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > deepest) {
      throw Error(Errc::invalid_argument,
                  text("[", call, "] byte ", i + 1, ": lists and objects are nested more than ", deepest, " deep"));
    }
  }
}

// Refuses two members of the same name, of which the parser would silently keep the last, and too many of them.
class MemberChecks {
 public:
  explicit MemberChecks(std::string_view call) : call_(call) {}

  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event != Json::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second) {
      throw Error(Errc::invalid_argument, text("[", call_, "] an object has ", in_quotes(key), " twice"));
    }
    if (open_.back().size() > most_members) {
      throw Error(Errc::invalid_argument, text("[", call_, "] an object has more than ", most_members, " members"));
    }
    return true;
  }

 private:
  std::string_view call_;
  std::vector<std::set<std::string>> open_;  // names of the objects that enclose the parser's position
};

}  // namespace

// For example "[json.exception.parse_error.101] parse error at line 1,
// column 2: syntax error …".
std::string reason_of(const Json::exception& error) {
  std::string_view reason = error.what();
  if (const std::size_t code = reason.find("] "); code != std::string_view::npos) reason.remove_prefix(code + 2);
  if (reason.starts_with("parse error at ")) {
    if (const std::size_t position = reason.find(": "); position != std::string_view::npos)
      reason.remove_prefix(position + 2);
  }
  constexpr std::size_t most_quoted = 200;  // the parser's own words take about 100
  return shortened(reason, most_quoted);
}

Json parse_json(std::string_view json, std::string_view call) {
  check_depth(json, call);
  try {
    return Json::parse(json, MemberChecks(call));
  } catch (const Json::parse_error& error) {
    throw Error(Errc::invalid_argument, text("[", call, "] byte ", error.byte, ": ", reason_of(error)));
  } catch (const Json::exception& error) {  // a number that is too large
    throw Error(Errc::invalid_argument, text("[", call, "] ", reason_of(error)));
  }
}

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

}  // namespace core

Value Value::from_json(std::string_view json) {
  constexpr std::string_view call = "Value::from_json";
  const core::Json document = core::parse_json(json, call);
  return core::JsonReader(document, call).value();
}

std::string Value::to_json() const {
  return core::to_json(*this).dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

Params Params::from_json(std::string_view json) {
  constexpr std::string_view call = "Params::from_json";
  const core::Json document = core::parse_json(json, call);
  Params params;
  core::JsonReader(document, call).each_member([&](const std::string& name, const core::JsonReader& value) {
    params.add(Param(name, value.value()));
  });
  return params;
}

}  // namespace tessera
