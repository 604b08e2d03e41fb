// Pipelines: stages recorded, checked and planned once, then run many times.
// Expect: did you mean .gaussian_blur.*3 stages in.*4 frames: [0-9 ]+.*last run: .*gaussian_blur:
// Differs: last run: |stage [0-9], [a-z_]+: [0-9]+ us
#include <tessera/tessera.hpp>

#include <chrono>
#include <iostream>
#include <vector>

using tessera::Buffer;
using tessera::Command;
using tessera::Pipeline;

int main() {
  tessera::Device device = tessera::Device::best();
  const tessera::Shape size{480, 640, 4};

  // All errors are reported at once, before anything runs.
  Pipeline wrong(device);
  wrong.add("gaussian_blr", {device.zeros(size, tessera::u8)}, device.zeros(size, tessera::u8))
      .add("grayscale", {wrong.temporary(size, tessera::u8)}, device.zeros({480, 640}, tessera::u8));
  try {
    wrong.compile();
  } catch (const tessera::Error& error) {
    std::cout << error.what() << "\n\n";
  }

  // Each run binds the pictures and may bind sigma; intermediate results live inside the pipeline.
  Pipeline pipeline(device);
  const Buffer frame = pipeline.slot("frame", size, tessera::u8);
  const Buffer gray = pipeline.slot("gray", {480, 640}, tessera::u8);
  const Buffer blurred = pipeline.temporary(size, tessera::u8);
  const Buffer sharp = pipeline.temporary(size, tessera::u8);
  pipeline.add("gaussian_blur", {frame}, blurred, {{"radius", 3}, {"sigma", pipeline.param("sigma", 1.5)}})
      .add("sharpen", {blurred}, sharp, {{"amount", 0.5}})
      .add("grayscale", {sharp}, gray);
  std::cout << pipeline.explain() << '\n';

  // Four frames in flight at once, each with its own temporaries.
  std::vector<Buffer> frames, results;
  std::vector<Command> runs;
  for (int i = 0; i < 4; ++i) {
    frames.push_back(device.empty(size, tessera::u8));
    device.run("generate_gradient", {}, frames.back());
    results.push_back(device.empty({480, 640}, tessera::u8));
    runs.push_back(pipeline.submit({{"frame", frames.back()}, {"gray", results.back()}, {"sigma", 1.0 + i}}));
  }
  wait_all(runs);
  std::cout << runs.size() << " frames:";
  for (const Buffer& result : results) std::cout << ' ' << int{result.read<std::uint8_t>()[320]};
  std::cout << "\nlast run: " << pipeline.last_run().total.count() / 1000 << " us\n";
  for (const tessera::StageTime& stage : pipeline.last_run().stages) {
    std::cout << "  stage " << stage.stage << ", " << stage.label << ": " << stage.duration.count() / 1000 << " us\n";
  }

  // Once named, it can be submitted like a kernel.
  device.define_command("preview", pipeline);
  device.submit("preview", {{"frame", frames[0]}, {"gray", results[0]}}).wait();
}
