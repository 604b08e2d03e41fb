#include "compile/cpu/object_code.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/elf.hpp"
#include "compile/cpu/relocation.hpp"
#include "core/platform.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tessera::compile::cpu {

namespace {

#if defined(__x86_64__)
constexpr std::uint16_t machine = elf::machine_x86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t machine = elf::machine_aarch64;
#else
constexpr std::uint16_t machine = elf::machine_none;  // no object can be loaded
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

  std::string_view name(const elf::Symbol& symbol) const;
  bool is_loaded(std::size_t section) const {
    return section < sections.size() && (sections[section].flags & elf::flag_alloc) != 0;
  }

  Image image;
  std::vector<elf::Section> sections;
  std::size_t symbol_table = 0;
  std::vector<elf::Symbol> symbols;
  std::span<const std::byte> names;
};

Object::Object(std::span<const std::byte> bytes) : image(bytes) {
  const elf::Header header = image.table<elf::Header>(0, sizeof(elf::Header))[0];
  require(
      std::equal(elf::ident.begin(), elf::ident.end(), header.ident.begin()) && header.type == elf::type_relocatable,
      "not a relocatable object");
  require(header.machine == machine, "made for another machine");
  require(header.shentsize == sizeof(elf::Section) && header.shnum < elf::index_reserved, "malformed section table");
  sections = image.table<elf::Section>(header.shoff, header.shnum * sizeof(elf::Section));

  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].type != elf::section_symbols) continue;
    require(symbol_table == 0 && i != 0 && sections[i].entsize == sizeof(elf::Symbol), "malformed symbol table");
    symbol_table = i;
  }
  require(symbol_table != 0, "no symbol table");
  const elf::Section& table = sections[symbol_table];
  require(table.link < sections.size(), "malformed symbol table");
  symbols = image.table<elf::Symbol>(table.offset, table.size);
  names = image.part(sections[table.link].offset, sections[table.link].size);
}

std::string_view Object::name(const elf::Symbol& symbol) const {
  require(symbol.name < names.size(), "malformed symbol name");
  const std::span<const std::byte> rest = names.subspan(symbol.name);
  const auto end = std::find(rest.begin(), rest.end(), std::byte{0});
  require(end != rest.end(), "malformed symbol name");
  return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(end - rest.begin())};
}

CodeArea area_of(const elf::Section& section) {
  if ((section.flags & elf::flag_exec) != 0) return CodeArea::code;
  return (section.flags & elf::flag_write) != 0 ? CodeArea::data : CodeArea::constants;
}

// Where everything is loaded, as offsets from the beginning of its area.
struct Layout {
  explicit Layout(const Object& object);

  PerArea<std::size_t> sizes{};
  std::vector<std::size_t> sections;
  std::size_t stubs = 0;  // one for every symbol, in the code

 private:
  std::size_t take(CodeArea area, std::uint64_t bytes, std::uint64_t alignment) {
    std::size_t& size = sizes[static_cast<std::size_t>(area)];
    const std::size_t offset = (size + alignment - 1) / alignment * alignment;
    require(bytes <= most_memory && offset + bytes <= most_memory, "too large");
    size = offset + bytes;
    return offset;
  }
};

Layout::Layout(const Object& object) : sections(object.sections.size()) {
  // First, so that there is readable memory before every function: UndefinedBehaviorSanitizer reads it at a call.
  stubs = take(CodeArea::code, object.symbols.size() * stub_size, stub_size);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (!object.is_loaded(i)) continue;
    const elf::Section& section = object.sections[i];
    const std::uint64_t alignment = std::max<std::uint64_t>(section.addralign, 1);
    require(std::has_single_bit(alignment) && alignment <= core::page_size(), "malformed alignment");
    require((section.flags & elf::flag_tls) == 0, "thread-local data is not supported");
    sections[i] = take(area_of(section), section.size, alignment);
  }
}

// Loads an object into memory that was allocated for it.
class Loader {
 public:
  Loader(const Object& object, const Layout& layout, const CodeMemory& memory)
      : object_(object), layout_(layout), memory_(memory) {}

  void load();
  std::vector<std::pair<std::string, std::byte*>> functions() const;

 private:
  std::uint64_t address(const elf::Symbol& symbol) const;  // 0 if it has none
  void relocate_section(const elf::Section& relocations);
  std::span<std::byte, stub_size> stub(std::size_t symbol) const {
    return std::span<std::byte, stub_size>(memory_.at(CodeArea::code) + layout_.stubs + symbol * stub_size, stub_size);
  }
  // The beginning of a section that is loaded.
  std::byte* section(std::size_t index) const {
    return memory_.at(area_of(object_.sections[index])) + layout_.sections[index];
  }

  const Object& object_;
  const Layout& layout_;
  const CodeMemory& memory_;
  std::vector<std::uint64_t> addresses_;  // of the symbols
};

void Loader::load() {
  for (std::size_t i = 0; i < object_.sections.size(); ++i) {
    const elf::Section& section = object_.sections[i];
    if (!object_.is_loaded(i) || section.type == elf::section_no_bytes) continue;
    const std::span<const std::byte> bytes = object_.image.part(section.offset, section.size);
    std::copy(bytes.begin(), bytes.end(), this->section(i));
  }
  for (std::size_t i = 0; i < object_.symbols.size(); ++i) {
    addresses_.push_back(address(object_.symbols[i]));
    write_stub(machine, stub(i), addresses_[i]);
  }
  for (const elf::Section& section : object_.sections) {
    if (!object_.is_loaded(section.info)) continue;  // belongs to debug information, or is not a relocation section
    require(section.type != elf::section_rel, "relocations without addends are not supported");
    if (section.type == elf::section_rela) relocate_section(section);
  }
}

std::uint64_t Loader::address(const elf::Symbol& symbol) const {
  if (symbol.shndx == elf::index_undefined) return external(object_.name(symbol));
  if (symbol.shndx == elf::index_absolute) return symbol.value;
  require(symbol.shndx < object_.sections.size(), "symbol in no section");
  if (!object_.is_loaded(symbol.shndx)) return 0;
  require(symbol.value <= object_.sections[symbol.shndx].size, "symbol beyond its section");
  return reinterpret_cast<std::uint64_t>(section(symbol.shndx) + symbol.value);
}

void Loader::relocate_section(const elf::Section& relocations) {
  require(relocations.link == object_.symbol_table && relocations.entsize == sizeof(elf::Rela),
          "malformed relocations");
  const elf::Section& target = object_.sections[relocations.info];
  require(target.type != elf::section_no_bytes, "malformed relocations");
  std::byte* const begin = section(relocations.info);
  for (const elf::Rela& entry : object_.image.table<elf::Rela>(relocations.offset, relocations.size)) {
    const std::size_t symbol = elf::symbol_of(entry);
    require(entry.offset <= target.size && symbol < object_.symbols.size(), "malformed relocation");
    if (symbol != 0 && addresses_[symbol] == 0) {  // an error only if it is used: assemblers list unused symbols
      refuse(core::text("symbol '", object_.name(object_.symbols[symbol]), "' is not defined"));
    }
    std::byte* const place = begin + entry.offset;
    const auto jump = reinterpret_cast<std::uint64_t>(stub(symbol).data());
    const bool is_external = object_.symbols[symbol].shndx == elf::index_undefined;
    relocate(machine, {.type = elf::type_of(entry),
                       .place = {place, target.size - entry.offset},
                       .place_address = reinterpret_cast<std::uint64_t>(place),
                       .addend = entry.addend,
                       .symbol = addresses_[symbol],
                       .near = is_external ? jump : addresses_[symbol],
                       .stub = jump});
  }
}

std::vector<std::pair<std::string, std::byte*>> Loader::functions() const {
  std::vector<std::pair<std::string, std::byte*>> functions;
  for (std::size_t i = 0; i < object_.symbols.size(); ++i) {
    const elf::Symbol& symbol = object_.symbols[i];
    if (elf::type_of(symbol) != elf::symbol_function || !object_.is_loaded(symbol.shndx)) continue;
    const elf::Section& section = object_.sections[symbol.shndx];
    require(area_of(section) == CodeArea::code && symbol.value < section.size, "function outside of code");
    functions.emplace_back(object_.name(symbol), this->section(symbol.shndx) + symbol.value);
  }
  return functions;
}

}  // namespace

ObjectCode::ObjectCode(std::span<const std::byte> bytes) {
  const Object object(bytes);
  const Layout layout(object);
  require(layout.sizes != PerArea<std::size_t>{}, "no code");
  memory_ = CodeMemory(layout.sizes);
  Loader loader(object, layout, memory_);
  loader.load();
  functions_ = loader.functions();
  memory_.seal();
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
