#include "compile/cpu/jit.hpp"

#include "compile/cpu/evictable_code.hpp"
#include "support/again.hpp"
#include "support/depth.hpp"
#include "tile/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace tessera::compile::cpu {
namespace {

namespace fs = std::filesystem;

// A cache for this test program alone, so that everything is compiled and can be counted.
class Cache : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tessera-jit-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    setenv("TESSERA_CACHE_DIR", name.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder); }

  // The number of objects in it.
  static std::ptrdiff_t count() {
    const fs::recursive_directory_iterator files(folder);
    return std::ranges::count_if(files, [](const fs::directory_entry& entry) { return entry.is_regular_file(); });
  }

  static inline fs::path folder;
};
const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new Cache);

ir::Program doubled() {
  return tile::trace("doubled", {{"z", ir::Type::f32, {-1}}, {"x", ir::Type::f32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(tile::load_like(tile::Input(0), z) * 2);
  });
}

// Doubles some numbers, the tiles shared by two threads.
void expect_doubles(const Compiled& code, std::int64_t elements) {
  std::vector<float> x(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
  std::vector<float> z(x.size());
  const std::array buffers = {reinterpret_cast<std::byte*>(z.data()), reinterpret_cast<std::byte*>(x.data())};
  const std::array dims = {elements, elements};
  const Arguments arguments{buffers.data(), dims.data(), nullptr};
  const std::int64_t tiles = code.tiles(arguments, 1);
  {
    const std::jthread other([&] { code.run(arguments, tiles / 2, tiles); });
    code.run(arguments, 0, tiles / 2);
  }
  for (float& value : x) value *= 2;
  EXPECT_TRUE(z == x);
}

TEST(Jit, Compiles_the_code_for_large_outputs_when_it_is_first_needed) {
  const auto code = jit(doubled(), {{16384}}, host());
  ASSERT_NE(code, nullptr);
  expect_doubles(*code, 100'001);
  EXPECT_EQ(Cache::count(), 1);
  const std::int64_t large = streaming_bytes() / 4 + 5;
  expect_doubles(*code, large);
  EXPECT_EQ(Cache::count(), 2);
  expect_doubles(*code, large);
  EXPECT_EQ(Cache::count(), 2);
}

// The lower bits of numbers that are made of the first and the last byte of each four.
using Made = int (*)(int, int);
using Written = tile::Tile (*)(const tile::Tile&, const tile::Tile&);
void expect_made(Written written, Made made) {
  constexpr std::int64_t pixels = 523;  // vectors of all sizes, and some left over
  const ir::Program program = tile::trace("made", {{"z", ir::Type::u8, {-1}}, {"x", ir::Type::u8, {-1}}}, {}, [&] {
    const tile::Output z;
    const auto channel = [&](int number) {
      return tile::cast<std::int32_t>(tile::load_of_group(tile::Input(0), z, 4, number));
    };
    z.store(tile::cast<std::uint8_t>(written(channel(0), channel(3)) & 255));
  });
  std::vector<std::uint8_t> x(4 * pixels);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * i * 7 + i / 5);
  x[0] = x[3] = 255;
  x[4] = x[7] = 0;
  std::vector<std::uint8_t> z(pixels);
  const std::array buffers = {reinterpret_cast<std::byte*>(z.data()), reinterpret_cast<std::byte*>(x.data())};
  const std::array dims = {pixels, 4 * pixels};
  const Arguments arguments{buffers.data(), dims.data(), nullptr};
  const auto code = compile(program);
  code->run(arguments, 0, code->tiles(arguments, 1));
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], made(x[4 * i], x[4 * i + 3]) & 255) << i;
}

TEST(Jit, Adds_products_in_pairs) {
  expect_made([](const tile::Tile& a, const tile::Tile& b) { return (a * 9798 + b * 19235 + 16384) >> 15; },
              [](int a, int b) { return (a * 9798 + b * 19235 + 16384) >> 15; });
  expect_made([](const tile::Tile& a, const tile::Tile& b) { return (a * 300 + b * 7 + (a - b) * 99 + 1000) >> 2; },
              [](int a, int b) { return (a * 300 + b * 7 + (a - b) * 99 + 1000) >> 2; });
  expect_made([](const tile::Tile& a, const tile::Tile& b) { return (a * 300 + b * 7 + (a ^ b) + 100000) >> 2; },
              [](int a, int b) { return (a * 300 + b * 7 + (a ^ b) + 100000) >> 2; });
  expect_made([](const tile::Tile& a, const tile::Tile& b) { return (a * -300 + (b - 255) * 128 - 9) >> 3; },
              [](int a, int b) { return (a * -300 + (b - 255) * 128 - 9) >> 3; });
}

TEST(Jit, Finds_compiled_code_in_the_disk_cache) {
  const auto first = jit(doubled(), {{8192}}, host());
  const JitCounts before = jit_counts();
  const auto second = jit(doubled(), {{8192}}, host());
  EXPECT_EQ(jit_counts().compiled, before.compiled);
  EXPECT_EQ(jit_counts().from_disk, before.from_disk + 1);
  expect_doubles(*second, 1000);
}

// A hundred dependent steps for each point, which are computed for several vectors side by side.
template <class T>
T long_way(T x) {
  for (int i = 0; i < 50; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      x = (x * 3 - static_cast<T>(i)) * static_cast<T>(0.25);
    } else {  // wraps around
      x = static_cast<T>(static_cast<std::uint64_t>(x) * 3 - static_cast<std::uint64_t>(i));
    }
  }
  return x;
}

template <class T>
void expect_long_way(ir::Type type) {
  const ir::Program program = tile::trace("long_way", {{"z", type, {-1}}, {"x", type, {-1}}}, {}, [] {
    const tile::Output z;
    tile::Tile t = tile::load_like(tile::Input(0), z);
    for (int i = 0; i < 50; ++i) {
      t = t * 3 - i;
      if constexpr (std::is_floating_point_v<T>) t = t * 0.25;
    }
    z.store(t);
  });
  const auto code = jit(program, {{16384}}, host());
  for (const std::int64_t elements : {1, 7, 31, 63, 64, 65, 127, 1000, 70'001}) {
    std::vector<T> x(static_cast<std::size_t>(elements)), z(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 251);
    const std::array buffers = {reinterpret_cast<std::byte*>(z.data()), reinterpret_cast<std::byte*>(x.data())};
    const std::array dims = {elements, elements};
    const Arguments arguments{buffers.data(), dims.data(), nullptr};
    code->run(arguments, 0, code->tiles(arguments, 1));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(z[i], long_way(x[i])) << elements << " " << i;
  }
}

TEST(Jit, Long_chains_compute_what_their_steps_compute) {
  expect_long_way<float>(ir::Type::f32);
  expect_long_way<double>(ir::Type::f64);
  expect_long_way<std::int32_t>(ir::Type::s32);
  expect_long_way<std::uint32_t>(ir::Type::u32);
  expect_long_way<std::int64_t>(ir::Type::s64);
}

// Runs a function on a thread with the smallest stack that host programs are known to use.
void on_small_stack(const std::function<void()>& what) {
  constexpr std::size_t bytes = 320 << 10;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread{};
  const auto run = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&what)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Jit, Chains_of_thousands_of_ops_need_no_large_stack) {
  constexpr int steps = 1900;  // of two operations
  const auto program = tile::trace("chain", {{"z", ir::Type::s32, {-1}}, {"x", ir::Type::s32, {-1}}}, {}, [] {
    const tile::Output z;
    const tile::Tile x = tile::load_like(tile::Input(0), z);
    tile::Tile t = x;
    for (int i = 0; i < steps; ++i) t = (t ^ i) + x;
    z.store(t);
  });
  std::shared_ptr<const Compiled> code;
  on_small_stack([&] { code = jit(program, {{16384}}, host()); });
  ASSERT_NE(code, nullptr);
  std::array<std::int32_t, 3> x = {1, 2, 3}, z = {};
  const std::array buffers = {reinterpret_cast<std::byte*>(z.data()), reinterpret_cast<std::byte*>(x.data())};
  const std::array<std::int64_t, 2> dims = {3, 3};
  code->run({buffers.data(), dims.data(), nullptr}, 0, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int32_t expected = x[i];
    for (int step = 0; step < steps; ++step) expected = (expected ^ step) + x[i];
    EXPECT_EQ(z[i], expected);
  }
}

// A limit for loaded code while a test runs.
struct CodeLimit {
  explicit CodeLimit(std::size_t bytes) { set_code_limit(bytes); }
  ~CodeLimit() { set_code_limit(usual_code_limit); }
  CodeLimit(const CodeLimit&) = delete;
  CodeLimit& operator=(const CodeLimit&) = delete;
};

TEST(Jit, Code_that_was_not_used_for_long_is_unloaded_and_loaded_again) {
  const std::size_t before = loaded_code_bytes();
  std::vector<std::shared_ptr<const Compiled>> codes;
  for (std::int64_t tile = 1; tile <= 20; ++tile) codes.push_back(jit(doubled(), {{1024 * tile}}, host()));
  const std::size_t each = (loaded_code_bytes() - before) / 20;
  std::atomic<bool> first_is_ready = false;
  codes[0]->report_readiness(first_is_ready);
  EXPECT_TRUE(first_is_ready);
  {
    const CodeLimit limit(before + 10 * each);
    EXPECT_LE(loaded_code_bytes(), before + 10 * each);
    EXPECT_FALSE(first_is_ready);
    const JitCounts counts = jit_counts();
    for (const auto& code : codes) expect_doubles(*code, 5000);
    EXPECT_GT(jit_counts().from_disk, counts.from_disk);
    EXPECT_EQ(jit_counts().compiled, counts.compiled);
    EXPECT_LE(loaded_code_bytes(), before + 10 * each);
    // What is used all the time stays.
    expect_doubles(*codes[0], 5000);
    EXPECT_TRUE(first_is_ready);
    int unloaded = 0;
    for (const auto& code : codes) {
      expect_doubles(*code, 5000);
      if (!first_is_ready) ++unloaded;
      expect_doubles(*codes[0], 5000);
    }
    EXPECT_LE(unloaded, 2);
  }
  codes.clear();
  EXPECT_EQ(loaded_code_bytes(), before);
}

TEST(Jit, Threads_run_code_while_it_is_unloaded_all_the_time) {
  std::vector<std::shared_ptr<const Compiled>> codes;
  for (std::int64_t tile = 1; tile <= 4; ++tile) codes.push_back(jit(doubled(), {{512 * tile}}, host()));
  const CodeLimit none(1);
  std::atomic<bool> is_done = false;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < test::rounds(2000); ++round) {
        std::array<float, 3> x = {1, 2, static_cast<float>(round)}, z = {};
        const std::array buffers = {reinterpret_cast<std::byte*>(z.data()), reinterpret_cast<std::byte*>(x.data())};
        const std::array<std::int64_t, 2> dims = {3, 3};
        codes[(i + static_cast<std::size_t>(round)) % codes.size()]->run({buffers.data(), dims.data(), nullptr}, 0, 1);
        ASSERT_EQ(z[2], 2 * static_cast<float>(round));
      }
    });
  }
  const std::jthread evictor([&] {
    while (!is_done) set_code_limit(1);
  });
  threads.clear();
  is_done = true;
}

// Code runs also while a thread's own objects are destroyed at its end.
TEST(Jit, Runs_at_the_end_of_a_thread) {
  const auto code = jit(doubled(), {{2048}}, host());
  struct AtEnd {
    const Compiled* code = nullptr;
    ~AtEnd() {
      if (code) expect_doubles(*code, 1000);
    }
  };
  std::thread([&] {
    thread_local AtEnd at_end;  // destroyed after what the first run makes
    at_end.code = code.get();
    expect_doubles(*code, 1000);
  }).join();
}

// Run by the test below, in a process that has no compiler yet.
TEST(Jit, DISABLED_Without_descriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto code = compile(doubled());
  expect_doubles(*code, 100);
  expect_doubles(*compile(doubled()), 100);
  EXPECT_EQ(jit_counts().compiled + jit_counts().from_disk, 0U);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int run = 0; run < 64; ++run) expect_doubles(*code, 100);
  EXPECT_EQ(jit_counts().compiled, 1U);
  EXPECT_NE(jit(doubled(), {{128}}, host()), nullptr);
}

TEST(Jit, Without_descriptors_kernels_are_interpreted_until_there_are_some_again) {
  const fs::path said = Cache::folder / "said";
  const std::string command = test::this_program_in_quotes() +
                              " --gtest_also_run_disabled_tests --gtest_filter=*.DISABLED_Without_descr* 2>'" +
                              said.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(said);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string expected = "tessera: kernels are interpreted";
  EXPECT_EQ(text.find(expected), 0U) << text;
  EXPECT_EQ(text.find(expected, 1), std::string::npos) << text;
  EXPECT_NE(text.find("libtessera_llvm.so"), std::string::npos) << text;
  EXPECT_NE(text.find("Too many open files"), std::string::npos) << text;
  fs::remove(said);
}

// Of relu, as TESSERA_DUMP shows it.
TEST(Jit, Kernels_use_the_vectors_of_the_processor) {
  const auto relu = tile::trace("relu", {{"z", ir::Type::f32, {-1}}, {"x", ir::Type::f32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(tile::max(tile::load_like(tile::Input(0), z), 0.0F));
  });
  setenv("TESSERA_DUMP", "asm", 1);
  testing::internal::CaptureStderr();
  const auto code = jit(relu, {{16384}}, host());
  unsetenv("TESSERA_DUMP");
  const std::string text = testing::internal::GetCapturedStderr();
  ASSERT_NE(code, nullptr);
#if defined(__x86_64__)
  const char* registers = host().vector_bits == 512 ? "%zmm" : host().vector_bits == 256 ? "%ymm" : "%xmm";
#else
  const char* registers = ".4s";  // NEON: four floats
#endif
  EXPECT_NE(text.find(registers), std::string::npos) << text;
}

TEST(Jit, Interprets_where_an_input_is_empty) {
  const auto shifted = tile::trace("shifted", {{"z", ir::Type::f32, {-1}}, {"x", ir::Type::f32, {-1}}}, {}, [] {
    const tile::Output z;
    z.store(tile::Input(0).at({z.index(0)}) + 1);
  });
  const auto code = jit(shifted, {{16384}}, host());
  std::vector<float> z(5);
  const std::array<std::byte*, 2> buffers = {reinterpret_cast<std::byte*>(z.data()), nullptr};
  const std::array<std::int64_t, 2> dims = {5, 0};
  code->run({buffers.data(), dims.data(), nullptr}, 0, 1);
  EXPECT_EQ(z, std::vector<float>(5, 1));
}

}  // namespace
}  // namespace tessera::compile::cpu
