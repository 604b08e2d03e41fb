#include "compile/cpu/host.hpp"

#include <tessera/error.hpp>

#include "core/environment.hpp"
#include "core/platform.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::compile::cpu {

namespace {

// Without a stream, which would take longer than everything else here.
std::string hex(std::uint64_t number) {
  std::array<char, 16> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr};
}

#if defined(__x86_64__)

constexpr std::array<std::string_view, 3> names_of_levels = {"sse2", "avx2", "avx512"};

struct Leaf {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

// Each leaf takes about 5 µs in a virtual machine, so only a few are read.
Leaf cpuid(std::uint32_t number) {
  Leaf leaf;
  __cpuid_count(number, 0, leaf.a, leaf.b, leaf.c, leaf.d);
  return leaf;
}

// The registers that the system saves at a thread switch.
std::uint64_t saved_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

constexpr bool all(std::uint64_t word, std::uint64_t bits) { return (word & bits) == bits; }

Host detect() {
  const Leaf vendor = cpuid(0);
  const Leaf basic = cpuid(1);
  const Leaf more = vendor.a >= 7 ? cpuid(7) : Leaf{};
  const Leaf extended = cpuid(0x80000001);
  const std::uint64_t saved = all(basic.c, bit_OSXSAVE) ? saved_registers() : 0;

  Host host;
  host.description = "x86";
  if (all(saved, 0x6) && all(basic.c, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE) &&
      all(more.b, bit_AVX2 | bit_BMI | bit_BMI2) && all(extended.c, bit_LZCNT)) {
    host.level = VectorLevel::avx2;
    constexpr std::uint32_t v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    if (all(saved, 0xe6) && all(more.b, v4)) host.level = VectorLevel::avx512;
    host.has_vnni = host.level == VectorLevel::avx512 && all(more.c, bit_AVX512VNNI);
    host.has_vbmi = host.level == VectorLevel::avx512 && all(more.c, bit_AVX512VBMI);
  }
  // basic.b is left out: it contains the number of the core.
  for (const std::uint64_t word :
       {std::uint64_t{vendor.b}, std::uint64_t{basic.a}, std::uint64_t{basic.c}, std::uint64_t{basic.d},
        std::uint64_t{more.b}, std::uint64_t{more.c}, std::uint64_t{more.d}, std::uint64_t{extended.c},
        std::uint64_t{extended.d}, saved}) {
    host.description += ' ' + hex(word);
  }
  return host;
}

void set_widths(Host& host) {
  host.has_fma = host.level >= VectorLevel::avx2;
  host.vector_bits = host.level == VectorLevel::avx512 ? 512 : host.level == VectorLevel::avx2 ? 256 : 128;
  host.vector_registers = host.level == VectorLevel::avx512 ? 32 : 16;
}

#else

constexpr std::array<std::string_view, 1> names_of_levels = {"neon"};

// Beyond NEON: LLVM's names of what the kernel reports as these bits of its two words.
struct Extension {
  std::string_view name;
  std::uint64_t first;
  std::uint64_t second;
};
constexpr std::array<Extension, 8> extensions = {{{"lse", 1U << 8, 0},
                                                  {"fullfp16", 1U << 9 | 1U << 10, 0},
                                                  {"rdm", 1U << 12, 0},
                                                  {"dotprod", 1U << 20, 0},
                                                  {"sve", 1U << 22, 0},
                                                  {"sve2", 1U << 22, 1U << 1},
                                                  {"i8mm", 0, 1U << 13},
                                                  {"bf16", 0, 1U << 14}}};

Host detect() {
  const core::Capabilities words = core::processor_capabilities();
  Host host;
  host.description = "hwcap " + hex(words.first) + ' ' + hex(words.second);
  for (const auto& [name, first, second] : extensions) {
    if ((words.first & first) == first && (words.second & second) == second) host.extensions += core::text(",+", name);
  }
  return host;
}

void set_widths(Host& host) {
  host.has_fma = true;
  host.vector_registers = 32;
}

#endif

// "sse2, avx2 or avx512"
std::string listed_levels() {
  std::string list;
  for (const std::string_view& name : names_of_levels) {
    if (!list.empty()) list += &name == &names_of_levels.back() ? " or " : ", ";
    list += name;
  }
  return list;
}

}  // namespace

std::span<const std::string_view> level_names() noexcept { return names_of_levels; }

Host detect_host(const char* cap) {
  Host host = detect();
  if (cap && *cap) {
    const auto* name = std::find(names_of_levels.begin(), names_of_levels.end(), cap);
    if (name == names_of_levels.end()) {
      throw Error(Errc::invalid_argument,
                  core::text("TESSERA_CPU_FEATURES is ", core::in_quotes(cap), "; it must be ", listed_levels()));
    }
    host.level = std::min(host.level, static_cast<VectorLevel>(name - names_of_levels.begin()));
    host.capped = true;
    host.has_vnni = host.has_vbmi = false;
    host.extensions.clear();
    host.description = core::text("capped to ", names_of_levels[static_cast<std::size_t>(host.level)]);
  }
  set_widths(host);
  return host;
}

std::int64_t streaming_bytes() {
  static const std::int64_t bytes =
      std::clamp(core::last_cache_bytes() / 2, least_streaming_bytes, most_streaming_bytes);
  return bytes;
}

const Host& host() {
  // Never destroyed: workers may still compile while the process exits.
  static const Host& found = *new Host(detect_host(core::environment_variable("TESSERA_CPU_FEATURES")));
  return found;
}

}  // namespace tessera::compile::cpu
