// Measures Tessera against rivals in the same process.
#include <tessera/device.hpp>
#include <tessera/version.hpp>

#include "cases/cases.hpp"
#include "environment.hpp"
#include "harness.hpp"
#include "load.hpp"
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using bench::Ahead;
using bench::at_least;
using bench::at_most;
using bench::Case;
using bench::Chain;
using bench::Extent;
using bench::FirstCall;
using bench::Kernel;
using bench::Opponent;
using bench::Summary;
using bench::Verdict;

constexpr const char* usage =
    "Usage: tessera_bench [options]\n"
    "Measures Tessera and its rivals in turn and prints a table.\n"
    "  --device NAME  measure the cases of a GPU: vulkan, opencl, gles (default: those of the cpu)\n"
    "  --list         list the cases\n"
    "  --filter TEXT  only cases whose names contain TEXT\n"
    "  --quick        a quarter of the rounds\n"
    "  --json FILE    write the results to FILE too\n"
    "  --help         print this\n"
    "Exit code: 0 if all bars are met, 1 if one is missed, 2 if it cannot measure.\n";

Case matmul_f32(std::string_view name, int size) {
  return {name,
          "GFLOP/s",
          {{"oneDNN matmul", at_least(0.95)}, {"oneDNN sgemm", at_least(0.95)}},
          [=] { return bench::matmul<float>(size); },
          10,
          Summary::maximum};
}

Case image_pipeline(std::string_view name, int width, int height) {
  return {name,
          "Mpixel/s",
          {{"OpenCV", at_least(2.5)}, {"not fused", at_least(1.6)}},
          [=] { return bench::image_pipeline(width, height); },
          10,
          Summary::maximum};
}

Case first_call(std::string_view name, FirstCall which, double milliseconds) {
  return {name, "ms", {}, [=] { return bench::first_call(which); }, 8, Summary::minimum, at_most(milliseconds)};
}

// The cost of commands.
std::vector<Case> command_cases() {
  return {
      {"independent tiny commands, scale",
       "ns",
       {{"TBB task_group", at_most(3)}},
       [] { return bench::independent(Kernel::scale, 10'000, 100); }},
      {"independent tiny commands, relu",
       "ns",
       {{"TBB task_group"}},
       [] { return bench::independent(Kernel::relu, 10'000, 100); }},
      {"independent tiny commands, scale, 2,000 outputs",
       "ns",
       {{"TBB task_group"}},
       [] { return bench::independent(Kernel::scale, 2'000, 2'000); }},
      {"independent tiny commands, scale, behind a map",
       "ns",
       {{"TBB task_group"}},
       [] { return bench::independent(Kernel::scale, 2'000, 2'000, Ahead::map); }},
      {"chain of 1,000, scale", "ns", {{"TBB flow_graph", at_most(5)}}, [] { return bench::chain(Kernel::scale); }},
      {"chain of 1,000, relu", "ns", {{"TBB flow_graph"}}, [] { return bench::chain(Kernel::relu); }},
      {"chain of 1,000, scale, behind a map",
       "ns",
       {{"TBB flow_graph"}},
       [] { return bench::chain(Kernel::scale, Ahead::map); }},
      {"run, scale", "ns", {{"TBB run+wait", at_most(4)}}, [] { return bench::run(Kernel::scale); }},
      {"run, relu", "ns", {{"TBB run+wait"}}, [] { return bench::run(Kernel::relu); }},
      {"submit+wait, scale", "ns", {{"TBB run+wait"}}, bench::submit_and_wait},
      {"submit+wait, scale, std::async", "ns", {{"std::async"}}, bench::submit_and_wait_async},
      {"32 KiB commands from one thread", "us", {{"TBB task_group"}}, [] { return bench::middling(1); }},
      {"32 KiB commands from four threads", "us", {{"TBB task_group"}}, [] { return bench::middling(4); }},
      {"64 MiB scale", "GB/s", {{"two std::threads"}}, bench::large, 20, Summary::maximum},
      {"wake-up after idling", "us", {{"futex handoff", at_most(3)}}, bench::wake, 200, Summary::median},
  };
}

// The speed of kernels.
std::vector<Case> kernel_cases() {
  return {
      {"relu(a+b)*s, 64 MiB",
       "GB/s",
       {{"OpenMP", at_least(1.5)},
        {"Eigen", at_least(1.5)},
        {"OpenCV", at_least(1.5)},
        {"by hand", at_least(0.9), true}},
       [] { return bench::add_relu_scale(std::size_t{16} << 20, Extent::memory); },
       20,
       Summary::maximum},
      {"relu(a+b)*s, 1 MiB",
       "GB/s",
       {{"OpenMP", at_least(1)}},
       [] { return bench::add_relu_scale(std::size_t{256} << 10, Extent::cache); },
       10,
       Summary::maximum},
      matmul_f32("matmul f32 256", 256),
      matmul_f32("matmul f32 512", 512),
      matmul_f32("matmul f32 1024", 1024),
      matmul_f32("matmul f32 2048", 2048),
      {"matmul f64 1024",
       "GFLOP/s",
       {{"OpenBLAS", at_least(0.95)}},
       [] { return bench::matmul<double>(1024); },
       10,
       Summary::maximum},
      {"matmul s32 1024",
       "Gop/s",
       {{"Eigen"}, {"OpenMP"}},
       [] { return bench::matmul<std::int32_t>(1024); },
       5,
       Summary::maximum},
      {"softmax [1000,1000]",
       "GB/s",
       {{"oneDNN", at_least(1)}, {"Eigen", at_least(1)}},
       [] { return bench::softmax(1000, 1000); },
       10,
       Summary::maximum},
      {"row sums [1000,1000]",
       "GB/s",
       {{"oneDNN", at_least(1)}, {"Eigen", at_least(1)}},
       [] { return bench::row_sums(1000, 1000); },
       10,
       Summary::maximum},
      {"sum of 64 MiB f32",
       "GB/s",
       {{"OpenMP", at_least(1)}, {"Eigen", at_least(1)}},
       [] { return bench::sum_of_all(std::size_t{16} << 20); },
       10,
       Summary::maximum},
      {"gaussian_blur 7x7, 2160p RGBA",
       "Mpixel/s",
       {{"OpenCV", at_least(1.5)}},
       [] { return bench::gaussian_blur(3840, 2160); },
       10,
       Summary::maximum},
      {"resize 1080p to 720p RGBA",
       "Mpixel/s",
       {{"OpenCV"}},
       [] { return bench::resize(1920, 1080, 1280, 720); },
       10,
       Summary::maximum},
      {"lut_apply, 1080p RGB",
       "Mpixel/s",
       {{"OpenCV"}},
       [] { return bench::look_up(1920, 1080); },
       10,
       Summary::maximum},
      {"saturation, 1080p RGB",
       "Mpixel/s",
       {{"OpenCV"}},
       [] { return bench::saturation(1920, 1080); },
       10,
       Summary::maximum},
  };
}

// Pipelines and operations.
std::vector<Case> graph_cases() {
  return {
      {"ten tiny stages replayed, element-wise",
       "ns",
       {{"TBB flow_graph", at_most(1)}},
       [] { return bench::tiny_pipeline(true); }},
      {"ten tiny stages replayed, barriers between",
       "ns",
       {{"TBB flow_graph", at_most(2)}},
       [] { return bench::tiny_pipeline(false); }},
      {"ten element-wise stages, 64 MiB", "ms", {{"one stage", at_most(1.15)}}, bench::long_chain, 10},
      image_pipeline("blur, sharpen, gray, 2160p RGBA", 3840, 2160),
      image_pipeline("blur, sharpen, gray, 1080p RGBA", 1920, 1080),
      {"1,000 tiny operations, awaited one by one", "ns", {{"submit", at_most(1.3)}}, bench::awaited_operations},
      {"1,000 tiny operations, chained with then",
       "ns",
       {{"submit", at_most(1.3)}, {"awaited"}},
       [] { return bench::chained_operations(Chain::then, 16); }},
      {"1,000 tiny operations, a graph replayed",
       "ns",
       {{"submit", at_most(1.3)}, {"awaited"}},
       [] { return bench::chained_operations(Chain::graph, 16); }},
      {"1,000 operations over 256 KiB that fuse",
       "ns",
       {{"submit"}, {"awaited", at_most(0.2)}},
       [] { return bench::chained_operations(Chain::then, std::size_t{64} << 10); },
       5},
      {"host work beside spawned device work", "ms", {{"in turn", at_most(1 / 1.7)}}, bench::overlapped, 10},
  };
}

// First calls, idling and memory. They come last: they sleep long or leave memory behind.
std::vector<Case> process_cases() {
  return {
      first_call("first call of a kernel", FirstCall::first, 30),
      first_call("first call of a second kernel", FirstCall::second, 10),
      first_call("first call, compiled before", FirstCall::from_disk, 1),
      {"processor time of an idle second", "ms", {}, bench::idle, 1, Summary::minimum, at_most(1)},
      {"memory kept after a million commands", "MiB", {}, bench::million, 1},
      {"memory of a pending command", "B", {}, bench::pending_command, 1},
  };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> table = [] {
    std::vector<Case> all;
    for (auto* const group : {command_cases, kernel_cases, graph_cases, process_cases})
      std::ranges::move(group(), std::back_inserter(all));
    return all;
  }();
  return table;
}

// The cases of a GPU.
std::vector<Case> gpu_cases(const std::string& device) {
  std::vector<Opponent> loops;
  std::vector<Opponent> kernel;
  if (device == "vulkan") loops = {{"vkWaitForFences", at_most(1.25)}, {"vkWaitSemaphores", at_most(1.25)}};
  if (device == "opencl") loops = {{"clFinish", at_most(1.25)}, {"clWaitForEvents", at_most(1.25)}};
  if (!loops.empty()) kernel = {{"by hand", at_least(0.95)}};
  std::vector<Opponent> stages = {{"ten runs", at_most(0.4)}, {"ten submits"}};
  if (device == "vulkan") stages.push_back({"ten dispatches by hand"});
  return {
      {"submit+wait, relu", "us", loops, [=] { return bench::gpu_submit_and_wait(device); }, 200, Summary::low},
      {"run, relu", "us", loops, [=] { return bench::gpu_run(device); }, 200, Summary::low},
      {"ten tiny stages replayed, barriers between", "us", stages, [=] { return bench::gpu_pipeline(device); }, 100},
      {"relu(a+b)*s, 64 MiB", "GB/s", kernel, [=] { return bench::gpu_add_relu_scale(device); }, 20, Summary::maximum},
  };
}

struct Options {
  bool help = false;
  bool list = false;
  bool quick = false;
  std::string device = "cpu";
  std::string filter;
  std::string json;
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw std::runtime_error(argument + " needs a value");
      return arguments[++i];
    };
    if (argument == "--help") {
      options.help = true;
    } else if (argument == "--list") {
      options.list = true;
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--device") {
      options.device = value();
    } else if (argument == "--filter") {
      options.filter = value();
    } else if (argument == "--json") {
      options.json = value();
    } else {
      throw std::runtime_error("unknown option " + argument + "\n" + usage);
    }
  }
  return options;
}

// Prints the missed bars and returns the exit code.
int conclude(const std::vector<bench::Result>& results) {
  int missed = 0;
  int not_judged = 0;
  for (const bench::Result& result : results) {
    if (result.is_missed()) {
      std::cout << "MISSED: " << result.of->name << '\n';
      ++missed;
    }
    const auto is_open = [](Verdict verdict) {
      return verdict == Verdict::not_measured || verdict == Verdict::out_of_reach;
    };
    not_judged += is_open(result.own_verdict());
    for (std::size_t i = 0; i < result.rivals.size(); ++i) not_judged += is_open(result.verdict(i));
  }
  if (not_judged > 0) std::cout << "bars not measured or out of this machine's reach: " << not_judged << '\n';
  if (missed == 0) std::cout << (not_judged > 0 ? "all other bars are met\n" : "all bars are met\n");
  return missed > 0 ? 1 : 0;
}

std::string described(const std::string& device) {
  const tessera::DeviceInfo& info = tessera::Device::open(device).info();
  return info.name + " (" + device + ", " + info.version + ')';
}

int measure_all(const Options& options) {
  const std::vector<Case> all = options.device == "cpu" ? cases() : gpu_cases(options.device);
  std::vector<const Case*> chosen;
  for (const Case& known : all) {
    if (known.name.find(options.filter) != std::string_view::npos) chosen.push_back(&known);
  }
  if (chosen.empty()) throw std::runtime_error("no case's name contains \"" + options.filter + '"');
  if (options.list) {
    for (const Case* listed : chosen) std::cout << listed->name << '\n';
    return 0;
  }

  const bench::Load load;
  bench::warm_cores(std::chrono::seconds(1));
  std::vector<bench::Result> results;
  for (const Case* measured : chosen) {
    std::cerr << '[' << results.size() + 1 << '/' << chosen.size() << "] " << measured->name << ": " << std::flush;
    results.push_back(bench::measure(*measured, options.quick));
    print_line(std::cerr, results.back());
    std::cerr << std::endl;
  }

  std::cout << "\nTessera " << tessera::version() << " on " << described(options.device)
            << ": best of many rounds (wake-up: median; GPU submissions: 10th percentile); ratio = ours / "
               "rival\n\n";
  print_table(std::cout, results);
  std::cout << '\n';
  if (const double others = load.of_others(); others > 0.05) {
    std::cout << "Other processes used " << std::lround(others * 100)
              << " % of the processor: measure again on an idle machine\n";
  }
  if (!options.json.empty()) write_json(options.json, options.device, results, options.quick);

  return conclude(results);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::prepare_environment(argv);
    const Options options = parse({argv + 1, argv + argc});
    if (options.help) {
      std::cout << usage;
      return 0;
    }
    return measure_all(options);
  } catch (const std::exception& error) {
    std::cerr << "tessera_bench: " << error.what() << '\n';
    return 2;
  }
}
