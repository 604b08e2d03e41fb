#include "plan/plan.hpp"

#include "core/random.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace tessera::plan {
namespace {

using test::expect_error;
using Kind = GraphBuffer::Kind;
using Numbers = std::vector<std::size_t>;

// A hand-written graph: buffers of given sizes, and stages that read and write them.
struct Sketch {
  Graph graph;

  std::size_t buffer(Kind kind, std::int64_t bytes) {
    const std::size_t number = graph.buffers.size();
    const auto which = static_cast<std::size_t>(std::ranges::count(graph.buffers, kind, &GraphBuffer::kind));
    graph.buffers.push_back({kind, std::string(to_string(kind)) + " " + std::to_string(which), u8, {bytes}});
    return number;
  }
  void stage(const Numbers& inputs, const Numbers& outputs) {
    GraphStage& made = graph.stages.emplace_back();
    made.op = StageOp::call;
    made.label = "s" + std::to_string(graph.stages.size() - 1);
    for (const std::size_t b : inputs) made.inputs.push_back({b, u8, graph.buffers[b].shape});
    for (const std::size_t b : outputs) made.outputs.push_back({b, u8, graph.buffers[b].shape});
  }
  void barrier() {
    graph.stages.emplace_back().op = StageOp::barrier;
    graph.stages.back().label = "barrier";
  }
  Plan plan() const { return plan_of(graph, groups_of(graph, {}, {})); }
};

TEST(Plan, A_group_waits_for_groups_that_touch_its_buffers) {
  Sketch sketch;
  const std::size_t a = sketch.buffer(Kind::own, 4), b = sketch.buffer(Kind::own, 4), c = sketch.buffer(Kind::own, 4);
  sketch.stage({a}, {b});     // 0
  sketch.stage({a}, {c});     // 1: both only read a
  sketch.stage({b}, {b});     // 2: after 0
  sketch.stage({}, {a});      // 3: after its readers
  sketch.stage({b, c}, {a});  // 4
  const Plan plan = sketch.plan();
  EXPECT_EQ(plan.groups[0].after, Numbers());
  EXPECT_EQ(plan.groups[1].after, Numbers());
  EXPECT_EQ(plan.groups[2].after, Numbers({0}));
  EXPECT_EQ(plan.groups[3].after, Numbers({0, 1}));
  EXPECT_EQ(plan.groups[4].after, Numbers({2, 1, 3}));
  EXPECT_FALSE(plan.groups[3].is_last);
  EXPECT_TRUE(plan.groups[4].is_last);
}

TEST(Plan, A_barrier_orders_groups_that_share_nothing) {
  Sketch sketch;
  const std::size_t a = sketch.buffer(Kind::own, 4), b = sketch.buffer(Kind::own, 4), c = sketch.buffer(Kind::own, 4);
  sketch.barrier();        // 0: with nothing before it
  sketch.stage({}, {a});   // 1
  sketch.stage({a}, {b});  // 2
  sketch.barrier();        // 3
  sketch.barrier();        // 4
  sketch.stage({}, {c});   // 5
  sketch.stage({c}, {c});  // 6
  const Plan plan = sketch.plan();
  EXPECT_EQ(plan.groups[1].after, Numbers({0}));
  EXPECT_EQ(plan.groups[2].after, Numbers({1}));
  EXPECT_EQ(plan.groups[3].after, Numbers({2}));
  EXPECT_EQ(plan.groups[4].after, Numbers({3}));
  EXPECT_EQ(plan.groups[5].after, Numbers({4}));
  EXPECT_EQ(plan.groups[6].after, Numbers({5}));
}

TEST(Plan, Temporaries_share_memory_one_after_the_other) {
  Sketch sketch;
  const std::size_t in = sketch.buffer(Kind::slot, 8), out = sketch.buffer(Kind::own, 8);
  Numbers chain = {in};
  for (int i = 0; i < 6; ++i) chain.push_back(sketch.buffer(Kind::temporary, 100 + i));
  chain.push_back(out);
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) sketch.stage({chain[i]}, {chain[i + 1]});
  const Plan plan = sketch.plan();
  EXPECT_EQ(plan.blocks.size(), 2U);
  EXPECT_EQ(plan.peak, 105U + 104U);
  EXPECT_EQ(plan.temporary_bytes, 615U);
}

TEST(Plan, Temporaries_of_independent_branches_do_not_share) {
  Sketch sketch;
  const std::size_t a = sketch.buffer(Kind::own, 8), b = sketch.buffer(Kind::own, 8);
  const std::size_t s = sketch.buffer(Kind::temporary, 100), t = sketch.buffer(Kind::temporary, 100);
  sketch.stage({}, {s});
  sketch.stage({s}, {a});
  sketch.stage({}, {t});  // could start at once: it must not wait for the first branch
  sketch.stage({t}, {b});
  EXPECT_EQ(sketch.plan().blocks.size(), 2U);
}

TEST(Plan, Sharing_never_makes_a_group_wait) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    core::Random random(seed);
    Sketch sketch;
    Numbers buffers;
    for (int i = 0; i < 12; ++i) {
      buffers.push_back(sketch.buffer(random.below(3) == 0 ? Kind::own : Kind::temporary,
                                      static_cast<std::int64_t>(random.below(64))));
    }
    Numbers written;  // what has been written
    for (int i = 0; i < 20; ++i) {
      if (random.below(12) == 0) sketch.barrier();
      Numbers inputs;
      if (!written.empty()) inputs = {written[random.below(written.size())], written[random.below(written.size())]};
      const std::size_t output = buffers[random.below(12)];
      sketch.stage(inputs, {output});
      written.push_back(output);
    }
    // Replacing temporaries by the memory they share does not change the order.
    const Plan plan = sketch.plan();
    Sketch placed = sketch;
    const std::size_t first = placed.graph.buffers.size();
    for (const TemporaryBlock& block : plan.blocks) placed.buffer(Kind::own, static_cast<std::int64_t>(block.bytes));
    const auto move = [&](std::vector<Use>& uses) {
      for (Use& use : uses) {
        if (plan.block_of[use.buffer]) use.buffer = first + *plan.block_of[use.buffer];
      }
    };
    for (GraphStage& stage : placed.graph.stages) {
      move(stage.inputs);
      move(stage.outputs);
    }
    const auto ancestors = [](const Plan& of) {
      std::vector<std::vector<bool>> all;
      for (const Group& group : of.groups) {
        std::vector<bool> before(of.groups.size());
        for (const std::size_t earlier : group.after) {
          before[earlier] = true;
          for (std::size_t i = 0; i < earlier; ++i) before[i] = before[i] || all[earlier][i];
        }
        all.push_back(before);
      }
      return all;
    };
    EXPECT_EQ(ancestors(placed.plan()), ancestors(plan)) << "seed " << seed;
  }
}

TEST(Plan, Reading_an_unwritten_temporary_is_a_problem_and_never_reading_one_a_warning) {
  Sketch sketch;
  const std::size_t s = sketch.buffer(Kind::temporary, 4), t = sketch.buffer(Kind::temporary, 4);
  sketch.stage({s}, {t});
  sketch.stage({}, {s});
  sketch.stage({s}, {s});
  const std::vector<Problem> problems = order_problems(sketch.graph);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].stage, 0U);
  EXPECT_EQ(order_warnings(sketch.graph),
            std::vector<std::string>({"stage 0 [s0]: its output, temporary 1, is never read",
                                      "stage 2 [s2]: its output, temporary 0, is never read"}));
}

TEST(Plan, Parameters_are_put_in_at_any_depth) {
  Graph graph;
  graph.params = {{"width", 3}, {"mode", "linear"}};
  const Params params = {{"size", Value(Value::parameter("width"), 2)}, {"mode", Value::parameter("mode")}};
  EXPECT_TRUE(uses_parameters(params));
  const Params put = substituted(params, graph, {Value(7), Value("nearest")});
  EXPECT_EQ(put, Params({"size", Value(7, 2)}, {"mode", "nearest"}));
  EXPECT_FALSE(uses_parameters(put));
  expect_error(Errc::unknown_parameter, "did you mean 'width'?",
               [&] { substituted(Value::parameter("widht"), graph, {Value(7), Value("nearest")}); });
}

TEST(Plan, A_group_uses_no_more_buffers_than_the_device_takes) {
  Sketch sketch;
  const auto number = [&](Kind kind) { return sketch.buffer(kind, 8); };
  std::size_t sum = number(Kind::own);
  for (int i = 0; i < 20; ++i) {
    const std::size_t next = number(i < 19 ? Kind::temporary : Kind::own);
    sketch.stage({sum, number(Kind::own)}, {next});
    GraphStage& added = sketch.graph.stages.back();
    added.op = StageOp::run_kernel;
    added.kernel = &kernels::find("elementwise_add");
    sum = next;
  }
  EXPECT_EQ(groups_of(sketch.graph, {}, {}).size(), 1U);
  const std::vector<Group> groups = groups_of(sketch.graph, {}, {.most_buffers = 6});
  EXPECT_EQ(groups.size(), 5U);
  for (const Group& group : groups) EXPECT_LE(group.inputs.size() + group.outputs.size(), 6U);
  EXPECT_NE(groups.back().reason.find("a launch on this device can use 6"), std::string::npos) << groups.back().reason;
}

// Stages of one kernel; each reads what the previous one wrote.
Sketch chain(const std::string& kernel, int stages) {
  Sketch sketch;
  std::size_t last = sketch.buffer(Kind::own, 4096);
  for (int i = 0; i < stages; ++i) {
    const std::size_t next = sketch.buffer(i + 1 < stages ? Kind::temporary : Kind::own, 4096);
    sketch.stage({last}, {next});
    sketch.graph.stages.back().op = StageOp::run_kernel;
    sketch.graph.stages.back().kernel = &kernels::find(kernel);
    last = next;
  }
  for (GraphBuffer& buffer : sketch.graph.buffers) buffer.shape = {64, 64};
  for (GraphStage& stage : sketch.graph.stages) stage.inputs[0].shape = stage.outputs[0].shape = {64, 64};
  return sketch;
}

TEST(Plan, A_long_chain_is_several_groups_of_bounded_size) {
  const auto expect_groups = [](const std::string& kernel, std::size_t most, const std::string& reason) {
    const std::vector<Group> groups = groups_of(chain(kernel, 100).graph, {}, {});
    std::size_t next = 0;  // stages keep their order
    for (const Group& group : groups) {
      EXPECT_LE(group.stages.size(), most) << kernel;
      for (const std::size_t stage : group.stages) EXPECT_EQ(stage, next++) << kernel;
    }
    EXPECT_EQ(next, 100U) << kernel;
    EXPECT_EQ(groups.size(), (100 + most - 1) / most) << kernel;
    EXPECT_NE(groups.back().reason.find(reason), std::string::npos) << kernel << ": " << groups.back().reason;
  };
  expect_groups("neg", 32, "a launch has at most 32 stages");
  expect_groups("gaussian_blur", 8, "at most 8 stages that read neighbouring elements share a launch");
}

TEST(Plan, Similar_stages_are_analysed_once) {
  int traced = 0;
  kernels::Kernel counted = kernels::find("neg");
  counted.name = "counted";
  counted.lower = [&traced, plan = counted.lower](const kernels::Call& call) {
    kernels::Lowering made = plan(call);
    made.body = [&traced, body = made.body] {
      ++traced;
      body();
    };
    return made;
  };
  Sketch sketch = chain("neg", 100);
  for (GraphStage& stage : sketch.graph.stages) stage.kernel = &counted;
  groups_of(sketch.graph, {}, {});
  EXPECT_EQ(traced, 2);  // once as it is, once over merged axes
}

TEST(Plan, A_stage_tells_fusion_its_plan_and_its_program) {
  GraphStage stage;
  stage.kernel = &kernels::find("scale");
  stage.inputs = {{0, f32, {3, 4}}};
  stage.outputs = {{1, f32, {3, 4}}};
  const Params params = {{"factor", 2}};
  const StageCall call(stage, params);
  const kernels::Lowering lowering = call.lower();
  EXPECT_TRUE(lowering.is_pointwise);
  ASSERT_EQ(lowering.scalars.size(), 1U);
  const ir::Program program = call.program(lowering, {{3, -1}, {3, -1}});
  EXPECT_EQ(program.buffers.size(), 2U);
  EXPECT_EQ(program.buffers[0].dims, std::vector<std::int64_t>({3, -1}));
}

}  // namespace
}  // namespace tessera::plan
