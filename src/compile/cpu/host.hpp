#pragma once

#include <cstdint>
#include <string>

namespace tessera::compile {

// How much of the processor's vector instructions code may use. On x86 these are the levels of the x86-64 ABI.
enum class VectorLevel {
  baseline,  // SSE2; NEON on aarch64
  avx2,      // x86-64-v3: AVX2, FMA and what comes with them
  avx512,    // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

// The processor this process runs on, as far as compiled code depends on it. Known without a compiler, so that code can
// be looked up in the disk cache without loading one.
struct Host {
  VectorLevel level = VectorLevel::baseline;
  bool capped = false;  // TESSERA_CPU_FEATURES lowered the level: only the level itself may be used, no other features
  bool has_fma = false;
  bool has_vnni = false;  // AVX-512 VNNI: products of pairs are added to a sum by one instruction
  bool has_vbmi = false;  // AVX-512 VBMI: each lane picks one of 128 bytes by one instruction
  unsigned vector_bits = 128;
  unsigned vector_registers = 16;
  std::string description;  // code compiled under one description runs wherever it is the same
};

// Found once. TESSERA_CPU_FEATURES=sse2, avx2 or avx512 caps the level, so that code for lesser processors can be tried
// here; any other value is an Error.
const Host& host();

// What host() would be with this cap (null for none).
Host detect_host(const char* cap);

// Outputs of fewer bytes are never stored past the caches: they lost in every measurement.
inline constexpr std::int64_t least_streaming_bytes = std::int64_t{4} << 20;
// Outputs of so many bytes always are, however large the last cache is: a few cores of a large processor do not fill
// it. On two cores of a Xeon with 260 MiB a sum of two arrays of 16 MiB is 22 % faster past the caches, and as fast if
// what comes next reads it; with 32 MiB it is 45 and 18 % faster, with 8 MiB 18 % faster but 11 % slower if it is read.
inline constexpr std::int64_t most_streaming_bytes = std::int64_t{16} << 20;
// From this size of an output on they are: when the last cache has no room for what is read beside it.
std::int64_t streaming_bytes();

}  // namespace tessera::compile
