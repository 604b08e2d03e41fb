#include "driver/gpu/api_checks.hpp"
#include "driver/gpu/forwarding_api.hpp"
#include "driver/gpu/gles/open.hpp"
#include "driver/gpu/library.hpp"
#include "driver/gpu/on_device.hpp"
#include "driver/gpu/replaced.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>

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
TEST_F(OpenGL_ES, Submissions_wait_for_earlier_ones) { check_submissions_that_wait(api(), kernels()); }
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

// ---- other devices than this machine's

// Limits what glGetIntegerv says during its lifetime.
class Limited {
 public:
  Limited(GLenum limit, GLint value)
      : replaced_(
            gles::functions()->glGetIntegerv, +[](GLenum question, GLint* answer) {
              real(question, answer);
              if (const auto found = most.find(question); found != most.end())
                *answer = std::min(*answer, found->second);
            }) {
    most = {{limit, value}};
    real = replaced_.before();
  }

 private:
  static inline std::map<GLenum, GLint> most;
  static inline decltype(&::glGetIntegerv) real = nullptr;
  const Replaced<decltype(&::glGetIntegerv)> replaced_;
};

// As many as OpenGL ES 3.1 guarantees.
TEST_F(OpenGL_ES, Four_storage_buffers_are_enough) {
  const Limited limited(GL_MAX_COMPUTE_SHADER_STORAGE_BLOCKS, 4);
  const std::optional<gles::Found> found = gles::find_device();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->blocks, 4);
  const Device device = device_with(gles::open(*found));
  expect_computes(device);
  // A sum of five buffers is done in several launches.
  Pipeline pipeline(device);
  std::vector<Buffer> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(device.buffer<float>({1, 2, 4}));
  const Buffer sum = device.zeros({3});
  Buffer last = inputs[0];
  for (int i = 1; i < 5; ++i) {
    const Buffer next = i == 4 ? sum : pipeline.temporary({3});
    pipeline.add("elementwise_add", {last, inputs[static_cast<std::size_t>(i)]}, next);
    last = next;
  }
  pipeline.run();
  EXPECT_EQ(sum.read<float>(), (std::vector<float>{5, 10, 20}));
  // One kernel with so many is refused.
  const auto add_all = tile::kernel(
      "add_all", [](tile::Out<float> to, tile::In<float> a, tile::In<float> b, tile::In<float> c, tile::In<float> d) {
        to.store(load_like(a, to) + load_like(b, to) + load_like(c, to) + load_like(d, to));
      });
  expect_error(Errc::unsupported, "[add_all] uses 5 buffers at once, and",
               [&] { device.run(add_all, {inputs[0], inputs[1], inputs[2], inputs[3]}, sum); });
  expect_error(Errc::unsupported, "takes at most 4",
               [&] { device.run(add_all, {inputs[0], inputs[1], inputs[2], inputs[3]}, sum); });
}

TEST_F(OpenGL_ES, Also_respects_the_combined_limit_and_the_bindings) {
  for (const GLenum limit : {GL_MAX_COMBINED_SHADER_STORAGE_BLOCKS, GL_MAX_SHADER_STORAGE_BUFFER_BINDINGS}) {
    const Limited limited(limit, 5);
    EXPECT_EQ(gles::find_device()->blocks, 5);
  }
}

TEST_F(OpenGL_ES, Respects_the_number_of_uniforms) {
  const Limited limited(GL_MAX_COMPUTE_UNIFORM_COMPONENTS, 8);
  const std::optional<gles::Found> found = gles::find_device();
  ASSERT_TRUE(found);
  const Device device = device_with(gles::open(*found));
  expect_works(device);
  const Buffer x = device.zeros({20, 20});
  expect_error(Errc::unsupported, "words for extents and scalars, and",
               [&] { device.run("matmul", {x, x}, device.zeros({20, 20})); });
  expect_works(device);
}

TEST_F(OpenGL_ES, Workgroups_are_a_power_of_two) {
  const Limited limited(GL_MAX_COMPUTE_WORK_GROUP_INVOCATIONS, 100);
  const std::optional<gles::Found> found = gles::find_device();
  ASSERT_TRUE(found);
  EXPECT_EQ(gles::open(*found)->target().group, 64);
}

constexpr GLenum guilty_reset = 0x8253;  // GL_GUILTY_CONTEXT_RESET of both extensions
std::atomic<bool> is_reset = false;
std::string extensions;
decltype(&::glGetString) get_string = nullptr;

// By either extension, if the context has it: functions that it does not have may be found all the same.
TEST_F(OpenGL_ES, Notices_that_the_device_was_reset) {
  const char* const all = reinterpret_cast<const char*>(gles::functions()->glGetString(GL_EXTENSIONS));
  EXPECT_EQ(all, nullptr) << "this thread has no context";
  const gles::GetResetStatus reset = +[]() -> GLenum { return is_reset ? guilty_reset : GL_NO_ERROR; };
  const gles::GetResetStatus other = +[]() -> GLenum { return guilty_reset; };
  const Replaced strings(
      gles::functions()->glGetString, +[](GLenum question) -> const GLubyte* {
        if (question != GL_EXTENSIONS) return get_string(question);
        return reinterpret_cast<const GLubyte*>(extensions.c_str());
      });
  get_string = strings.before();
  for (const bool is_khr : {true, false}) {
    extensions = is_khr ? "GL_OES_something GL_KHR_robustness" : "GL_EXT_robustness GL_OES_something";
    const Replaced khr(gles::functions()->glGetGraphicsResetStatusKHR, is_khr ? reset : other);
    const Replaced ext(gles::functions()->glGetGraphicsResetStatusEXT, is_khr ? other : reset);
    is_reset = false;
    const Device device = device_with(open_gles(0));
    expect_works(device);
    const Buffer z = device.zeros({3});
    is_reset = true;
    expect_error(Errc::device_failure, "its context was reset", [&] {
      device.run("relu", {z}, z);
      device.run("relu", {z}, z);  // the first may have finished before
    });
  }
  // Without an extension, none is called.
  extensions = "GL_OES_something";
  const Replaced khr(gles::functions()->glGetGraphicsResetStatusKHR, other);
  const Replaced ext(gles::functions()->glGetGraphicsResetStatusEXT, other);
  expect_works(device_with(open_gles(0)));
}

std::atomic<bool> hangs = false;
decltype(&::glClientWaitSync) wait_for_fence = nullptr;

TEST_F(OpenGL_ES, A_kernel_that_hangs_is_an_error_after_the_time) {
  setenv("TESSERA_GPU_TIMEOUT", "0.2", 1);
  hangs = false;
  wait_for_fence = gles::functions()->glClientWaitSync;
  const Replaced waiting(
      gles::functions()->glClientWaitSync, +[](GLsync fence, GLbitfield flags, GLuint64 time) -> GLenum {
        if (!hangs) return wait_for_fence(fence, flags, time);
        std::this_thread::sleep_for(std::chrono::nanoseconds(time));
        return GL_TIMEOUT_EXPIRED;
      });
  OpenApis open;
  expect_error_if_it_hangs(device_with(open.count(open_gles(0))), hangs);
  open.wait_until_none();
  unsetenv("TESSERA_GPU_TIMEOUT");
}

TEST(Libraries, Are_opened_by_the_first_name_that_exists) {
  EXPECT_NE(open_library({"libtessera_does_not_exist.so.1", "libm.so.6"}), nullptr);
  EXPECT_NE(open_library({"libm.so.6", "libtessera_does_not_exist.so.1"}), nullptr);
  EXPECT_EQ(open_library({"libtessera_does_not_exist.so.1", "libtessera_does_not_exist.so"}), nullptr);
}

}  // namespace
}  // namespace tessera::driver::gpu
