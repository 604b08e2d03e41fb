// What Tessera costs, beside rivals in the same process.
#include <tessera/version.hpp>

#include "cases/cases.hpp"
#include "harness.hpp"
#include "report.hpp"

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using bench::Ahead;
using bench::at_most;
using bench::Case;
using bench::Kernel;
using bench::Summary;

constexpr const char* usage =
    "Usage: tessera_bench [options]\n"
    "Measures Tessera and its rivals in turns and prints a table.\n"
    "  --list         names the cases and measures none\n"
    "  --filter TEXT  measures only the cases whose names contain TEXT\n"
    "  --quick        a quarter of the rounds\n"
    "  --json FILE    writes the results to FILE too\n"
    "  --help         says this\n"
    "Exit code: 0 if all bars are met, 1 if one is missed, 2 if it could not measure.\n";

// The cases that sleep long or leave memory behind come last.
const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"independent tiny commands, scale", "ns", "TBB task_group", at_most(3),
       [] { return bench::independent(Kernel::scale, 10'000, 100); }},
      {"independent tiny commands, relu",
       "ns",
       "TBB task_group",
       {},
       [] { return bench::independent(Kernel::relu, 10'000, 100); }},
      {"independent tiny commands, scale, 2,000 outputs",
       "ns",
       "TBB task_group",
       {},
       [] { return bench::independent(Kernel::scale, 2'000, 2'000); }},
      {"independent tiny commands, scale, behind a map",
       "ns",
       "TBB task_group",
       {},
       [] { return bench::independent(Kernel::scale, 2'000, 2'000, Ahead::map); }},
      {"chain of 1,000, scale", "ns", "TBB flow_graph", at_most(5), [] { return bench::chain(Kernel::scale); }},
      {"chain of 1,000, relu", "ns", "TBB flow_graph", {}, [] { return bench::chain(Kernel::relu); }},
      {"chain of 1,000, scale, behind a map",
       "ns",
       "TBB flow_graph",
       {},
       [] { return bench::chain(Kernel::scale, Ahead::map); }},
      {"run, scale", "ns", "TBB run+wait", at_most(4), [] { return bench::run(Kernel::scale); }},
      {"run, relu", "ns", "TBB run+wait", {}, [] { return bench::run(Kernel::relu); }},
      {"submit+wait, scale", "ns", "TBB run+wait", {}, bench::submit_and_wait},
      {"submit+wait, scale, std::async", "ns", "std::async", {}, bench::submit_and_wait_async},
      {"32 KiB commands from one thread", "us", "TBB task_group", {}, [] { return bench::middling(1); }},
      {"32 KiB commands from four threads", "us", "TBB task_group", {}, [] { return bench::middling(4); }},
      {"64 MiB scale", "GB/s", "two std::threads", {}, bench::large, 20, Summary::maximum},
      {"wake-up after idling", "us", "futex handoff", at_most(3), bench::wake, 200, Summary::median},
      {"processor time of an idle second", "ms", "", at_most(1), bench::idle, 1},
      {"memory kept after a million commands", "MiB", "", {}, bench::million, 1},
      {"memory of a pending command", "B", "", {}, bench::pending_command, 1},
  };
  return table;
}

struct Options {
  bool help = false;
  bool list = false;
  bool quick = false;
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

int measure_all(const Options& options) {
  std::vector<const Case*> chosen;
  for (const Case& known : cases()) {
    if (known.name.find(options.filter) != std::string_view::npos) chosen.push_back(&known);
  }
  if (chosen.empty()) throw std::runtime_error("no case's name contains \"" + options.filter + '"');
  if (options.list) {
    for (const Case* listed : chosen) std::cout << listed->name << '\n';
    return 0;
  }

  bench::warm_cores(std::chrono::seconds(1));
  std::vector<bench::Result> results;
  for (const Case* measured : chosen) {
    std::cerr << '[' << results.size() + 1 << '/' << chosen.size() << "] " << measured->name << ": " << std::flush;
    results.push_back(bench::measure(*measured, options.quick));
    print_line(std::cerr, results.back());
    std::cerr << std::endl;
  }

  std::cout << "\nTessera " << tessera::version()
            << ": the best of many rounds, of the wake-up the median; ratio = ours / rival\n\n";
  print_table(std::cout, results);
  std::cout << '\n';
  if (!options.json.empty()) write_json(options.json, results, options.quick);

  int exit_code = 0;
  for (const bench::Result& result : results) {
    if (result.is_met()) continue;
    std::cout << "MISSED: " << result.of->name << '\n';
    exit_code = 1;
  }
  if (exit_code == 0) std::cout << "all bars are met\n";
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
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
