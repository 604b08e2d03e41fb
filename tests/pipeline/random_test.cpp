// Random pipelines beside their stages one by one. A pipeline that differs is made smaller by leaving out stages, and
// printed. TESSERA_TEST_SEED=n begins with the one of seed n.
#include "core/random.hpp"

#include <tessera/tessera.hpp>

#include "compile/compile.hpp"
#include "support/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace {

using core::Random;

// The kinds of buffers; the stages below refer to them by kind.
enum class Form : std::uint8_t { image, gray, numbers, whole, column, row };
constexpr std::size_t forms = 6;

struct Size {
  std::int64_t height, width;
};

Shape shape_of(Form form, Size size) {
  switch (form) {
    case Form::image:
      return {size.height, size.width, 4};
    case Form::column:
      return {size.height};
    case Form::row:
      return {size.width};
    default:
      return {size.height, size.width};
  }
}
DType dtype_of_form(Form form) {
  return form == Form::image || form == Form::gray ? u8 : form == Form::whole ? s32 : f32;
}

// Integers never derive from floats, so they match exactly however floats are rounded.
struct Kind {
  std::string_view kernel;  // or "call", "barrier", "copy_buffer"
  std::vector<Form> inputs;
  Form output;
  std::string_view param = {};
};
const std::vector<Kind>& kinds() {
  using enum Form;
  static const std::vector<Kind> all = {
      {"elementwise_add", {numbers, numbers}, numbers},
      {"elementwise_sub", {numbers, row}, numbers},
      {"elementwise_max", {numbers, numbers}, numbers},
      {"relu", {numbers}, numbers},
      {"tanh", {numbers}, numbers},
      {"tanh", {column}, column},
      {"elementwise_add", {row, row}, row},
      {"scale", {numbers}, numbers, "factor"},
      {"fill", {}, numbers, "value"},
      {"fill", {}, column, "value"},
      {"fill", {}, row, "value"},
      {"reduce_sum", {numbers}, column, "axis"},
      {"softmax", {numbers}, numbers},
      {"cast", {gray}, numbers},
      {"cast", {whole}, numbers},
      {"elementwise_add", {whole, whole}, whole},
      {"elementwise_mul", {whole, whole}, whole},
      {"neg", {whole}, whole},
      {"test_weighted", {whole, whole, whole}, whole},
      {"test_weighted", {whole, whole, whole}, whole},
      {"test_weighted", {numbers, numbers, numbers}, numbers},
      {"test_weighted_four", {whole, whole, whole, whole}, whole},
      {"scale", {whole}, whole, "factor"},
      {"fill", {}, whole, "value"},
      {"cast", {gray}, whole},
      {"elementwise_max", {gray, gray}, gray},
      {"elementwise_add", {image, image}, image},
      {"fill", {}, gray, "value"},
      {"fill", {}, image, "value"},
      {"grayscale", {image}, gray},
      {"gaussian_blur", {image}, image, "radius"},
      {"gaussian_blur", {gray}, gray, "radius"},
      {"sharpen", {image}, image, "amount"},
      {"copy_buffer", {image}, image},
      {"copy_buffer", {whole}, whole},
      {"copy_buffer", {numbers}, numbers},
      {"call", {whole}, whole},
      {"call", {gray}, gray},
      {"barrier", {}, whole},
  };
  return all;
}

// The result shows the order of the operands.
void define_weighted() {
  define_kernel("test_weighted", {"a", "b", "c"}, "a + b * 3 + c * 5");
  define_kernel("test_weighted_four", {"a", "b", "c", "d"}, "a + b * 3 + c * 5 + d * 7");
}

struct RandomBuffer {
  enum class Owner : std::uint8_t { caller, run, pipeline } owner;
  Form form;
};
struct RandomStage {
  std::size_t kind;
  std::vector<std::size_t> inputs;
  std::size_t output;
  int number;
  bool is_flat = false;  // uses rank-1 views of its buffers
};
struct RandomPipeline {
  Size size;
  std::vector<RandomBuffer> buffers;
  std::vector<RandomStage> stages;
};

Params params_of(const RandomStage& stage) {
  const std::string_view name = kinds()[stage.kind].param;
  if (name.empty()) return {};
  if (name == "axis") return {{"axis", 1}};
  constexpr const char* borders[] = {"clamp", "reflect", "reflect_101", "wrap", "zero"};
  const char* border = borders[(stage.number + 3) % 5];
  if (name == "radius") return {{"radius", std::abs(stage.number) % 3}, {"sigma", 1.0}, {"border", border}};
  if (name == "amount") return {{"amount", 0.5}, {"border", border}};
  return {{name, stage.number}};
}

// The kinds of stages a pipeline may use: all, or those from integers to integers, which use few buffers and so write
// and read each of them many times.
std::vector<std::size_t> choose_kinds(bool is_narrow) {
  std::vector<std::size_t> chosen;
  const auto is_whole = [](Form form) { return form == Form::whole; };
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    const Kind& kind = kinds()[k];
    if (!is_narrow || (is_whole(kind.output) && std::ranges::all_of(kind.inputs, is_whole))) chosen.push_back(k);
  }
  return chosen;
}

RandomPipeline random_pipeline(std::uint64_t seed) {
  Random random(seed);
  const bool is_narrow = seed % 2 == 0;
  const std::vector<std::size_t> chosen = choose_kinds(is_narrow);
  constexpr std::int64_t extents[] = {0, 1, 2, 3, 5, 8, 17};
  RandomPipeline made{{extents[random.below(7)], extents[random.below(7)]}, {}, {}};
  if (made.size.height == 0 || made.size.width == 0) {  // keeps most pipelines non-empty
    if (random.below(4) != 0) made.size = {4, 9};
  }
  using Owner = RandomBuffer::Owner;
  for (std::size_t form = 0; form < forms; ++form) made.buffers.push_back({Owner::caller, static_cast<Form>(form)});
  if (is_narrow) made.buffers.insert(made.buffers.end(), 3, {Owner::pipeline, Form::whole});
  for (std::size_t i = 0, count = is_narrow ? random.below(3) : 4 + random.below(14); i < count; ++i) {
    const auto owner = random.below(5) == 0 ? Owner::run : random.below(4) == 0 ? Owner::caller : Owner::pipeline;
    made.buffers.push_back({owner, is_narrow ? Form::whole : static_cast<Form>(random.below(forms))});
  }
  std::vector<bool> has_values;
  for (const RandomBuffer& buffer : made.buffers) has_values.push_back(buffer.owner != Owner::pipeline);
  const auto any = [&](Form form, bool is_read) {
    std::vector<std::size_t> of_form;
    for (std::size_t b = 0; b < made.buffers.size(); ++b) {
      if (made.buffers[b].form == form && (!is_read || has_values[b])) of_form.push_back(b);
    }
    return of_form[random.below(of_form.size())];
  };
  for (std::size_t i = 0, count = 1 + random.below(30); i < count; ++i) {
    const std::size_t number = chosen[random.below(chosen.size())];
    const Kind& kind = kinds()[number];
    RandomStage stage{number, {}, any(kind.output, false), static_cast<int>(random.below(7)) - 3};
    for (const Form form : kind.inputs) {
      const bool is_repeated = stage.inputs.size() > 1 && random.below(2) == 0;  // the same operand twice
      stage.inputs.push_back(is_repeated ? stage.inputs.front() : any(form, true));
    }
    const bool looks_around = kind.kernel == "gaussian_blur" || kind.kernel == "sharpen" || kind.kernel == "softmax";
    if (looks_around && stage.inputs[0] == stage.output) continue;
    stage.is_flat = is_narrow && kind.kernel != "call" && random.below(4) == 0;
    if (kind.kernel != "barrier") has_values[stage.output] = true;
    made.stages.push_back(std::move(stage));
  }
  return made;
}

std::string to_text(const RandomPipeline& pipeline) {
  std::ostringstream text;
  const auto name = [&](std::size_t b) {
    constexpr const char* owners[] = {"own", "slot", "temporary"};
    const RandomBuffer& buffer = pipeline.buffers[b];
    return std::string(owners[static_cast<int>(buffer.owner)]) + std::to_string(b) + ":" +
           to_string(dtype_of_form(buffer.form), shape_of(buffer.form, pipeline.size));
  };
  for (const RandomStage& stage : pipeline.stages) {
    text << "  " << kinds()[stage.kind].kernel << "(";
    for (const std::size_t input : stage.inputs) text << name(input) << ", ";
    text << stage.number << (stage.is_flat ? ", flat) -> " : ") -> ") << name(stage.output) << "\n";
  }
  return text.str();
}

template <class T>
std::vector<std::byte> first_values(const Shape& shape, Random& random) {
  std::vector<T> values(static_cast<std::size_t>(shape.elements()));
  for (T& value : values) {
    value = std::is_floating_point_v<T> ? static_cast<T>(random.fraction()) : static_cast<T>(random.below(200));
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Buffers with reproducible values.
std::vector<Buffer> make_buffers(const Device& device, const RandomPipeline& pipeline) {
  Random random(1);
  std::vector<Buffer> buffers;
  for (const RandomBuffer& buffer : pipeline.buffers) {
    const Shape shape = shape_of(buffer.form, pipeline.size);
    const DType dtype = dtype_of_form(buffer.form);
    const auto bytes = dtype == f32   ? first_values<float>(shape, random)
                       : dtype == s32 ? first_values<std::int32_t>(shape, random)
                                      : first_values<std::uint8_t>(shape, random);
    buffers.push_back(device.from_bytes(bytes, shape, dtype));
  }
  return buffers;
}

// What a call stage computes: the input reversed.
template <class T>
void reverse(std::span<const T> from, std::span<T> to) {
  std::vector<T> values(from.rbegin(), from.rend());
  std::ranges::copy(values, to.begin());
}

void run_stage(const Device& device, const RandomStage& stage, const std::vector<Buffer>& buffers) {
  const std::string_view kernel = kinds()[stage.kind].kernel;
  if (kernel == "barrier") return;
  if (kernel == "call") {
    Buffer output = buffers[stage.output];
    std::vector<std::byte> bytes = buffers[stage.inputs[0]].read_bytes();
    std::vector<std::byte> reversed;
    const std::size_t size = size_of(output.dtype());
    for (std::size_t i = bytes.size(); i > 0; i -= size) {
      reversed.insert(reversed.end(), bytes.begin() + static_cast<std::ptrdiff_t>(i - size),
                      bytes.begin() + static_cast<std::ptrdiff_t>(i));
    }
    output.write_bytes(reversed);
    return;
  }
  std::vector<Buffer> inputs;
  for (const std::size_t input : stage.inputs) inputs.push_back(buffers[input]);
  device.run(kernel == "copy_buffer" ? "copy" : kernel, inputs, buffers[stage.output], params_of(stage));
}

void add_stage(Pipeline& pipeline, const RandomStage& stage, const std::vector<Buffer>& buffers) {
  const std::string_view kernel = kinds()[stage.kind].kernel;
  const auto seen = [&](const Buffer& buffer) {
    return stage.is_flat ? buffer.reshape({buffer.shape().elements()}) : buffer;
  };
  const Buffer output = seen(buffers[stage.output]);
  if (kernel == "barrier") {
    pipeline.barrier();
  } else if (kernel == "copy_buffer") {
    pipeline.copy(seen(buffers[stage.inputs[0]]), output);
  } else if (kernel == "call") {
    const bool is_whole = output.dtype() == s32;
    pipeline.call(
        [is_whole](HostCall& call) {
          if (is_whole) return reverse(call.input<std::int32_t>(0), call.output<std::int32_t>(0));
          reverse(call.input<std::uint8_t>(0), call.output<std::uint8_t>(0));
        },
        {buffers[stage.inputs[0]]}, {output});
  } else {
    std::vector<Buffer> inputs;
    for (const std::size_t input : stage.inputs) inputs.push_back(seen(buffers[input]));
    pipeline.add(kernel, inputs, output, params_of(stage));
  }
}

bool is_same(const Buffer& a, const Buffer& b) {
  if (a.dtype() != f32) return a.read_bytes() == b.read_bytes();
  const std::vector<float> x = a.read<float>(), y = b.read<float>();
  return std::ranges::equal(x, y, [](float p, float q) {
    if (std::isnan(p) || std::isnan(q)) return std::isnan(p) && std::isnan(q);
    return p == q || std::abs(p - q) <= 1e-3F * std::max({1.0F, std::abs(p), std::abs(q)});
  });
}

// Describes the first difference; empty if there is none.
std::string difference(const Device& device, const RandomPipeline& random, bool fuse) {
  const std::vector<Buffer> expected = make_buffers(device, random);
  std::vector<Buffer> given = make_buffers(device, random);
  Pipeline pipeline(device, {.fuse = fuse});
  std::vector<Buffer> handles = given;
  std::vector<Binding> bindings;
  for (std::size_t b = 0; b < handles.size(); ++b) {
    const auto owner = random.buffers[b].owner;
    if (owner == RandomBuffer::Owner::pipeline) handles[b] = pipeline.temporary(given[b].shape(), given[b].dtype());
    if (owner != RandomBuffer::Owner::run) continue;
    const std::string name = "slot" + std::to_string(b);
    handles[b] = pipeline.slot(name, given[b].shape(), given[b].dtype());
    bindings.emplace_back(name, given[b]);
  }
  for (const RandomStage& stage : random.stages) add_stage(pipeline, stage, handles);
  std::vector<Command> runs;
  for (int round = 0; round < 2; ++round) {
    for (const RandomStage& stage : random.stages) run_stage(device, stage, expected);
    runs.push_back(pipeline.submit(bindings));
  }
  wait_all(runs);  // throws if it was refused
  for (std::size_t b = 0; b < given.size(); ++b) {
    if (random.buffers[b].owner == RandomBuffer::Owner::pipeline) continue;
    if (!is_same(given[b], expected[b])) return "buffer " + std::to_string(b) + " differs";
  }
  return {};
}

std::string outcome(const Device& device, const RandomPipeline& random, bool fuse) {
  try {
    return difference(device, random, fuse);
  } catch (const Error& error) {
    return error.what();
  }
}

// Removes stages while the failure persists; a pipeline that is refused is not a smaller case of the same failure.
RandomPipeline smaller(const Device& device, RandomPipeline random, bool fuse) {
  for (std::size_t i = random.stages.size(); i-- > 0;) {
    RandomPipeline without = random;
    without.stages.erase(without.stages.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string result = outcome(device, without, fuse);
    if (!result.empty() && result.find("is read before") == std::string::npos) random = std::move(without);
  }
  return random;
}

void check(const Device& device, std::uint64_t seed) {
  const RandomPipeline random = random_pipeline(seed);
  for (const bool fuse : {true, false}) {
    const std::string result = outcome(device, random, fuse);
    if (result.empty()) continue;
    const RandomPipeline small = smaller(device, random, fuse);
    FAIL() << "seed " << seed << (fuse ? ", fused" : ", not fused") << ": " << result << "\n"
           << to_text(small) << outcome(device, small, fuse);
  }
}

TEST(RandomPipelines, Equal_their_stages_one_by_one) {
  define_weighted();
  const Device devices[] = {Device::best(), Device::simulated({.seed = 1, .workers = 0}),
                            Device::simulated({.seed = 2, .workers = 3}), Device::best()};
  // Compiling thousands of fused programs would take minutes: of most the interpreter has to do.
  // On other devices nothing is interpreted.
  const bool is_cpu = devices[0].info().backend == "cpu";
  const int count = test::rounds(is_cpu ? 5000 : 60), compiled = count / 10;
  for (int i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    if (i > compiled) compile::set_interpreted(true);
    check(devices[i % 4], test::seed() + static_cast<std::uint64_t>(i));
  }
  compile::set_interpreted(false);
}

// Some commands fail at random: whatever reads poison is poisoned, and everything else is correct.
TEST(RandomPipelines, Fail_as_their_stages_would) {
  define_weighted();
  const Device device = Device::simulated({.seed = 5, .workers = 2, .fail_rate = 0.05});
  for (int i = 0; i < test::rounds(200); ++i) {
    const RandomPipeline random = random_pipeline(test::seed() + static_cast<std::uint64_t>(i));
    std::vector<Buffer> buffers = make_buffers(device, random);
    Pipeline pipeline(device);
    std::vector<Buffer> handles = buffers;
    for (std::size_t b = 0; b < handles.size(); ++b) {
      if (random.buffers[b].owner != RandomBuffer::Owner::pipeline) continue;
      handles[b] = pipeline.temporary(buffers[b].shape(), buffers[b].dtype());
    }
    for (const RandomStage& stage : random.stages) add_stage(pipeline, stage, handles);
    std::vector<Command> runs;
    for (int run = 0; run < 4; ++run) runs.push_back(pipeline.submit());
    for (const Command& run : runs) {
      try {
        run.wait();
        EXPECT_EQ(run.poll(), Status::completed);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::device_failure) << error.what();
        EXPECT_NE(std::string(error.what()).find("stage "), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace tessera
