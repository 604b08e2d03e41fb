#include <tessera/tessera.hpp>

#include "compile/gpu/source.hpp"
#include "conformance/cases/cases.hpp"
#include "core/random.hpp"
#include "fuzz/generator.hpp"
#include "support/planned.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The text of kernels in CUDA C must be what NVIDIA's compiler takes. It is opened if it is there, or where
// TESSERA_NVRTC says; it needs no GPU.
namespace tessera {
namespace {

using compile::gpu::Form;

class Nvrtc {
 public:
  static const Nvrtc* find() {
    static const std::optional<Nvrtc> found = [] {
      std::vector<const char*> names = {"libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
      if (const char* wish = std::getenv("TESSERA_NVRTC")) names = {wish};
      for (const char* name : names) {
        if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return std::optional(Nvrtc(handle));
      }
      return std::optional<Nvrtc>();
    }();
    return found ? &*found : nullptr;
  }

  // The compiler's message; empty if the text compiled.
  std::string complaint(const std::string& source) const {
    Program program = nullptr;
    if (create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0) return "there is no program";
    // No multiplication and addition with one rounding: the answers are those of all devices.
    const std::vector<const char*> options = {"--gpu-architecture=compute_75", "--fmad=false"};
    const int error = compile_(program, static_cast<int>(options.size()), options.data());
    std::string said = error == 0 ? "" : text_of(program, log_size_, log_);
    if (error == 0 && text_of(program, code_size_, code_).find(".entry kernel_main(") == std::string::npos) {
      said = "there is no kernel_main";
    }
    destroy_(&program);
    return error != 0 && said.empty() ? "error " + std::to_string(error) : said;
  }

 private:
  using Program = struct ProgramOfNvrtc*;
  using SizeFunction = int(Program, std::size_t*);
  using TextFunction = int(Program, char*);

  explicit Nvrtc(void* handle) {
    const auto load = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      if (!function) throw Error(Errc::internal, std::string("the NVRTC library has no ") + name);
    };
    load(create_, "nvrtcCreateProgram");
    load(compile_, "nvrtcCompileProgram");
    load(log_size_, "nvrtcGetProgramLogSize");
    load(log_, "nvrtcGetProgramLog");
    load(code_size_, "nvrtcGetPTXSize");
    load(code_, "nvrtcGetPTX");
    load(destroy_, "nvrtcDestroyProgram");
  }
  static std::string text_of(Program program, SizeFunction* size, TextFunction* get) {
    std::size_t bytes = 0;
    if (size(program, &bytes) != 0) return "";
    std::string text(bytes, '\0');
    if (get(program, text.data()) != 0) return "";
    return text;
  }

  int (*create_)(Program*, const char* source, const char* name, int headers, const char* const*, const char* const*);
  int (*compile_)(Program, int count, const char* const* options);
  SizeFunction* log_size_;
  TextFunction* log_;
  SizeFunction* code_size_;
  TextFunction* code_;
  int (*destroy_)(Program*);
};

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    nvrtc = Nvrtc::find();
    if (!nvrtc) GTEST_SKIP() << "there is no NVRTC library; TESSERA_NVRTC tells where one is";
  }

  // In all its forms.
  void expect_compiles(const ir::Program& program, const std::string& what) {
    compile::gpu::Target target{.dialect = compile::gpu::Dialect::cuda, .device = "a GPU of NVIDIA's"};
    target.has_f64 = target.has_s64 = target.has_u8 = true;
    target.shared_bytes = 48 << 10;
    target.most_buffers = 64;
    std::vector<Form> forms = {Form::many};
    if (compile::gpu::choice_of(program) != compile::gpu::Choice::none) forms.push_back(Form::few);
    for (const Form form : forms) {
      const std::string source = compile::gpu::print(program, target, form).source;
      if (!seen_.insert(source).second) continue;
      const std::string said = nvrtc->complaint(source);
      EXPECT_TRUE(said.empty()) << what << '\n' << said << '\n' << source;
    }
  }
  std::size_t compiled() const { return seen_.size(); }

  const Nvrtc* nvrtc = nullptr;

 private:
  std::set<std::string> seen_;
};

TEST_F(Cuda, Reports_the_compilers_errors) {
  EXPECT_NE(
      nvrtc->complaint("extern \"C\" __global__ void kernel_main(float* x) { x[0] = undeclared; }").find("undeclared"),
      std::string::npos);
  EXPECT_EQ(nvrtc->complaint("extern \"C\" __global__ void other(float* x) { x[0] = 1; }"), "there is no kernel_main");
}

TEST_F(Cuda, All_kernels_compile_for_all_types) {
  constexpr int programs_each = 3;
  std::map<std::pair<std::string, DType>, int> counts;
  std::set<std::string> kernels;
  for (const conformance::Case& one : conformance::all_cases()) {
    if (one.error) continue;
    int& count = counts[{one.kernel, one.dtype}];
    if (count == programs_each) continue;
    std::vector<kernels::Operand> inputs;
    for (const conformance::Input& input : one.inputs) inputs.push_back({input.dtype, &input.shape});
    const std::size_t before = compiled();
    expect_compiles(test::planned(kernels::find(one.kernel), inputs, {one.dtype, &one.shape}, one.params).program,
                    describe(one));
    if (compiled() != before) ++count;
    kernels.insert(one.kernel);
  }
  for (const kernels::Kernel* kernel : kernels::all()) EXPECT_TRUE(kernels.contains(kernel->name)) << kernel->name;
}

TEST_F(Cuda, Tile_kernels_compile) {
  const auto compiles = [&](const tile::Kernel& kernel, const std::vector<Shape>& shapes, const Params& params = {}) {
    std::vector<kernels::Operand> inputs;
    for (std::size_t i = 1; i < shapes.size(); ++i) inputs.push_back({f32, &shapes[i]});
    const kernels::Kernel& made = kernels::of(kernel);
    expect_compiles(test::planned(made, inputs, {f32, shapes.data()}, params).program, made.name);
  };
  compiles(tile::kernel("saxpy", [](tile::Out<float> z, tile::In<float> x, tile::In<float> y,
                                    tile::Scalar<float, "a"> a) { z.store(a * load_like(x, z) + load_like(y, z)); }),
           {{100}, {100}, {100}}, {{"a", 2}});
  compiles(tile::kernel("softmax_rows",
                        [](tile::Out<float> z, tile::In<float> x) {
                          const auto t = load_like(x, z);
                          const auto e = exp(t - reduce_max(t, 1));
                          z.store(e / reduce_sum(e, 1));
                        }),
           {{7, 300}, {7, 300}});
  compiles(tile::kernel("gemm",
                        [](tile::Out<float> z, tile::In<float> x, tile::In<float> y) {
                          constexpr int k_tile = 16;
                          z.store(tile::loop(tile::ceil_div(x.dim(1), k_tile), tile::zeros_like(z),
                                             [&](tile::Index k, auto sum) {
                                               const auto a = x.load({z.tile_dim(0), k_tile}, {z.block(0), k});
                                               const auto b = y.load({k_tile, z.tile_dim(1)}, {k, z.block(1)});
                                               return tile::mma(a, b, sum);
                                             }));
                        }),
           {{33, 40}, {33, 50}, {50, 40}});
  compiles(tile::kernel("box3",
                        [](tile::Out<float> z, tile::In<float> x) {
                          auto sum = tile::zeros_like(z);
                          for (int dy = -1; dy <= 1; ++dy) {
                            for (int dx = -1; dx <= 1; ++dx) {
                              sum = sum + load_shifted(x, z, {dy, dx}, tile::Border::clamp);
                            }
                          }
                          z.store(sum / 9.0F);
                        }),
           {{20, 30}, {20, 30}});
  EXPECT_GE(compiled(), 4U);
}

TEST_F(Cuda, Random_programs_compile) {
  constexpr std::uint64_t programs = 100;
  for (std::uint64_t number = 0; number < programs; ++number) {
    fuzz::Choices choices(core::Random(number).next());
    expect_compiles(fuzz::Generator(choices).make().program, "program " + std::to_string(number));
  }
}

}  // namespace
}  // namespace tessera
