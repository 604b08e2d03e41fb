#include "compile/cpu/object_code.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/relocation.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>

namespace tessera::compile::cpu {

namespace {

#if defined(__x86_64__)
constexpr std::uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t machine = EM_AARCH64;
#else
constexpr std::uint16_t machine = EM_NONE;  // no object can be loaded
#endif

constexpr std::size_t most_memory = std::size_t{1} << 27;  // within the reach of every kind of relocation

[[noreturn]] void refuse(std::string_view why) { throw Error(Errc::internal, core::text("object code: ", why)); }

void require(bool condition, std::string_view otherwise) {
  if (!condition) refuse(otherwise);
}

// For angles too large for the vector code, which are rare. In f64 the C library is some ulp off near a zero.
double library_sin(double x) { return static_cast<double>(std::sin(static_cast<long double>(x))); }
double library_cos(double x) { return static_cast<double>(std::cos(static_cast<long double>(x))); }

// The address of a function that code may call outside itself; 0 if it may not.
std::uint64_t external(std::string_view name) {
  if (name == "memcpy") return reinterpret_cast<std::uint64_t>(&std::memcpy);
  if (name == "memmove") return reinterpret_cast<std::uint64_t>(&std::memmove);
  if (name == "fmod") return reinterpret_cast<std::uint64_t>(static_cast<double (*)(double, double)>(&std::fmod));
  if (name == "fmodf") return reinterpret_cast<std::uint64_t>(&fmodf);
  // Under other names: LLVM knows sin and cos, and would merge both into a call of a third function.
  if (name == "library_sin") return reinterpret_cast<std::uint64_t>(&library_sin);
  if (name == "library_cos") return reinterpret_cast<std::uint64_t>(&library_cos);
  if (name == "memset") return reinterpret_cast<std::uint64_t>(&std::memset);
  return 0;
}

// The bytes of an object; nothing is read beyond them.
class Image {
 public:
  explicit Image(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size) const {
    require(offset <= bytes_.size() && size <= bytes_.size() - offset, "truncated");
    return bytes_.subspan(offset, size);
  }

  // `size` bytes at `offset` as entries of type T.
  template <class T>
  std::vector<T> table(std::uint64_t offset, std::uint64_t size) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::span<const std::byte> bytes = part(offset, size);
    std::vector<T> entries(bytes.size() / sizeof(T));
    if (!entries.empty()) std::memcpy(entries.data(), bytes.data(), entries.size() * sizeof(T));
    return entries;
  }

 private:
  std::span<const std::byte> bytes_;
};

// The contents of an object, checked as far as that does not depend on where it is loaded.
struct Object {
  explicit Object(std::span<const std::byte> bytes);

  std::string_view name(const Elf64_Sym& symbol) const;
  bool is_loaded(std::size_t section) const {
    return section < sections.size() && (sections[section].sh_flags & SHF_ALLOC) != 0;
  }

  Image image;
  std::vector<Elf64_Shdr> sections;
  std::size_t symbol_table = 0;
  std::vector<Elf64_Sym> symbols;
  std::span<const std::byte> names;
};

Object::Object(std::span<const std::byte> bytes) : image(bytes) {
  const Elf64_Ehdr header = image.table<Elf64_Ehdr>(0, sizeof(Elf64_Ehdr))[0];
  constexpr std::array<unsigned char, 6> ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
  require(std::equal(ident.begin(), ident.end(), header.e_ident) && header.e_type == ET_REL,
          "not a relocatable object");
  require(header.e_machine == machine, "made for another machine");
  require(header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum < SHN_LORESERVE, "malformed section table");
  sections = image.table<Elf64_Shdr>(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));

  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    require(symbol_table == 0 && i != 0 && sections[i].sh_entsize == sizeof(Elf64_Sym), "malformed symbol table");
    symbol_table = i;
  }
  require(symbol_table != 0, "no symbol table");
  const Elf64_Shdr& table = sections[symbol_table];
  require(table.sh_link < sections.size(), "malformed symbol table");
  symbols = image.table<Elf64_Sym>(table.sh_offset, table.sh_size);
  names = image.part(sections[table.sh_link].sh_offset, sections[table.sh_link].sh_size);
}

std::string_view Object::name(const Elf64_Sym& symbol) const {
  require(symbol.st_name < names.size(), "malformed symbol name");
  const std::span<const std::byte> rest = names.subspan(symbol.st_name);
  const auto end = std::find(rest.begin(), rest.end(), std::byte{0});
  require(end != rest.end(), "malformed symbol name");
  return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(end - rest.begin())};
}

int protection(const Elf64_Shdr& section) {
  if ((section.sh_flags & SHF_EXECINSTR) != 0) return PROT_READ | PROT_EXEC;
  return (section.sh_flags & SHF_WRITE) != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
}

// Pages with one protection.
struct Segment {
  int protection = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Where everything is loaded, as offsets from the beginning of the memory.
struct Layout {
  explicit Layout(const Object& object);

  std::array<Segment, 3> segments{Segment{PROT_READ | PROT_EXEC}, {PROT_READ}, {PROT_READ | PROT_WRITE}};
  std::vector<std::size_t> sections;
  std::size_t stubs = 0;  // one for every symbol
  std::size_t size = 0;

 private:
  std::size_t take(std::uint64_t bytes, std::uint64_t alignment) {
    const std::size_t offset = (size + alignment - 1) / alignment * alignment;
    require(bytes <= most_memory && offset + bytes <= most_memory, "too large");
    size = offset + bytes;
    return offset;
  }
};

Layout::Layout(const Object& object) : sections(object.sections.size()) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (Segment& segment : segments) {
    segment.begin = size;
    // First, so that there is readable memory before every function: UndefinedBehaviorSanitizer reads it at a call.
    if ((segment.protection & PROT_EXEC) != 0) stubs = take(object.symbols.size() * stub_size, stub_size);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const Elf64_Shdr& section = object.sections[i];
      if (!object.is_loaded(i) || protection(section) != segment.protection) continue;
      const std::uint64_t alignment = std::max<std::uint64_t>(section.sh_addralign, 1);
      require(std::has_single_bit(alignment) && alignment <= page, "malformed alignment");
      require((section.sh_flags & SHF_TLS) == 0, "thread-local data is not supported");
      sections[i] = take(section.sh_size, alignment);
    }
    segment.end = take(0, page);
  }
}

// Loads an object into memory that was allocated for it.
class Loader {
 public:
  Loader(const Object& object, const Layout& layout, std::byte* memory)
      : object_(object), layout_(layout), memory_(memory) {}

  void load();
  std::vector<std::pair<std::string, std::byte*>> functions() const;

 private:
  std::uint64_t address(const Elf64_Sym& symbol) const;  // 0 if it has none
  void relocate_section(const Elf64_Shdr& relocations);
  std::span<std::byte, stub_size> stub(std::size_t symbol) const {
    return std::span<std::byte, stub_size>(memory_ + layout_.stubs + symbol * stub_size, stub_size);
  }

  const Object& object_;
  const Layout& layout_;
  std::byte* memory_;
  std::vector<std::uint64_t> addresses_;  // of the symbols
};

void Loader::load() {
  for (std::size_t i = 0; i < object_.sections.size(); ++i) {
    const Elf64_Shdr& section = object_.sections[i];
    if (!object_.is_loaded(i) || section.sh_type == SHT_NOBITS) continue;
    const std::span<const std::byte> bytes = object_.image.part(section.sh_offset, section.sh_size);
    std::copy(bytes.begin(), bytes.end(), memory_ + layout_.sections[i]);
  }
  for (std::size_t i = 0; i < object_.symbols.size(); ++i) {
    addresses_.push_back(address(object_.symbols[i]));
    write_stub(machine, stub(i), addresses_[i]);
  }
  for (const Elf64_Shdr& section : object_.sections) {
    if (!object_.is_loaded(section.sh_info)) continue;  // belongs to debug information, or is not a relocation section
    require(section.sh_type != SHT_REL, "relocations without addends are not supported");
    if (section.sh_type == SHT_RELA) relocate_section(section);
  }
}

std::uint64_t Loader::address(const Elf64_Sym& symbol) const {
  if (symbol.st_shndx == SHN_UNDEF) return external(object_.name(symbol));
  if (symbol.st_shndx == SHN_ABS) return symbol.st_value;
  require(symbol.st_shndx < object_.sections.size(), "symbol in no section");
  if (!object_.is_loaded(symbol.st_shndx)) return 0;
  require(symbol.st_value <= object_.sections[symbol.st_shndx].sh_size, "symbol beyond its section");
  return reinterpret_cast<std::uint64_t>(memory_ + layout_.sections[symbol.st_shndx] + symbol.st_value);
}

void Loader::relocate_section(const Elf64_Shdr& relocations) {
  require(relocations.sh_link == object_.symbol_table && relocations.sh_entsize == sizeof(Elf64_Rela),
          "malformed relocations");
  const Elf64_Shdr& target = object_.sections[relocations.sh_info];
  require(target.sh_type != SHT_NOBITS, "malformed relocations");
  std::byte* const begin = memory_ + layout_.sections[relocations.sh_info];
  for (const Elf64_Rela& entry : object_.image.table<Elf64_Rela>(relocations.sh_offset, relocations.sh_size)) {
    const std::size_t symbol = ELF64_R_SYM(entry.r_info);
    require(entry.r_offset <= target.sh_size && symbol < object_.symbols.size(), "malformed relocation");
    if (symbol != 0 && addresses_[symbol] == 0) {  // an error only if it is used: assemblers list unused symbols
      refuse(core::text("symbol '", object_.name(object_.symbols[symbol]), "' is not defined"));
    }
    std::byte* const place = begin + entry.r_offset;
    const auto jump = reinterpret_cast<std::uint64_t>(stub(symbol).data());
    const bool is_external = object_.symbols[symbol].st_shndx == SHN_UNDEF;
    relocate(machine, {.type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info)),
                       .place = {place, target.sh_size - entry.r_offset},
                       .place_address = reinterpret_cast<std::uint64_t>(place),
                       .addend = entry.r_addend,
                       .symbol = addresses_[symbol],
                       .near = is_external ? jump : addresses_[symbol],
                       .stub = jump});
  }
}

std::vector<std::pair<std::string, std::byte*>> Loader::functions() const {
  std::vector<std::pair<std::string, std::byte*>> functions;
  for (std::size_t i = 0; i < object_.symbols.size(); ++i) {
    const Elf64_Sym& symbol = object_.symbols[i];
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !object_.is_loaded(symbol.st_shndx)) continue;
    const Elf64_Shdr& section = object_.sections[symbol.st_shndx];
    require(protection(section) == (PROT_READ | PROT_EXEC) && symbol.st_value < section.sh_size,
            "function outside of code");
    functions.emplace_back(object_.name(symbol), memory_ + (addresses_[i] - reinterpret_cast<std::uint64_t>(memory_)));
  }
  return functions;
}

}  // namespace

void ObjectCode::Unmap::operator()(std::byte* address) const noexcept { munmap(address, size); }

ObjectCode::ObjectCode(std::span<const std::byte> bytes) {
  const Object object(bytes);
  const Layout layout(object);
  require(layout.size != 0, "no code");
  void* memory = mmap(nullptr, layout.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(Errc::out_of_memory, core::text("cannot allocate ", layout.size, " bytes for code"));
  memory_ = {static_cast<std::byte*>(memory), Unmap{layout.size}};

  Loader loader(object, layout, memory_.get());
  loader.load();
  functions_ = loader.functions();
  for (const Segment& segment : layout.segments) {
    if (segment.begin == segment.end) continue;
    if (mprotect(memory_.get() + segment.begin, segment.end - segment.begin, segment.protection) != 0) {
      refuse(core::text("cannot set the protection of its memory: ", std::strerror(errno)));
    }
  }
  auto* const begin = reinterpret_cast<char*>(memory_.get());
  __builtin___clear_cache(begin + layout.segments[0].begin, begin + layout.segments[0].end);
}

void* ObjectCode::try_find(std::string_view name) const noexcept {
  for (const auto& [known, address] : functions_) {
    if (known == name) return address;
  }
  return nullptr;
}

void* ObjectCode::find(std::string_view name) const {
  if (void* found = try_find(name)) return found;
  refuse(core::text("no function '", name, "'"));
}

}  // namespace tessera::compile::cpu
