// Random tile programs: what the compilers make of them beside the reference interpreter.
#include <tessera/error.hpp>

#include "fuzz/generator.hpp"
#include "fuzz/run.hpp"
#include "fuzz/shrink.hpp"
#include "support/depth.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace tessera::fuzz {

namespace {

constexpr const char* usage =
    "Usage: tessera_fuzz [options]\n"
    "Runs random tile programs by the reference interpreter and compiled, and compares.\n"
    "  --seed N        which programs (TESSERA_TEST_SEED, or 1)\n"
    "  --programs N    how many (10000)\n"
    "  --full N        as --programs, but only TESSERA_TEST_DEPTH percent of them\n"
    "  --only K        program number K only\n"
    "  --choices LIST  the program of these choices, as a failure prints them; with --data\n"
    "  --data N        the seed of the contents of buffers\n"
    "  --device NAME   on this device (or \"simulated\"), instead of compiled for the processor\n"
    "  --verbose       prints every program before it runs, and why one was not run\n"
    "Exit code: 0 if all agree, 1 if one does not, 2 if it could not run.\n";

struct Options {
  std::uint64_t seed = test::seed();
  std::int64_t programs = 10'000;
  std::int64_t only = -1;
  std::vector<std::uint32_t> choices;
  bool has_choices = false;
  std::uint64_t data = 0;
};

std::array<char, 128> crash_text{};

// A crash says which program it was; the rest is the system's business.
void on_crash(int signal) {
  std::size_t length = 0;
  while (crash_text[length] != '\0') ++length;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, crash_text.data(), length);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// The device that --device names, and the programs that it cannot run.
std::unique_ptr<driver::Driver> device;
std::int64_t unsupported = 0;
bool is_verbose = false;
// Of those that are made for the device's types most must have been run, or nothing was tested. A device without 64-bit
// numbers cannot run all of them: numbers that follow from places need not be places.
constexpr double least_share = 0.75;

std::vector<ir::Type> types() {
  if (!device) return all_types;
  std::vector<ir::Type> found = all_types;
  std::erase_if(found, [](ir::Type type) {
    return std::ranges::none_of(device->info().dtypes, [&](DType has) { return ir::type_of(has) == type; });
  });
  return found;
}

std::string verdict(const Sample& sample, std::uint64_t data) {
  try {
    return device ? difference(sample, data, *device) : difference(sample, data);
  } catch (const Error& error) {
    if (!device || error.code() != Errc::unsupported) return std::string("it cannot be run: ") + error.what();
    ++unsupported;
    if (is_verbose) std::printf("not run: %s\n", error.what());
    return "";
  } catch (const std::exception& error) {
    return std::string("it cannot be run: ") + error.what();
  }
}

std::string joined(const std::vector<std::uint32_t>& choices) {
  std::string text;
  for (const std::uint32_t choice : choices) {
    if (!text.empty()) text += ',';
    text += std::to_string(choice);
  }
  return text;
}

void complain(const Sample& sample, std::uint64_t data, const std::string& what) {
  const Sample small = shrunk(sample, [&](const Sample& other) { return !verdict(other, data).empty(); });
  std::printf("FAILED: %s\nmade smaller: %s\n%sagain: tessera_fuzz --data %llu --choices %s\n\n", what.c_str(),
              verdict(small, data).c_str(), describe(small).c_str(), static_cast<unsigned long long>(data),
              joined(small.choices).c_str());
  std::fflush(stdout);
}

// What the generator makes must be valid.
Sample sample_of(std::uint64_t seed, std::int64_t number) {
  Choices choices(seed);
  try {
    return Generator(choices, types()).make();
  } catch (const std::exception& error) {
    throw std::runtime_error("program " + std::to_string(number) + " cannot be made: " + error.what());
  }
}

bool run_one(const Options& options, std::int64_t number) {
  const std::uint64_t seed = core::Random(options.seed * 0x100000001b3U + static_cast<std::uint64_t>(number)).next();
  std::snprintf(crash_text.data(), crash_text.size(), "crashed: tessera_fuzz --seed %llu --only %lld\n",
                static_cast<unsigned long long>(options.seed), static_cast<long long>(number));
  const Sample sample = sample_of(seed, number);
  if (is_verbose) {
    std::printf("program %lld\n%s\n", static_cast<long long>(number), describe(sample).c_str());
    std::fflush(stdout);
  }
  const std::string what = verdict(sample, seed);
  if (what.empty()) return true;
  std::printf("program %lld of seed %llu\n", static_cast<long long>(number),
              static_cast<unsigned long long>(options.seed));
  complain(sample, seed, what);
  return false;
}

int run_choices(const Options& options) {
  const Sample sample = make_sample(options.choices, types());
  std::printf("%s", describe(sample).c_str());
  std::fflush(stdout);
  const std::string what = verdict(sample, options.data);
  std::printf("%s\n", what.empty() ? "both agree" : ("FAILED: " + what).c_str());
  return what.empty() ? 0 : 1;
}

int run_all(const Options& options) {
  if (options.has_choices) return run_choices(options);
  constexpr int most_failures = 5;
  int failures = 0;
  const std::int64_t first = options.only >= 0 ? options.only : 0;
  const std::int64_t last = options.only >= 0 ? options.only + 1 : options.programs;
  std::printf("%lld random programs: --seed %llu --programs %lld\n", static_cast<long long>(last - first),
              static_cast<unsigned long long>(options.seed), static_cast<long long>(last));
  for (std::int64_t number = first; number < last && failures < most_failures; ++number) {
    if (!run_one(options, number)) ++failures;
  }
  if (failures > 0) return 1;
  const std::int64_t run = last - first - unsupported;
  const double share = static_cast<double>(run) / static_cast<double>(std::max<std::int64_t>(last - first, 1));
  std::printf("%lld programs: all agree\n", static_cast<long long>(run));
  if (unsupported == 0) return 0;
  std::printf("%lld need what the device lacks: %.1f %% were run\n", static_cast<long long>(unsupported), 100 * share);
  if (options.only >= 0 || share >= least_share) return 0;
  std::printf("FAILED: less than %.0f %%\n", 100 * least_share);
  return 1;
}

std::vector<std::uint32_t> parse_list(const std::string& text) {
  std::vector<std::uint32_t> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    list.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(at, end - at))));
    at = end + 1;
  }
  return list;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw std::runtime_error(argument + " needs a value");
      return arguments[++i];
    };
    if (argument == "--seed") {
      options.seed = std::stoull(value());
    } else if (argument == "--programs") {
      options.programs = std::stoll(value());
    } else if (argument == "--full") {
      options.programs = test::rounds(std::stoi(value()));
    } else if (argument == "--only") {
      options.only = std::stoll(value());
    } else if (argument == "--choices") {
      options.choices = parse_list(value());
      options.has_choices = true;
    } else if (argument == "--data") {
      options.data = std::stoull(value());
    } else if (argument == "--device") {
      const std::string name = value();
      device = name == "simulated" ? driver::make_simulated_driver(driver::make_cpu_driver(), {})
                                   : driver::open_driver(name);
      if (!device) throw std::runtime_error("there is no device " + name);
    } else if (argument == "--verbose") {
      is_verbose = true;
    } else {
      throw std::runtime_error("unknown option " + argument + "\n" + usage);
    }
  }
  return options;
}

}  // namespace

}  // namespace tessera::fuzz

int main(int argc, char** argv) {
  using namespace tessera::fuzz;
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (std::ranges::find(arguments, "--help") != arguments.end()) {
      std::fputs(usage, stdout);
      return 0;
    }
    setenv("TESSERA_CACHE_DIR", "off", 0);  // nobody needs these programs again
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_crash);
    return run_all(parse(arguments));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera_fuzz: %s\n", error.what());
    return 2;
  }
}
