#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::compile::cpu {

// The vector instructions that code may use. On x86 these are the levels of the x86-64 ABI.
enum class VectorLevel {
  baseline,  // SSE2; NEON on aarch64
  avx2,      // x86-64-v3: AVX2, FMA and what comes with them
  avx512,    // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

// The processor this process runs on, as far as compiled code depends on it. Known without a compiler, so that code can
// be looked up in the disk cache without loading one.
struct Host {
  VectorLevel level = VectorLevel::baseline;
  bool capped = false;  // TESSERA_CPU_FEATURES lowered the level: no features beyond the level may be used
  bool has_fma = false;
  bool has_vnni = false;  // AVX-512 VNNI: one instruction adds products of pairs to a sum
  bool has_vbmi = false;  // AVX-512 VBMI: one instruction looks up one of 128 bytes for each lane
  unsigned vector_bits = 128;
  unsigned vector_registers = 16;
  std::string extensions;   // aarch64: what code may use beyond NEON, as LLVM lists features; LLVM finds those of x86
  std::string description;  // code compiled for one description runs on every host with the same description
};

// The levels of this architecture by name, in the order of VectorLevel: sse2, avx2 and avx512, or only neon.
std::span<const std::string_view> level_names() noexcept;

// Detected once. TESSERA_CPU_FEATURES=sse2, or another of these names, caps the level, so that code for older
// processors can be tried; any other value is an Error.
const Host& host();

// What host() would be with this cap (null for none).
Host detect_host(const char* cap);

// Outputs of fewer bytes are never stored past the caches: that was slower in every measurement.
inline constexpr std::int64_t least_streaming_bytes = std::int64_t{4} << 20;
// Outputs of this many bytes always are, however large the last cache is: a few cores of a large processor do not fill
// it. On two cores of a Xeon with 260 MiB, a sum of two arrays of 16 MiB is 22 % faster past the caches, and as fast if
// it is read next; of 32 MiB it is 45 and 18 % faster, of 8 MiB 18 % faster but 11 % slower if it is read next.
inline constexpr std::int64_t most_streaming_bytes = std::int64_t{16} << 20;
// Outputs of at least this size are: the last cache cannot hold them together with the inputs.
std::int64_t streaming_bytes();

}  // namespace tessera::compile::cpu
