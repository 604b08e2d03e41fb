#pragma once

#include <array>
#include <cstdint>

// The parts of ELF, the System V object format, that the loader reads: 64-bit, little-endian. Written out here because
// <elf.h> exists only on systems whose own programs are ELF, and LLVM writes it on all of them. The names are those of
// the specification, without its prefixes.
namespace tessera::compile::cpu::elf {

struct Header {  // Elf64_Ehdr
  std::array<std::uint8_t, 16> ident;
  std::uint16_t type;
  std::uint16_t machine;
  std::uint32_t version;
  std::uint64_t entry;
  std::uint64_t phoff;
  std::uint64_t shoff;
  std::uint32_t flags;
  std::uint16_t ehsize;
  std::uint16_t phentsize;
  std::uint16_t phnum;
  std::uint16_t shentsize;
  std::uint16_t shnum;
  std::uint16_t shstrndx;
};
static_assert(sizeof(Header) == 64);

// "\x7fELF", 64 bits, little-endian.
inline constexpr std::array<std::uint8_t, 6> ident = {0x7f, 'E', 'L', 'F', 2, 1};
inline constexpr std::uint16_t type_relocatable = 1;
inline constexpr std::uint16_t machine_none = 0;
inline constexpr std::uint16_t machine_x86_64 = 62;
inline constexpr std::uint16_t machine_aarch64 = 183;

struct Section {  // Elf64_Shdr
  std::uint32_t name;
  std::uint32_t type;
  std::uint64_t flags;
  std::uint64_t addr;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t link;
  std::uint32_t info;
  std::uint64_t addralign;
  std::uint64_t entsize;
};
static_assert(sizeof(Section) == 64);

inline constexpr std::uint32_t section_symbols = 2;   // SHT_SYMTAB
inline constexpr std::uint32_t section_rela = 4;      // SHT_RELA
inline constexpr std::uint32_t section_no_bytes = 8;  // SHT_NOBITS
inline constexpr std::uint32_t section_rel = 9;       // SHT_REL
inline constexpr std::uint64_t flag_write = 1;
inline constexpr std::uint64_t flag_alloc = 2;
inline constexpr std::uint64_t flag_exec = 4;
inline constexpr std::uint64_t flag_tls = 0x400;

struct Symbol {  // Elf64_Sym
  std::uint32_t name;
  std::uint8_t info;
  std::uint8_t other;
  std::uint16_t shndx;
  std::uint64_t value;
  std::uint64_t size;
};
static_assert(sizeof(Symbol) == 24);

inline constexpr std::uint16_t index_undefined = 0;
inline constexpr std::uint16_t index_reserved = 0xff00;  // the first that is not a section
inline constexpr std::uint16_t index_absolute = 0xfff1;
inline constexpr std::uint8_t symbol_function = 2;
inline constexpr std::uint8_t type_of(const Symbol& symbol) { return symbol.info & 0xf; }

struct Rela {  // Elf64_Rela
  std::uint64_t offset;
  std::uint64_t info;
  std::int64_t addend;
};
static_assert(sizeof(Rela) == 24);

inline constexpr std::uint32_t symbol_of(const Rela& rela) { return static_cast<std::uint32_t>(rela.info >> 32); }
inline constexpr std::uint32_t type_of(const Rela& rela) { return static_cast<std::uint32_t>(rela.info); }

// Types of relocations.
namespace x86_64 {
inline constexpr std::uint32_t none = 0;
inline constexpr std::uint32_t abs64 = 1;  // R_X86_64_64
inline constexpr std::uint32_t pc32 = 2;
inline constexpr std::uint32_t plt32 = 4;
inline constexpr std::uint32_t gotpcrel = 9;
inline constexpr std::uint32_t pc64 = 24;
inline constexpr std::uint32_t gotpcrelx = 41;
inline constexpr std::uint32_t rex_gotpcrelx = 42;
}  // namespace x86_64

namespace aarch64 {
inline constexpr std::uint32_t none = 0;
inline constexpr std::uint32_t abs64 = 257;
inline constexpr std::uint32_t prel64 = 260;
inline constexpr std::uint32_t prel32 = 261;
inline constexpr std::uint32_t adr_prel_pg_hi21 = 275;
inline constexpr std::uint32_t add_abs_lo12_nc = 277;
inline constexpr std::uint32_t ldst8_abs_lo12_nc = 278;
inline constexpr std::uint32_t jump26 = 282;
inline constexpr std::uint32_t call26 = 283;
inline constexpr std::uint32_t ldst16_abs_lo12_nc = 284;
inline constexpr std::uint32_t ldst32_abs_lo12_nc = 285;
inline constexpr std::uint32_t ldst64_abs_lo12_nc = 286;
inline constexpr std::uint32_t ldst128_abs_lo12_nc = 299;
inline constexpr std::uint32_t adr_got_page = 311;
inline constexpr std::uint32_t ld64_got_lo12_nc = 312;
}  // namespace aarch64

}  // namespace tessera::compile::cpu::elf
