#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::compile::cpu {

// A stub for a symbol that may be out of reach or is used through a table: instructions that jump to the symbol, and
// the symbol's address.
inline constexpr std::size_t stub_size = 16;
inline constexpr std::size_t stub_address = 8;  // the offset of the address in the stub

// Writes the stub for a symbol at `address`. `machine` is ELF's number: elf::machine_x86_64 or machine_aarch64.
void write_stub(std::uint16_t machine, std::span<std::byte, stub_size> stub, std::uint64_t address);

struct Relocation {
  std::uint32_t type = 0;
  std::span<std::byte> place;       // ELF's name for the bytes to change; up to the end of the section
  std::uint64_t place_address = 0;  // the address of `place` when the code runs
  std::int64_t addend = 0;
  std::uint64_t symbol = 0;  // its address
  std::uint64_t near = 0;    // the symbol if it is within reach of 32-bit offsets, otherwise its stub
  std::uint64_t stub = 0;
};

// Applies it. Throws an Error if its type is unknown, the place too short or the distance too large.
void relocate(std::uint16_t machine, const Relocation& relocation);

}  // namespace tessera::compile::cpu
