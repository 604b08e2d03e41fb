// A tour in a few seconds: thousands of commands that order themselves, while the program goes on.
#include <tessera/tessera.hpp>

#include "fractal.hpp"
#include "job.hpp"
#include "options.hpp"
#include "svg.hpp"
#include "terminal.hpp"
#include "timeline.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace demo {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string megabytes(std::size_t bytes) { return grouped(bytes / 1'000'000) + " MB"; }

void row(std::string_view name, const std::string& value) {
  std::cout << "  " << std::left << std::setw(16) << name << "  " << value << '\n';
}

void introduce(const tessera::Device& device) {
  const tessera::DeviceInfo& info = device.info();
  std::cout << "Tessera " << tessera::version() << " on " << info.name << " (" << info.backend << ", "
            << info.compute_units << " workers)\n";
  std::cout << heading("The job: the Mandelbrot set, from elementwise kernels alone");
  std::cout << "  " << grouped(Job::commands) << " commands on buffers of f32[" << strip_height << ',' << width
            << "], submitted by " << Job::threads << " threads on 3 streams.\n"
            << "  Nobody says what waits for what: it follows from the buffers. The main thread only polls:\n\n";
}

// Starts the job and draws the progress while others work; this thread waits for nothing. Returns the milliseconds.
double run_and_watch(Job& job) {
  const Clock::time_point start = Clock::now();
  job.start();
  ProgressLine line;
  std::size_t over = 0;
  std::size_t looks = 0;
  double longest = 0;
  double elapsed = 0;
  while (over < Job::commands) {
    const Clock::time_point before = Clock::now();
    over = job.commands_over();
    longest = std::max(longest, milliseconds_since(before));
    ++looks;
    elapsed = milliseconds_since(start);
    line.show(over, Job::commands, elapsed);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::cout << "\n  It looked " << looks << " times; polling all that was submitted took at most "
            << rounded(longest, 2) << " ms.\n";
  return elapsed;
}

// Whether the device's result is that of a plain loop.
bool verify(const Job& job) {
  const std::vector<float> counts = job.counts();
  const std::vector<float> expected = sequential_counts();
  std::size_t different = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) different += counts[i] == expected[i] ? 0 : 1;

  std::cout << letters(counts) << "\n  " << grouped(counts.size()) << " pixels compared with a plain C++ loop: ";
  if (different != 0) {
    std::cout << grouped(different) << " DIFFER\n";
    return false;
  }
  std::cout << "equal, all of them.\n  A point lasts " << rounded(job.mean_count(), 2) << " of " << iterations
            << " iterations on average, says a buffer into which all threads added.\n";
  return true;
}

// The same job once more, with a record of every command.
Timeline traced(const tessera::Device& device, const std::filesystem::path& file) {
  Job job(device);
  tessera::trace::start(file);
  job.start();
  while (job.commands_over() < Job::commands) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  tessera::trace::stop();
  return read_timeline(file, job.priorities());
}

// `milliseconds` and `blocks` are what the run without a trace took.
void show_figures(const Timeline& timeline, double milliseconds, std::size_t blocks, const tessera::Device& device) {
  const Figures figures = figures_of(timeline);
  const double share = static_cast<double>(figures.overlapped) / static_cast<double>(timeline.spans.size());
  row("commands", grouped(Job::commands) + " in " + rounded(milliseconds, 0) + " ms, and in " +
                      rounded(timeline.end, 0) + " ms while traced, of which submitting took " +
                      rounded(timeline.submitted, 0) + " ms");
  row("moved",
      megabytes(figures.bytes) + ", " + rounded(static_cast<double>(figures.bytes) / milliseconds / 1e6, 1) + " GB/s");
  row("overlapped", grouped(figures.overlapped) + " commands (" + rounded(100 * share, 0) + " %) ran beside another");
  for (const auto priority : {tessera::Priority::high, tessera::Priority::normal, tessera::Priority::low}) {
    const Figures::Wait& wait = figures.waiting[static_cast<std::size_t>(priority)];
    row("waited, " + std::string(to_string(priority)),
        rounded(wait.mean, 1) + " ms on average (" + grouped(wait.commands) + " commands)");
  }
  const tessera::MemoryInfo memory = device.memory();
  row("memory", megabytes(memory.peak) + " in use at the peak, " + megabytes(memory.reserved) +
                    " reserved of at most " + megabytes(memory.limit));
  row("", grouped(blocks) + " blocks taken from the device, and " + grouped(memory.allocations - blocks) +
              " more for the second run");
}

void show_errors(const tessera::Device& device) {
  const tessera::Buffer a = device.zeros({4}), b = device.zeros({3}), c = device.zeros({4});
  for (const char* kernel : {"elementwise_ad", "elementwise_add"}) {
    std::cout << "  device.run(\"" << kernel << "\", {a, b}, c)\n";
    try {
      device.run(kernel, {a, b}, c);
    } catch (const tessera::Error& error) {
      std::cout << "    " << to_string(error.code()) << ": " << error.what() << '\n';
    }
  }
}

// Whether the result was right.
bool run(const Options& options) {
  std::filesystem::create_directories(options.out);
  const std::filesystem::path trace = options.out / "trace.json";
  const std::filesystem::path svg = options.out / "timeline.svg";
  const tessera::Device device = tessera::Device::best();
  introduce(device);

  double milliseconds = 0;
  bool is_right = false;
  {
    Job job(device);
    milliseconds = run_and_watch(job);
    std::cout << heading("The result");
    is_right = verify(job);
  }
  const std::size_t blocks = device.memory().allocations;
  const Timeline timeline = traced(device, trace);
  write_svg(timeline, svg);

  std::cout << heading("What ran when, in a second run that was traced") << chart(timeline);
  std::cout << heading("In figures");
  show_figures(timeline, milliseconds, blocks, device);
  std::cout << heading("The kernels of this device");
  for (const tessera::KernelInfo& kernel : device.kernels()) std::cout << "  " << to_string(kernel) << '\n';
  std::cout << heading("A wrong call says what is wrong, before anything runs");
  show_errors(device);
  std::cout << heading("Written");
  std::cout << "  " << svg.string() << "  the chart, with a part in which every command is seen: open it in a browser\n"
            << "  " << trace.string() << "    the trace: drop it on https://ui.perfetto.dev\n";
  return is_right;
}

}  // namespace

}  // namespace demo

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = demo::parse_options(argc, argv, exit_code);
  if (!options) return exit_code;
  try {
    return demo::run(*options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "tessera_demo: " << error.what() << '\n';
    return 1;
  }
}
