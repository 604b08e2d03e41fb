// Pipelines as text: explain(), to_dot() and JSON.
#include <tessera/tessera.hpp>

#include "support/depth.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace tessera {
namespace {

using test::expect_error;
using Bytes = std::vector<std::uint8_t>;

class PipelineText : public testing::Test {
 protected:
  Device device = Device::best();
  Pipeline pipeline{device, {.fuse = false}};
  Buffer photo = device.buffer<std::uint8_t>(Bytes(8 * 8 * 4, 77), {8, 8, 4});
  Buffer gray = device.zeros({8, 8}, u8);

  void record() {
    const Buffer blurred = pipeline.temporary({8, 8, 4}, u8), sharp = pipeline.temporary({8, 8, 4}, u8);
    pipeline.add("gaussian_blur", {photo}, blurred, {{"radius", 3}, {"sigma", pipeline.param("sigma", 1.5)}})
        .add("sharpen", {blurred}, sharp, {{"amount", 0.5}})
        .barrier()
        .add("grayscale", {sharp}, gray)
        .add("neg", {blurred.reshape({64, 4})}, pipeline.temporary({64, 4}, u8));
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
};

TEST_F(PipelineText, Explain_describes_groups_and_memory) {
  record();
  expect_words(
      pipeline.explain(),
      {"pipeline: 5 stages in 5 groups\n", "group 1, after 0, not fused: fusion is switched off\n",
       "stage 0  gaussian_blur {radius: 3, sigma: 'sigma'}  from buffer 0 u8[8,8,4]  to temporary 0 u8[8,8,4]\n",
       "group 2, after 1, not fused: a barrier\n", "bytes moved: ", "memory of temporaries: 768 B at most\n",
       "block 0, 256 B: temporary 0\n", "warning: stage 4 [neg]: its output, temporary 2, is never read\n"});
}

TEST_F(PipelineText, To_dot_draws_the_graph) {
  record();
  expect_words(pipeline.to_dot(),
               {"digraph pipeline {", "stage_0 [label=\"0: gaussian_blur {", "buffer_0 -> stage_1",
                "[shape=ellipse, style=dashed, label=\"temporary 0 u8[8,8,4]\"]", "stage_1 -> stage_2 [style=dotted]"});
}

TEST_F(PipelineText, A_pipeline_survives_the_round_trip) {
  record();
  pipeline.run();
  const Bytes expected = gray.read<std::uint8_t>();
  const std::string json = pipeline.to_json();
  Pipeline back = Pipeline::from_json(device, json);
  EXPECT_FALSE(back.options().fuse);
  EXPECT_EQ(back.stage_count(), 5U);
  const Buffer out = device.zeros({8, 8}, u8);
  back.run({{"buffer 0", photo}, {"buffer 1", out}});
  EXPECT_EQ(out.read<std::uint8_t>(), expected);
  // The second time all buffers are slots already, so nothing changes.
  const std::string again = back.to_json();
  EXPECT_EQ(Pipeline::from_json(device, again).to_json(), again);
}

TEST_F(PipelineText, Values_of_all_types_survive_the_round_trip) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Buffer out = device.zeros({4});
  pipeline.fill(out, infinity).fill(out, -infinity).fill(out, 0.1).fill(out, 3).param("list", Value(1, 2.5, "x", true));
  const std::vector<Stage> stages = Pipeline::from_json(device, pipeline.to_json()).stages();
  EXPECT_EQ(stages[0].params, Params({"value", infinity}));
  EXPECT_EQ(stages[1].params, Params({"value", -infinity}));
  EXPECT_EQ(stages[2].params, Params({"value", 0.1}));
  EXPECT_EQ(stages[3].params, Params({"value", 3}));
  pipeline.param("brackets", std::string(50, '[') + "\"{");
  EXPECT_EQ(Pipeline::from_json(device, pipeline.to_json()).to_json(), pipeline.to_json());
}

TEST_F(PipelineText, Call_stages_cannot_be_written) {
  pipeline.call("mine", [] {}, {}, {gray});
  expect_error(Errc::unsupported, "stage 0 [mine] is a host function", [&] { pipeline.to_json(); });
}

TEST_F(PipelineText, Errors_in_JSON_name_the_offending_field) {
  const auto bad = [&](const std::string& json, const std::string& words) {
    expect_error(Errc::invalid_argument, words, [&] { Pipeline::from_json(device, json); });
  };
  const std::string head = R"({"tessera": "pipeline", "version": 1, )";
  const std::string buffers = R"("buffers": [{"kind": "slot", "name": "x", "dtype": "f32", "shape": [4]}], )";
  const auto stage = [&](const std::string& text) {
    return head + buffers + R"("params": [], "stages": [)" + text + "]}";
  };
  bad("", "[from_json] byte 1: syntax error while parsing value - unexpected end of input");
  bad("{", "[from_json] byte 2: syntax error while parsing object key - unexpected end of input");
  bad("\"\xff\"", "[from_json] byte 2: syntax error while parsing value - invalid string");
  bad("[]", "the document: expected an object");
  bad("{}", "'tessera' is missing");
  bad(R"({"tessera": "model"})", "tessera: expected 'pipeline'");
  bad(R"({"tessera": "pipeline", "version": 2})", "version: this library reads version 1");
  bad(head + R"("fuse": 1})", "fuse: expected true or false");
  bad(head + R"("buffers": 1})", "buffers: expected a list");
  bad(head + R"("buffers": [{"kind": "own"}]})", "buffers[0].kind: expected slot or temporary, got 'own'");
  bad(head + R"("buffers": [{"kind": "temporary", "dtype": "f16"}]})",
      "buffers[0].dtype: 'f16' is not an element type");
  bad(head + R"("buffers": [{"kind": "temporary", "dtype": "f32", "shape": [-1]}]})", "buffers[0].shape: ");
  bad(head + buffers + R"("params": [{"name": "x"}]})", "params[0]: 'default' is missing");
  bad(stage(R"({"op": "call"})"), "stages[0].op: expected run_kernel, copy_buffer or barrier, got 'call'");
  bad(stage(R"({"op": "run_kernel"})"), "stages[0]: 'kernel' is missing");
  bad(stage(R"({"op": "copy_buffer", "inputs": [3], "output": 0})"), "stages[0].inputs[0]: there is no buffer 3");
  bad(stage(R"({"op": "copy_buffer", "inputs": [], "output": {"buffer": 0, "shape": [5]}})"),
      "stages[0].output.shape: buffer 0 is [4]");
  bad(stage(R"({"op": "run_kernel", "kernel": "relu", "inputs": [0], "output": 0, "params": {"slope": {}}})"),
      "stages[0].params.slope: expected a parameter value");
  bad(stage(R"({"op": "barrier"}, 5)"), "stages[1]: expected an object");
  const std::string relu = R"({"op": "run_kernel", "kernel": "relu", "inputs": [0], "output": 0, )";
  bad(stage(relu + R"("parms": {"slope": 0.5}})"), "stages[0]: 'parms' is unknown, did you mean 'params'?");
  bad(stage(relu + R"("params": {"slope": 0.5}, "params": {}})"), "[from_json] an object has 'params' twice");
  bad(stage(relu + R"("params": {"slope": 0.5, "slope": 0}})"), "[from_json] an object has 'slope' twice");
  bad(head + R"("fuze": true, )" + buffers + R"("params": [], "stages": []})",
      "the document: 'fuze' is unknown, did you mean 'fuse'?");
  bad(head + R"("buffers": [{"kind": "temporary", "dtpe": "f32"}]})", "buffers[0]: 'dtpe' is unknown");
  const auto value = [&](const std::string& text) {
    return head + buffers + R"("params": [{"name": "k", "default": )" + text + R"(}], "stages": []})";
  };
  bad(value("1e999"), "[from_json] number overflow parsing '1e999'");
  bad(value(std::string(100000, '[') + std::string(100000, ']')), "lists and objects are nested more than 32 deep");
  bad(value(std::string(30, '[')), "[from_json] byte");
  bad(value(R"(1}, {"name": "k", "default": 2)"), "params[1].name: there is already a parameter 'k'");
  bad(value(R"(1}, {"name": "x", "default": 2)"), "params[1].name: there is already a slot 'x'");
  bad(value(R"(1}, {"name": "", "default": 2)"), "params[1].name: is empty");
  const std::string slot = R"({"kind": "slot", "name": "x", "dtype": "f32", "shape": [4]})";
  bad(head + R"("buffers": [)" + slot + ", " + slot + "]}", "buffers[1].name: there is already a slot 'x'");
  bad(head + R"("buffers": [{"kind": "slot", "name": ""}]})", "buffers[0].name: is empty");
  bad(head + R"("buffers": [{"kind": "temporary", "dtype": "f32", "shape": [4611686018427387903]}]})",
      "buffers[0].shape: ");
}

TEST_F(PipelineText, Element_types_may_have_the_names_of_other_libraries) {
  const std::string json = R"({"tessera": "pipeline", "version": 1, "params": [], "stages": [],
      "buffers": [{"kind": "slot", "name": "x", "dtype": "float32", "shape": [4]}]})";
  EXPECT_NE(Pipeline::from_json(device, json).to_json().find("\"f32\""), std::string::npos);
}

// A document with this many of everything that has a name.
std::string large_document(int count) {
  std::string json = R"({"tessera": "pipeline", "version": 1, "buffers": [)";
  for (int i = 0; i < count; ++i) {
    json += (i == 0 ? "" : ",") + std::string(R"({"kind": ")") + (i % 2 == 0 ? "slot" : "temporary") + '"';
    if (i % 2 == 0) json += R"(, "name": "slot )" + std::to_string(i) + '"';
    json += R"(, "dtype": "f32", "shape": [4]})";
  }
  json += R"(], "params": [)";
  for (int i = 0; i < count; ++i) {
    json += (i == 0 ? "" : ",") + std::string(R"({"name": "param )") + std::to_string(i) + R"(", "default": 1})";
  }
  json += R"(], "stages": [)";
  for (int i = 0; i < count; ++i) {
    const std::string buffer = std::to_string(i);
    json += (i == 0 ? "" : ",") + std::string(R"({"op": "copy_buffer", "inputs": [)") + buffer + R"(], "output": )" +
            buffer + "}";
  }
  return json + "]}";
}

// Processor time of this thread, which does not depend on how busy the machine is.
double seconds_to_read(const Device& device, int count) {
  const std::string json = large_document(count);
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  const Pipeline read = Pipeline::from_json(device, json);
  const double seconds = now() - start;
  EXPECT_EQ(read.stage_count(), static_cast<std::size_t>(count));
  return seconds;
}

// It was quadratic in the numbers of slots, temporaries and parameters.
TEST_F(PipelineText, Reading_takes_time_proportional_to_the_size) {
  if (test::is_sanitized) GTEST_SKIP() << "sanitizers take longer for each allocation the more there are";
  constexpr int few = 1'000, times = 10;
  seconds_to_read(device, few);  // the first time includes loading
  EXPECT_LT(seconds_to_read(device, times * few), 3 * times * seconds_to_read(device, few));
}

TEST_F(PipelineText, An_object_has_at_most_1024_members) {
  const auto with_members = [](int count) {
    std::string json = R"({"tessera": "pipeline", "version": 1, "params": [], "buffers":
        [{"kind": "slot", "name": "x", "dtype": "f32", "shape": [4]}], "stages":
        [{"op": "run_kernel", "kernel": "relu", "inputs": [0], "output": 0, "params": {"p0": 0)";
    for (int i = 1; i < count; ++i) json += ", \"p" + std::to_string(i) + "\": 0";
    return json + "}}]}";
  };
  EXPECT_EQ(Pipeline::from_json(device, with_members(1024)).stages()[0].params.size(), 1024U);
  expect_error(Errc::invalid_argument, "[from_json] an object has more than 1024 members",
               [&] { Pipeline::from_json(device, with_members(1025)); });
  expect_error(Errc::invalid_argument, "[from_json] an object has more than 1024 members",
               [&] { Pipeline::from_json(device, with_members(200'000)); });
}

TEST_F(PipelineText, Caller_buffers_get_unused_names) {
  const Buffer a = device.buffer<float>({1, 2}), b = device.zeros({2});
  pipeline.param("buffer 1", 1.0);
  pipeline.add("elementwise_add", {pipeline.slot("buffer 0", {2}), a}, b);
  Pipeline back = Pipeline::from_json(device, pipeline.to_json());
  back.run({{"buffer 0", a}, {"buffer 2", a}, {"buffer 3", b}});
  EXPECT_EQ(b.read<float>(), std::vector<float>({2, 4}));
}

}  // namespace
}  // namespace tessera
