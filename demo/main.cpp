// A tour in a few seconds: runs a picture through a pipeline of image filters, with and without fusion.
#include <tessera/tessera.hpp>

#include "options.hpp"
#include "picture.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

namespace demo {

namespace {

using tessera::Buffer;
using tessera::Pipeline;

constexpr std::int64_t height = 1080, width = 1920;

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

// blur, sharpen, grayscale; intermediate results live inside the pipeline.
struct Filters {
  Filters(const tessera::Device& device, const Buffer& picture, bool fuse)
      : gray(device.zeros({height, width}, tessera::u8)), pipeline(device, {.fuse = fuse}) {
    const Buffer blurred = pipeline.temporary(picture.shape(), tessera::u8);
    const Buffer sharp = pipeline.temporary(picture.shape(), tessera::u8);
    pipeline.add("gaussian_blur", {picture}, blurred, {{"radius", 3}, {"sigma", 1.5}})
        .add("sharpen", {blurred}, sharp, {{"amount", 0.5}})
        .add("grayscale", {sharp}, gray);
  }

  // Runs once; remembers the fastest run.
  void run() {
    pipeline.run();
    tessera::RunTimes times = pipeline.last_run();
    if (times.total < best.total || best.run == 0) best = std::move(times);
  }

  Buffer gray;
  Pipeline pipeline;
  tessera::RunTimes best;
};

void introduce(const tessera::Device& device) {
  const tessera::DeviceInfo& info = device.info();
  std::cout << "Tessera " << tessera::version() << " on " << info.name << " (" << info.backend << ", "
            << info.compute_units << " workers)\n";
}

void show_times(const Filters& fused, const Filters& unfused) {
  const auto line = [](const std::string& name, const std::string& alone, const std::string& together) {
    std::cout << "  " << std::left << std::setw(34) << name << std::right << std::setw(12) << alone << std::setw(12)
              << together << '\n';
  };
  line("milliseconds, best of several runs", "unfused", "fused");
  for (const tessera::StageTime& stage : unfused.best.stages) {
    line(stage.label, rounded(milliseconds(stage.duration), 2), "");
  }
  line("total", rounded(milliseconds(unfused.best.total), 2), rounded(milliseconds(fused.best.total), 2));
}

// Runs the pipeline while the program does something else.
void show_overlap(Filters& filters) {
  const tessera::Command command = filters.pipeline.submit();
  std::size_t looks = 0;
  while (!tessera::is_terminal(command.poll())) ++looks;
  command.wait();
  std::cout << "  submit() returned at once; the program polled " << looks << " times until it finished.\n";
}

void show_errors(const tessera::Device& device, const Buffer& picture) {
  Pipeline wrong(device);
  const Buffer unwritten = wrong.temporary(picture.shape(), tessera::u8);
  wrong.add("gaussian_blr", {picture}, unwritten)
      .add("sharpen", {unwritten}, device.zeros({4}, tessera::u8), {{"amonut", 0.5}});
  try {
    wrong.compile();
  } catch (const tessera::Error& error) {
    std::cout << error.what() << '\n';
  }
}

// Whether both produced the same picture.
bool run(const Options& options) {
  std::filesystem::create_directories(options.out);
  const tessera::Device device = tessera::Device::best();
  introduce(device);

  const Buffer picture = device.zeros({height, width, 4}, tessera::u8);
  device.run(mandelbrot, {}, picture);
  Filters fused(device, picture, true), unfused(device, picture, false);

  std::cout << heading("The plan for blur, sharpen and grayscale") << fused.pipeline.explain();

  constexpr int rounds = 8;
  for (int i = 0; i < rounds; ++i) {
    fused.run();
    unfused.run();
  }
  std::cout << heading("Times for 1920 by 1080 pixels");
  show_times(fused, unfused);
  const bool is_same = fused.gray.read_bytes() == unfused.gray.read_bytes();
  std::cout << "  The two pictures are " << (is_same ? "equal, pixel by pixel.\n" : "DIFFERENT.\n");
  show_overlap(fused);

  std::cout << heading("Kernels");
  for (const tessera::KernelInfo& kernel : device.kernels()) std::cout << "  " << to_string(kernel) << '\n';
  std::cout << heading("A wrong pipeline reports all errors before anything runs");
  show_errors(device, picture);

  std::cout << heading("Written");
  const std::filesystem::path before = options.out / "picture.png", after = options.out / "gray.png";
  save_image(before, picture);
  save_image(after, fused.gray);
  std::cout << "  " << before.string() << "  the picture, drawn by the demo's own kernel\n"
            << "  " << after.string() << "     the output of the pipeline\n";
  return is_same;
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
