#include "compile/cpu/relocation.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/elf.hpp"
#include "core/text.hpp"

#include <array>
#include <bit>
#include <cstring>

static_assert(std::endian::native == std::endian::little, "code is written in little-endian order");

namespace tessera::compile::cpu {

namespace {

[[noreturn]] void refuse(const Relocation& relocation, const char* why) {
  throw Error(Errc::internal, core::text("object code: relocation of type ", relocation.type, ' ', why));
}

template <class T>
void put(const Relocation& relocation, T value) {
  if (relocation.place.size() < sizeof(T)) refuse(relocation, "beyond its section");
  std::memcpy(relocation.place.data(), &value, sizeof(T));
}

void put_distance32(const Relocation& relocation, std::uint64_t target) {
  const auto distance = static_cast<std::int64_t>(target - relocation.place_address);
  if (distance != static_cast<std::int32_t>(distance)) refuse(relocation, "out of reach");
  put(relocation, static_cast<std::int32_t>(distance));
}

// Replaces the bits of an instruction that are set in `mask`.
void put_bits(const Relocation& relocation, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t instruction = 0;
  if (relocation.place.size() < sizeof instruction) refuse(relocation, "beyond its section");
  std::memcpy(&instruction, relocation.place.data(), sizeof instruction);
  put(relocation, (instruction & ~mask) | (bits & mask));
}

void relocate_x86(const Relocation& relocation) {
  const auto addend = static_cast<std::uint64_t>(relocation.addend);
  switch (relocation.type) {
    case elf::x86_64::none:
      return;
    case elf::x86_64::abs64:
      return put(relocation, relocation.symbol + addend);
    case elf::x86_64::pc64:
      return put(relocation, relocation.symbol + addend - relocation.place_address);
    case elf::x86_64::pc32:
    case elf::x86_64::plt32:
      return put_distance32(relocation, relocation.near + addend);
    case elf::x86_64::gotpcrel:
    case elf::x86_64::gotpcrelx:
    case elf::x86_64::rex_gotpcrelx:
      return put_distance32(relocation, relocation.stub + stub_address + addend);
  }
  refuse(relocation, "is not supported");
}

// bl, b: a distance of 26 bits, in words.
void put_branch(const Relocation& relocation, std::uint64_t target) {
  const auto distance = static_cast<std::int64_t>(target - relocation.place_address);
  if (distance % 4 != 0 || distance < -(1 << 27) || distance >= 1 << 27) refuse(relocation, "out of reach");
  put_bits(relocation, 0x03ffffff, static_cast<std::uint32_t>(distance / 4));
}

// adrp: a distance of 21 bits, in pages; the lowest two bits are stored apart.
void put_page(const Relocation& relocation, std::uint64_t target) {
  const auto pages = static_cast<std::int64_t>((target >> 12) - (relocation.place_address >> 12));
  if (pages < -(1 << 20) || pages >= 1 << 20) refuse(relocation, "out of reach");
  const auto bits = static_cast<std::uint32_t>(pages);
  put_bits(relocation, 0x60ffffe0, (bits & 3) << 29 | (bits >> 2 & 0x7ffff) << 5);
}

// The offset within the page, in units of the access size.
void put_page_offset(const Relocation& relocation, std::uint64_t target, unsigned size) {
  const auto offset = static_cast<std::uint32_t>(target & 0xfff);
  if (offset % size != 0) refuse(relocation, "to a misaligned address");
  put_bits(relocation, 0x003ffc00, offset / size << 10);
}

void relocate_aarch64(const Relocation& relocation) {
  const auto addend = static_cast<std::uint64_t>(relocation.addend);
  const std::uint64_t target = relocation.near + addend;
  switch (relocation.type) {
    case elf::aarch64::none:
      return;
    case elf::aarch64::abs64:
      return put(relocation, relocation.symbol + addend);
    case elf::aarch64::prel64:
      return put(relocation, relocation.symbol + addend - relocation.place_address);
    case elf::aarch64::prel32:
      return put_distance32(relocation, target);
    case elf::aarch64::call26:
    case elf::aarch64::jump26:
      return put_branch(relocation, target);
    case elf::aarch64::adr_prel_pg_hi21:
      return put_page(relocation, target);
    case elf::aarch64::add_abs_lo12_nc:
    case elf::aarch64::ldst8_abs_lo12_nc:
      return put_page_offset(relocation, target, 1);
    case elf::aarch64::ldst16_abs_lo12_nc:
      return put_page_offset(relocation, target, 2);
    case elf::aarch64::ldst32_abs_lo12_nc:
      return put_page_offset(relocation, target, 4);
    case elf::aarch64::ldst64_abs_lo12_nc:
      return put_page_offset(relocation, target, 8);
    case elf::aarch64::ldst128_abs_lo12_nc:
      return put_page_offset(relocation, target, 16);
    case elf::aarch64::adr_got_page:
      return put_page(relocation, relocation.stub + stub_address + addend);
    case elf::aarch64::ld64_got_lo12_nc:
      return put_page_offset(relocation, relocation.stub + stub_address + addend, 8);
  }
  refuse(relocation, "is not supported");
}

}  // namespace

void write_stub(std::uint16_t machine, std::span<std::byte, stub_size> stub, std::uint64_t address) {
  constexpr std::array<std::uint32_t, 2> x86 = {0x000225ff, 0xcccc0000};      // jmp *2(%rip); int3; int3
  constexpr std::array<std::uint32_t, 2> aarch64 = {0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
  const auto& jump = machine == elf::machine_x86_64 ? x86 : aarch64;
  std::memcpy(stub.data(), jump.data(), sizeof jump);
  std::memcpy(stub.data() + stub_address, &address, sizeof address);
}

void relocate(std::uint16_t machine, const Relocation& relocation) {
  machine == elf::machine_x86_64 ? relocate_x86(relocation) : relocate_aarch64(relocation);
}

}  // namespace tessera::compile::cpu
