// Runs every kernel on every device and compares it with oracles and the reference interpreter.
#include <tessera/tessera.hpp>

#include "conformance/cases/cases.hpp"
#include "conformance/check.hpp"
#include "conformance/interpreted.hpp"
#include "conformance/oracles/oracles.hpp"
#include "core/random.hpp"
#include "support/depth.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tessera::conformance {

namespace {

constexpr const char* usage =
    "Usage: tessera_conformance [options]\n"
    "Compares the results of kernels with oracles and with the reference interpreter.\n"
    "  --device NAME  only this device (default: all)\n"
    "  --kernel NAME  only this kernel\n"
    "  --case N       only this case of the kernel\n"
    "  --matrix FILE  write the types each device supports, as Markdown\n"
    "  --expect FILE  fail if the types differ from a file written by --matrix, except on hardware GPUs\n"
    "  --sample N     one in N cases of each kernel and type, chosen by the seed, and always the first of each;\n"
    "                 all of them if TESSERA_TEST_DEPTH is 100\n"
    "  --seed N       which cases --sample chooses (TESSERA_TEST_SEED, or 1)\n"
    "  --huge         buffers of more than 2^31 bytes instead of the usual cases\n"
    "  --list         list the kernels and their number of cases\n"
    "  --help         print this\n"
    "Exit code: 0 if all cases pass, 1 if some fail, 2 if it cannot run.\n";

struct Options {
  std::vector<std::string> devices;
  std::string kernel;
  int only = -1;
  int sample = 1;
  std::uint64_t seed = test::seed();
  std::string matrix;
  std::string expected;
  bool huge = false;
  bool list = false;
};

// All cases of one kernel, as they are numbered.
using Group = std::pair<std::string, Cases>;

std::vector<Group> grouped(Cases cases, const std::string& only) {
  std::vector<Group> groups;
  for (Case& one : cases) {
    if (!only.empty() && one.kernel != only) continue;
    const auto known = std::ranges::find(groups, one.kernel, &Group::first);
    Group& group = known != groups.end() ? *known : groups.emplace_back(one.kernel, Cases());
    group.second.push_back(std::move(one));
  }
  return groups;
}

struct Tally {
  // The first case of each type, which every sample includes, decides whether the device supports it. Other cases may
  // work even if it does not: a cast to the same type, for example, is a copy.
  std::set<DType> dtypes;
  std::set<DType> unsupported_dtypes;
  int unsupported = 0;  // cases
  int cases = 0;
  int failed = 0;
  int shown = 0;
  Real largest_error = 0;
  Real largest_share = 0;

  void add(const Check& check) {
    largest_error = std::max(largest_error, check.largest_error);
    largest_share = std::max(largest_share, check.largest_share);
  }
};

constexpr int most_shown = 5;

// Prints a failure and how to reproduce it.
void report_failure(Tally& tally, const Device& device, const Case& one, int number, const std::string& what) {
  ++tally.failed;
  if (++tally.shown > most_shown) return;
  const char* features = std::getenv("TESSERA_CPU_FEATURES");
  std::printf("FAILED %s\n  %s\n  again: %s%s%stessera_conformance --device %s --kernel %s --case %d\n",
              describe(one).c_str(), what.c_str(), features ? "TESSERA_CPU_FEATURES=" : "", features ? features : "",
              features ? " " : "", device.info().backend.c_str(), one.kernel.c_str(), number);
}

std::string to_text(const char* who, const Check& check) {
  char text[256];
  const Difference& first = *check.first;
  std::snprintf(text, sizeof text, "%s: %zu elements wrong, first [%zu]: expected %.20Lg +- %.3Lg, got %.20Lg", who,
                check.failures, first.index, first.expected.value, first.expected.slack, first.got);
  return text;
}

Tensor run_on(const Device& device, const Case& one, const Call& call) {
  std::vector<Buffer> inputs;
  inputs.reserve(call.inputs.size());
  for (const Tensor& input : call.inputs) inputs.push_back(device.from_bytes(input.bytes, input.shape, input.dtype));
  Tensor result(one.dtype, one.shape);
  // Elements that are not written will be noticed.
  const std::vector<std::byte> before(result.bytes.size(), std::byte{0xA5});
  const Buffer output = one.in_place >= 0 ? inputs[static_cast<std::size_t>(one.in_place)]
                                          : device.from_bytes(before, one.shape, one.dtype);
  device.run(one.kernel, inputs, output, one.params);
  result.bytes = output.read_bytes();
  return result;
}

void expect_refusal(Tally& tally, const Device& device, const Case& one, int number, const Call& call) {
  try {
    run_on(device, one, call);
    report_failure(tally, device, one, number, "expected " + std::string(to_string(*one.error)) + ", got no error");
  } catch (const Error& error) {
    if (error.code() == *one.error) return;
    report_failure(tally, device, one, number,
                   "expected " + std::string(to_string(*one.error)) + ", got " + std::string(to_string(error.code())) +
                       ": " + error.what());
  }
}

void run_case(Tally& tally, const Device& device, const Case& one, int number, bool is_huge) {
  const Call call = make_call(one, static_cast<std::uint64_t>(number) + 1);
  ++tally.cases;
  if (one.error) return expect_refusal(tally, device, one, number, call);
  const char* who = "device";
  try {
    const Answer expected = oracles().at(one.kernel)(call);
    const Check of_device = check(expected, run_on(device, one, call));
    tally.add(of_device);
    if (!tally.unsupported_dtypes.contains(one.dtype)) tally.dtypes.insert(one.dtype);
    if (of_device.first) return report_failure(tally, device, one, number, to_text(who, of_device));
    if (is_huge) return;
    who = "interpreter";
    const Check of_interpreter = check(expected, interpreted(one, call));
    if (of_interpreter.first) report_failure(tally, device, one, number, to_text(who, of_interpreter));
  } catch (const Error& error) {
    // A device may lack a type that the kernel uses: that is not a failure.
    const bool is_unsupported = error.code() == Errc::unsupported && device.info().backend != "cpu";
    if (!is_unsupported) return report_failure(tally, device, one, number, std::string(who) + ": " + error.what());
    --tally.cases;
    ++tally.unsupported;
    if (!tally.dtypes.contains(one.dtype)) tally.unsupported_dtypes.insert(one.dtype);
  } catch (const std::exception& error) {
    report_failure(tally, device, one, number, std::string(who) + ": " + error.what());
  }
}

// Chooses one in `sample` cases of a kernel and type. Each type begins its count at an offset by the seed.
class Sampling {
 public:
  explicit Sampling(const Options& options, const std::string& kernel)
      : sample_(static_cast<std::uint64_t>(options.sample)), seed_(options.seed ^ std::hash<std::string>()(kernel)) {}

  bool takes(DType dtype) {
    const auto [next, is_first] = next_.try_emplace(dtype, core::Random(seed_ + static_cast<unsigned>(dtype)).next());
    return next->second++ % sample_ == 0 || is_first;
  }

 private:
  std::uint64_t sample_;
  std::uint64_t seed_;
  std::map<DType, std::uint64_t> next_;
};

// The supported types, by kernel and device.
using Matrix = std::map<std::string, std::map<std::string, std::string>>;
Matrix matrix;

std::string types_of(const Tally& tally) {
  std::string types;
  for (const DType dtype : tally.dtypes) {
    if (!types.empty()) types += ' ';
    types += to_string(dtype);
  }
  return types.empty() ? "-" : types;
}

void write_matrix(const Options& options) {
  std::FILE* file = std::fopen(options.matrix.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write " + options.matrix);
  std::fputs(
      "# Kernels and devices\n\n"
      "Output types that each device supports, written by `tessera_conformance --matrix`. For all of them, results "
      "match the\n"
      "reference interpreter. A device without 64-bit arithmetic can still copy, fill and store such types, but "
      "refuses\n"
      "calls whose numbers need it: `scale` of integers by 1.5, `arange` by 0.1.\n\n"
      "| kernel |",
      file);
  for (const std::string& device : options.devices) std::fprintf(file, " %s |", device.c_str());
  std::fprintf(file, "\n|---|");
  for (std::size_t i = 0; i < options.devices.size(); ++i) std::fprintf(file, "---|");
  for (auto& [kernel, devices] : matrix) {
    std::fprintf(file, "\n| `%s` |", kernel.c_str());
    for (const std::string& device : options.devices) std::fprintf(file, " %s |", devices[device].c_str());
  }
  std::fprintf(file, "\n");
  std::fclose(file);
}

// "| a | b |" as its cells.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = line.find('|'), end = 0; (end = line.find('|', at + 1)) != std::string::npos; at = end) {
    const std::size_t first = line.find_first_not_of(' ', at + 1), last = line.find_last_not_of(' ', end - 1);
    cells.push_back(line.substr(first, last + 1 - first));
  }
  return cells;
}

Matrix read_matrix(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  Matrix read;
  std::vector<std::string> devices;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| ")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (devices.empty()) devices = cells;
    for (std::size_t i = 1; i < cells.size() && i < devices.size(); ++i) read[cells[0]][devices[i]] = cells[i];
  }
  return read;
}

// Whether the supported types differ from the expected ones.
bool is_other_than_expected(const Matrix& expected, const std::string& kernel, const std::string& device,
                            const std::string& types) {
  const auto row = expected.find('`' + kernel + '`');
  const std::string before = row != expected.end() && row->second.contains(device) ? row->second.at(device) : "nothing";
  if (before == types) return false;
  std::printf("%-20s FAILED: supports %s, expected %s\n", kernel.c_str(), types.c_str(), before.c_str());
  return true;
}

void print_row(const std::string& kernel, const Tally& tally) {
  const std::string types = types_of(tally);
  std::printf("%-20s %-24s %6d %14.3Lg %9.2Lf  %s\n", kernel.c_str(), types.c_str(), tally.cases, tally.largest_error,
              tally.largest_share, tally.failed == 0 ? "passed" : ("FAILED: " + std::to_string(tally.failed)).c_str());
  std::fflush(stdout);
}

// Reports kernels without cases.
int report_missing_cases(const Device& device, const std::vector<Group>& groups) {
  int missing = 0;
  for (const KernelInfo& kernel : device.kernels()) {
    if (std::ranges::find(groups, kernel.name, &Group::first) != groups.end()) continue;
    std::printf("%-20s FAILED: no cases\n", kernel.name.c_str());
    ++missing;
  }
  return missing;
}

bool run_device(const std::string& name, const std::vector<Group>& groups, const Options& options) {
  const Device device = Device::open(name);
  std::printf("\n%s: %s\n\n%-20s %-24s %6s %14s %9s\n", name.c_str(), device.info().name.c_str(), "kernel", "types",
              "cases", "largest error", "of bound");
  int failed = 0;
  const bool is_compared = !options.expected.empty() && !device.info().is_gpu;
  const Matrix expected = is_compared ? read_matrix(options.expected) : Matrix();
  for (const auto& [kernel, cases] : groups) {
    Tally tally;
    Sampling sampling(options, kernel);
    for (int i = 0; i < static_cast<int>(cases.size()); ++i) {
      const Case& one = cases[static_cast<std::size_t>(i)];
      if (options.only >= 0 ? i != options.only : !sampling.takes(one.dtype)) continue;
      run_case(tally, device, one, i, options.huge);
    }
    print_row(kernel, tally);
    if (!options.matrix.empty()) matrix[kernel][name] = types_of(tally);
    failed += tally.failed;
    if (is_compared && is_other_than_expected(expected, kernel, name, types_of(tally))) ++failed;
  }
  if (options.kernel.empty() && !options.huge) failed += report_missing_cases(device, groups);
  std::printf("\n%s: %s\n", name.c_str(), failed == 0 ? "all passed" : (std::to_string(failed) + " FAILED").c_str());
  return failed == 0;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw std::runtime_error(argument + " needs a value");
      return arguments[++i];
    };
    if (argument == "--device") {
      options.devices.push_back(value());
    } else if (argument == "--kernel") {
      options.kernel = value();
    } else if (argument == "--case") {
      options.only = std::stoi(value());
    } else if (argument == "--matrix") {
      options.matrix = value();
    } else if (argument == "--expect") {
      options.expected = value();
    } else if (argument == "--sample") {
      options.sample = std::max(1, std::stoi(value()));
    } else if (argument == "--seed") {
      options.seed = std::stoull(value());
    } else if (argument == "--huge") {
      options.huge = true;
    } else if (argument == "--list") {
      options.list = true;
    } else {
      throw std::runtime_error("unknown option " + argument + "\n" + usage);
    }
  }
  if (test::depth() == 100) options.sample = 1;
  if (options.devices.empty()) {
    for (const DeviceInfo& info : Device::devices()) options.devices.push_back(info.backend);
  }
  return options;
}

int run_all(const Options& options) {
  const std::vector<Group> groups = grouped(options.huge ? huge_cases() : all_cases(), options.kernel);
  if (groups.empty()) throw std::runtime_error("there are no cases of kernel \"" + options.kernel + '"');
  if (options.list) {
    for (const auto& [kernel, cases] : groups) std::printf("%-20s %6zu\n", kernel.c_str(), cases.size());
    return 0;
  }
  if (options.sample > 1) {
    std::printf("one case in %d of each kernel and type: --sample %d --seed %llu\n", options.sample, options.sample,
                static_cast<unsigned long long>(options.seed));
  }
  bool is_right = true;
  for (const std::string& device : options.devices) is_right = run_device(device, groups, options) && is_right;
  if (!options.matrix.empty()) write_matrix(options);
  return is_right ? 0 : 1;
}

}  // namespace

}  // namespace tessera::conformance

int main(int argc, char** argv) {
  using namespace tessera::conformance;
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (std::ranges::find(arguments, "--help") != arguments.end()) {
      std::fputs(usage, stdout);
      return 0;
    }
    return run_all(parse(arguments));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera_conformance: %s\n", error.what());
    return 2;
  }
}
