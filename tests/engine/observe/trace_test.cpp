// The trace, read back with an independent JSON parser.
#include <tessera/tessera.hpp>

#include "support/again.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera {
namespace {

using nlohmann::json;
using test::expect_error;

class Trace : public ::testing::Test {
 protected:
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("tessera_trace_" + std::to_string(::getpid()) + ".json");
  Device device = Device::best();

  ~Trace() override {
    trace::stop();
    std::filesystem::remove(file);
  }

  json events() { return json::parse(std::ifstream(file)).at("traceEvents"); }

  // The commands of the trace by number.
  std::map<CommandId, json> commands() {
    std::map<CommandId, json> found;
    for (const json& event : events()) {
      if (event.at("ph") == "X" && event.at("cat") != "compile") found[event.at("args").at("command")] = event;
    }
    return found;
  }
};

TEST_F(Trace, Compiling_has_its_own_span) {
  const float number = 0.5F + static_cast<float>(::getpid());
  const auto fresh = tile::kernel(
      "fresh", [number](tile::Out<float> z, tile::In<float> x) { z.store(tile::load_like(x, z) * number); });
  const Buffer a = device.zeros({2000});
  trace::start(file);
  device.run(fresh, {a}, device.zeros({2000}));
  device.run(fresh, {a}, device.zeros({2000}));
  trace::stop();
  std::vector<std::string> compiled;
  for (const json& event : events()) {
    if (event.value("cat", "") == "compile") compiled.push_back(event.at("name"));
  }
  EXPECT_EQ(compiled, std::vector<std::string>{"fresh"});
}

TEST_F(Trace, Records_every_command_with_its_times_and_dependencies) {
  Buffer a = device.zeros({2000});
  const Buffer b = device.zeros({2000});
  Command first;
  Command second;
  trace::start(file);
  EXPECT_TRUE(trace::is_on());
  {
    const auto view = a.map<float>();
    first = device.submit("relu", {a}, b);
    second = device.submit("scale", {b}, b, {{"factor", 2}});
  }
  second.wait();
  const Command tiny = device.submit("fill", {}, device.zeros({4}));
  tiny.wait();
  const Command refused = device.submit("relu", {}, b);
  trace::stop();
  EXPECT_FALSE(trace::is_on());
  device.run("relu", {a}, b);  // not recorded

  const auto found = commands();
  ASSERT_TRUE(found.contains(first.id()));
  ASSERT_TRUE(found.contains(second.id()));
  ASSERT_TRUE(found.contains(tiny.id()));
  ASSERT_TRUE(found.contains(refused.id()));
  const json& scale = found.at(second.id());
  EXPECT_EQ(scale.at("name"), "scale");
  EXPECT_EQ(scale.at("args").at("bytes"), 16'000);
  EXPECT_EQ(scale.at("args").at("status"), "completed");
  EXPECT_EQ(scale.at("args").at("waited_for"), json::array({first.id()}));
  EXPECT_GE(scale.at("ts").get<double>(), found.at(first.id()).at("ts").get<double>());
  EXPECT_GE(scale.at("ts").get<double>(), scale.at("args").at("queued").get<double>());
  EXPECT_GE(scale.at("dur").get<double>(), 0);
  EXPECT_EQ(found.at(refused.id()).at("args").at("status"), "failed");
}

TEST_F(Trace, A_command_that_is_waited_for_twice_is_listed_once) {
  Buffer a = device.zeros({4});
  const Buffer b = device.zeros({4}), sum = device.zeros({4});
  Pipeline pipeline(device);
  pipeline.call("both", [] {}, {}, {a, b}).add("elementwise_add", {a, b}, sum);
  pipeline.compile();
  trace::start(file);
  {
    Command run;
    {
      const auto view = a.map<float>();
      run = pipeline.submit();
    }
    run.wait();
  }
  trace::stop();
  int found = 0;
  for (const json& event : events()) {
    if (event.at("ph") != "X" || event.at("name") != "elementwise_add") continue;
    EXPECT_EQ(event.at("args").at("waited_for").size(), 1U) << event;
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(Trace, Threads_have_names) {
  trace::start(file);
  const Command command = device.submit("fill", {}, device.zeros({100'000}));
  while (!is_terminal(command.poll())) std::this_thread::yield();  // a wait could run it on this thread
  trace::stop();
  std::string names;
  for (const json& event : events()) {
    if (event.at("name") == "thread_name") names += event.at("args").at("name").get<std::string>() + ";";
  }
  EXPECT_NE(names.find("worker "), std::string::npos) << names;
}

TEST_F(Trace, Records_cancelled_commands) {
  Buffer a = device.zeros({4});
  trace::start(file);
  Command cancelled;
  {
    const auto view = a.map<float>();
    cancelled = device.submit("relu", {a}, a);
    cancelled.cancel();
  }
  trace::stop();
  EXPECT_EQ(commands().at(cancelled.id()).at("args").at("status"), "cancelled");
}

// Also run by the test below, in a process of its own.
TEST(TraceChild, Runs_a_small_job) {
  const Device device = Device::best();
  device.run("fill", {}, device.zeros({4}));
  const Device second = Device::simulated({});
  second.run("fill", {}, second.zeros({4}));
}

TEST_F(Trace, The_environment_traces_a_whole_process) {
  const std::string job = test::this_program_in_quotes() + " --gtest_filter=TraceChild.* >/dev/null 2>&1";
  ASSERT_EQ(std::system(("TESSERA_TRACE='" + file.string() + "' " + job).c_str()), 0);
  EXPECT_EQ(commands().at(1).at("name"), "fill");
}

TEST_F(Trace, A_file_of_the_environment_that_cannot_be_written_is_told_once_and_changes_nothing_else) {
  const std::string job =
      test::this_program_in_quotes() + " --gtest_filter=TraceChild.* >/dev/null 2>'" + file.string() + "'";
  EXPECT_EQ(std::system(("TESSERA_TRACE=/nowhere/t.json " + job).c_str()), 0);
  std::ostringstream said;
  said << std::ifstream(file).rdbuf();
  const std::string expected = "tessera: TESSERA_TRACE: cannot write the trace file \"/nowhere/t.json\"";
  EXPECT_EQ(said.str().find(expected), 0U) << said.str();
  EXPECT_EQ(said.str().find(expected, 1), std::string::npos) << said.str();
}

// Files that cannot be written.
class BadTrace : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override {
    trace::stop();
    std::filesystem::remove_all(folder);
  }
  static std::string contents(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  static void run_a_command() {
    const Device device = Device::best();
    device.run("fill", {}, device.zeros({4}));
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tessera_bad_trace_" + std::to_string(getpid()));
};

TEST_F(BadTrace, A_file_that_cannot_be_written_is_an_error) {
  const std::filesystem::path missing = folder / "missing" / "trace.json";
  expect_error(Errc::io_error, missing.string(), [&] { trace::start(missing); });
  expect_error(Errc::io_error, folder.string(), [&] { trace::start(folder); });
  expect_error(Errc::io_error, "trace file", [] { trace::start(""); });
  EXPECT_FALSE(trace::is_on());
  EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST_F(BadTrace, A_full_disk_is_an_error) {
  expect_error(Errc::io_error, "/dev/full", [] { trace::start("/dev/full"); });
  EXPECT_FALSE(trace::is_on());
}

TEST_F(BadTrace, A_failed_start_leaves_the_current_trace_running) {
  trace::start(folder / "trace.json");
  expect_error(Errc::io_error, "missing", [&] { trace::start(folder / "missing" / "trace.json"); });
  EXPECT_TRUE(trace::is_on());
  run_a_command();
  trace::stop();
  EXPECT_NE(contents(folder / "trace.json").find("\"fill\""), std::string::npos);
}

TEST_F(BadTrace, Can_be_started_after_a_failed_start) {
  expect_error(Errc::io_error, "missing", [&] { trace::start(folder / "missing" / "trace.json"); });
  trace::start(folder / "trace.json");
  run_a_command();
  trace::stop();
  EXPECT_NE(contents(folder / "trace.json").find("\"fill\""), std::string::npos);
}

TEST_F(BadTrace, Stopping_without_a_trace_does_nothing) {
  EXPECT_NO_THROW(trace::stop());
  EXPECT_FALSE(trace::is_on());
}

}  // namespace
}  // namespace tessera
