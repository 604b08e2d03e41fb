// A plan as text and as a Graphviz drawing.
#include "core/text.hpp"
#include "plan/plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tessera::plan {

namespace {

using core::text;

// "1.5 MiB"
std::string size_text(std::size_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  char digits[32];
  std::snprintf(digits, sizeof digits, unit == 0 ? "%.0f" : "%.1f", value);
  return text(digits, " ", units[unit]);
}

std::string buffer_text(const Graph& graph, std::size_t number) {
  const GraphBuffer& buffer = graph.buffers[number];
  const std::string_view kind = buffer.kind == GraphBuffer::Kind::slot ? "slot " : "";
  return text(kind, buffer.name, " ", to_string(buffer.dtype, buffer.shape));
}

template <class Items, class ToText>
std::string joined(const Items& items, std::string_view between, ToText&& to_text) {
  std::string all;
  for (const auto& item : items) {
    if (!all.empty()) all += between;
    all += to_text(item);
  }
  return all;
}

std::string buffers_text(const Graph& graph, const std::vector<Use>& uses) {
  return joined(uses, ", ", [&](const Use& use) { return buffer_text(graph, use.buffer); });
}

std::string params_text(const Params& params) {
  if (params.empty()) return {};
  return text(" {",
              joined(params, ", ", [](const Param& param) { return text(param.name, ": ", to_string(param.value)); }),
              "}");
}

std::string numbers_text(const std::vector<std::size_t>& numbers) {
  return joined(numbers, ", ", [](std::size_t number) { return std::to_string(number); });
}

std::string plural(std::size_t count, std::string_view what) { return text(count, " ", what, count == 1 ? "" : "s"); }

std::string stage_text(const Graph& graph, std::size_t number) {
  const GraphStage& stage = graph.stages[number];
  std::string line = text("    stage ", number, "  ", stage.label, params_text(stage.params));
  if (!stage.inputs.empty()) line += text("  from ", buffers_text(graph, stage.inputs));
  if (!stage.outputs.empty()) line += text("  to ", buffers_text(graph, stage.outputs));
  return line + "\n";
}

std::string memory_text(const Graph& graph, const Plan& plan) {
  std::string lines = text("memory of temporaries: ", size_text(plan.peak), " at most");
  if (plan.temporary_bytes != plan.peak) lines += text(", instead of ", size_text(plan.temporary_bytes));
  lines += "\n";
  for (std::size_t p = 0; p < plan.blocks.size(); ++p) {
    lines += text(
        "  block ", p, ", ", size_text(plan.blocks[p].bytes), ": ",
        joined(plan.blocks[p].temporaries, ", ", [&](std::size_t buffer) { return graph.buffers[buffer].name; }), "\n");
  }
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].kind != GraphBuffer::Kind::temporary || plan.block_of[b]) continue;
    lines += text("  no memory is needed for ", graph.buffers[b].name, "\n");
  }
  return lines;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string explain(const Graph& graph, const Plan& plan, const std::vector<std::string>& warnings) {
  std::string lines =
      text("pipeline: ", plural(graph.stages.size(), "stage"), " in ", plural(plan.groups.size(), "group"), "\n");
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    lines += text("  group ", g);
    if (!group.after.empty()) lines += text(", after ", numbers_text(group.after));
    if (!group.reason.empty()) lines += text(", not fused: ", group.reason);
    lines += "\n";
    for (const std::size_t stage : group.stages) lines += stage_text(graph, stage);
  }
  lines += text("bytes moved: ", size_text(plan.bytes_after));
  if (plan.bytes_after != plan.bytes_before) lines += text(", instead of ", size_text(plan.bytes_before));
  lines += "\n" + memory_text(graph, plan);
  for (const std::string& warning : warnings) lines += text("warning: ", warning, "\n");
  return lines;
}

std::string to_dot(const Graph& graph, const Plan& plan) {
  std::string lines = "digraph pipeline {\n  node [shape=box];\n";
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    lines += text("  subgraph cluster_", g, " {\n    label=", in_quotes(text("group ", g)), ";\n");
    for (const std::size_t s : plan.groups[g].stages) {
      const GraphStage& stage = graph.stages[s];
      lines +=
          text("    stage_", s, " [label=", in_quotes(text(s, ": ", stage.label, params_text(stage.params))), "];\n");
    }
    lines += "  }\n";
  }
  std::vector<bool> is_used(graph.buffers.size());
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    for (const Use& use : graph.stages[s].inputs) {
      lines += text("  buffer_", use.buffer, " -> stage_", s, ";\n");
      is_used[use.buffer] = true;
    }
    for (const Use& use : graph.stages[s].outputs) {
      lines += text("  stage_", s, " -> buffer_", use.buffer, ";\n");
      is_used[use.buffer] = true;
    }
  }
  for (std::size_t b = 0; b < graph.buffers.size(); ++b) {
    if (!is_used[b]) continue;
    const bool is_temporary = graph.buffers[b].kind == GraphBuffer::Kind::temporary;
    lines += text("  buffer_", b, " [shape=ellipse, style=", is_temporary ? "dashed" : "solid",
                  ", label=", in_quotes(buffer_text(graph, b)), "];\n");
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    for (const std::size_t earlier : plan.groups[g].ordered_after) {
      lines += text("  stage_", plan.groups[earlier].stages.back(), " -> stage_", plan.groups[g].stages.front(),
                    " [style=dotted];\n");
    }
  }
  return lines + "}\n";
}

}  // namespace tessera::plan
