#include "driver/gpu/api_checks.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace tessera::driver::gpu {
namespace {

using namespace test;
using tessera::test::expect_error;

class OpenGL_ES : public testing::Test {
 protected:
  void SetUp() override {
    if (gles_devices().empty()) GTEST_SKIP() << "there is no OpenGL ES device";
    api_ = open_gles(0);
    kernels_.next = head(2) + R"(
      layout(std430, binding = 0) buffer To { int to[]; };
      layout(std430, binding = 1) readonly buffer From { int from[]; };
      void main() {
        int i = int(gl_GlobalInvocationID.x);
        if (i < arguments[0]) to[i] = from[(i + 1) % arguments[0]] * 3 + arguments[1];
      })";
    kernels_.slow = head(2) + R"(
      layout(std430, binding = 0) buffer Data { uint data[]; };
      void main() {
        int at = int(gl_GlobalInvocationID.x);
        if (at >= arguments[0]) return;
        uint x = data[at];
        for (int i = 0; i < arguments[1]; ++i) x = (x ^ (x >> 3)) * 1664525u + 1013904223u;
        data[at] = x;
      })";
  }

  Api& api() { return *api_; }
  const Kernels& kernels() { return kernels_; }

  std::string head(int words) {
    return "#version 310 es\nlayout(local_size_x = " + std::to_string(api().target().group) +
           ") in;\nlayout(location = 0) uniform int arguments[" + std::to_string(words) + "];\n";
  }

  // to[i] = from[i] * 3 + 1, of a type of one word.
  template <class T>
  void check_type(const std::string& type) {
    const std::string source = head(1) + "layout(std430, binding = 0) buffer To { " + type +
                               " to[]; };\nlayout(std430, binding = 1) readonly buffer From { " + type +
                               " from[]; };\nvoid main() { int i = int(gl_GlobalInvocationID.x); if (i < arguments[0]) "
                               "to[i] = from[i] * " +
                               type + "(3) + " + type + "(1); }";
    const int n = 1001;
    std::vector<T> values;
    std::vector<T> expected;
    for (int i = 0; i < n; ++i) {
      values.push_back(static_cast<T>(i * 5 - 7));
      expected.push_back(static_cast<T>(values.back() * static_cast<T>(3) + static_cast<T>(1)));
    }
    const auto module = api().compile(kernel(api(), source, 2, 1), type);
    auto from = memory_with(api(), values);
    auto to = memory_with(api(), std::vector<T>(values.size()));
    const Dispatch call{module.get(), {to.get(), from.get()}, words({n}), groups_for(api(), n), true};
    run(api(), {&call, 1});
    EXPECT_EQ(values_of<T>(api(), *to, values.size()), expected) << type;
  }

 private:
  std::unique_ptr<Api> api_;
  Kernels kernels_;
};

TEST_F(OpenGL_ES, Describes_itself) {
  ASSERT_EQ(gles_devices().size(), 1U);
  const DeviceInfo& info = api().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.name, gles_devices()[0].name);
  EXPECT_EQ(info.backend, "gles");
  EXPECT_NE(info.version.find("OpenGL ES 3."), std::string::npos);
  EXPECT_EQ(info.is_gpu, info.name.find("llvmpipe") == std::string::npos);
  EXPECT_EQ(info.dtypes, (std::vector{f32, s32, u32, u8}));
  EXPECT_EQ(api().target().dialect, compile::gpu::Dialect::gles);
  EXPECT_GE(api().target().most_buffers, 4);
  EXPECT_GE(api().most_groups(), 65535U);
  EXPECT_GE(api().most_buffer_bytes(), 1U << 27);
  expect_error(Errc::unknown_device, "there is no OpenGL ES device 1", [] { open_gles(1); });
}

TEST_F(OpenGL_ES, Copies_any_bytes) { check_copies(api()); }
TEST_F(OpenGL_ES, Reports_out_of_memory) { check_out_of_memory(api()); }
TEST_F(OpenGL_ES, Runs_dependent_calls_in_order) { check_chain(api(), kernels()); }
TEST_F(OpenGL_ES, Runs_independent_calls) { check_calls_that_do_not_wait(api(), kernels()); }
TEST_F(OpenGL_ES, Runs_a_recording_many_times) { check_recording(api(), kernels()); }
TEST_F(OpenGL_ES, Accepts_submissions_from_many_threads) { check_many_threads(api(), kernels()); }
TEST_F(OpenGL_ES, Waits_no_longer_than_the_limit) { check_wait_ends_in_time(api(), kernels()); }
TEST_F(OpenGL_ES, Fails_all_waiters_when_lost) { check_lose(api(), kernels()); }

TEST_F(OpenGL_ES, Runs_kernels_of_every_type) {
  check_type<float>("float");
  check_type<std::int32_t>("int");
  check_type<std::uint32_t>("uint");
}

// A word holds four bytes.
TEST_F(OpenGL_ES, Runs_kernels_of_bytes) {
  const std::string source = head(1) + R"(
      layout(std430, binding = 0) buffer Data { uint data[]; };
      void main() {
        int i = int(gl_GlobalInvocationID.x);
        if (i * 4 >= arguments[0]) return;
        data[i] = ((data[i] & 0x7f7f7f7fu) + 0x01010101u) ^ (data[i] & 0x80808080u);
      })";
  const int n = 1001;  // the last word exists, since sizes are rounded up
  std::vector<std::uint8_t> values;
  std::vector<std::uint8_t> expected;
  for (int i = 0; i < n; ++i) {
    values.push_back(static_cast<std::uint8_t>(i));
    expected.push_back(static_cast<std::uint8_t>(i + 1));
  }
  const auto module = api().compile(kernel(api(), source, 1, 1), "bytes");
  auto data = memory_with(api(), values);
  const Dispatch call{module.get(), {data.get()}, words({n}), groups_for(api(), n), true};
  run(api(), {&call, 1});
  EXPECT_EQ(values_of<std::uint8_t>(api(), *data, values.size()), expected);
}

TEST_F(OpenGL_ES, Reports_why_a_kernel_does_not_compile) {
  const auto wrong = kernel(api(), head(1) + "void main() { unheard_of = 1; }", 1, 0);
  expect_error(Errc::invalid_kernel, "[wrong] does not compile", [&] { api().compile(wrong, "wrong"); });
  expect_error(Errc::invalid_kernel, "unheard_of", [&] { api().compile(wrong, "wrong"); });
  check_chain(api(), kernels());
}

// Each with its own thread and context.
TEST_F(OpenGL_ES, Opens_more_than_once) {
  const auto second = open_gles(0);
  check_chain(*second, kernels());
  check_chain(api(), kernels());
}

}  // namespace
}  // namespace tessera::driver::gpu
