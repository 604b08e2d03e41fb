#include "compile/cpu/object_code.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/relocation.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tessera::compile::cpu {
namespace {

using test::expect_error;
using Bytes = std::vector<std::byte>;

// object_code_sample.cpp, as the compiler of this build made it.
Bytes sample() {
  std::ifstream file(TESSERA_SAMPLE_OBJECT, std::ios::binary);
  const std::vector<char> read{std::istreambuf_iterator<char>(file), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(read.data());
  return {begin, begin + read.size()};
}

// Loads an object that may be broken: that must work or throw an Error.
void try_to_load(const Bytes& object) {
  try {
    const ObjectCode code(object);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal) << error.what();
  }
}

TEST(Object_code, Functions_compute_with_constants_and_with_each_other) {
  const ObjectCode code(sample());
  EXPECT_EQ(code.function<float(float)>("polynomial")(2), 2.125F);
  EXPECT_EQ(code.function<int(int)>("thrice")(14), 42);
  EXPECT_STREQ(code.function<const char*(unsigned)>("word")(2), "two");
  EXPECT_STREQ(code.function<const char*(unsigned)>("word")(3), "three");
}

TEST(Object_code, Jump_tables_work) {
  const ObjectCode code(sample());
  auto* const choose = code.function<int(int, int)>("choose");
  EXPECT_EQ(choose(1, 10), 27);
  EXPECT_EQ(choose(2, 49), 7);
  EXPECT_EQ(choose(3, 3), 3);
  EXPECT_EQ(choose(4, 2), 2);
  EXPECT_EQ(choose(5, 2), 16);
  EXPECT_EQ(choose(6, 2), ~2);
  EXPECT_EQ(choose(7, 2), 0);
}

TEST(Object_code, Every_load_has_data_of_its_own) {
  const ObjectCode one(sample());
  const ObjectCode other(sample());
  EXPECT_EQ(one.function<int()>("count")(), 41);
  EXPECT_EQ(one.function<int()>("count")(), 42);
  EXPECT_EQ(other.function<int()>("count")(), 41);
}

TEST(Object_code, The_processs_own_memory_functions_can_be_called) {
  const ObjectCode code(sample());
  std::string text = "tessera";
  std::string copied(text.size(), '?');
  code.function<void(void*, const void*, std::size_t)>("copy")(copied.data(), text.data(), text.size());
  EXPECT_EQ(copied, text);
  code.function<void(void*, const void*, std::size_t)>("slide")(text.data() + 1, text.data(), 4);
  EXPECT_EQ(text, "ttessra");
  code.function<void(void*, std::size_t)>("clear")(text.data(), text.size());
  EXPECT_EQ(text, std::string(7, '\0'));
}

TEST(Object_code, Functions_stay_where_they_are_when_it_is_moved) {
  ObjectCode first(sample());
  auto* const thrice = first.function<int(int)>("thrice");
  const ObjectCode second = std::move(first);
  EXPECT_EQ(second.function<int(int)>("thrice"), thrice);
  EXPECT_EQ(thrice(5), 15);
  EXPECT_GT(second.size(), 0U);
}

// Lines of /proc/self/maps.
std::ptrdiff_t mappings() {
  std::ifstream file("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

// A mapping or two each would end at the system's limit, 65,530.
TEST(Object_code, Thousands_of_objects_share_a_few_mappings) {
  const Bytes object = sample();
  const std::ptrdiff_t before = mappings();
  const std::size_t regions = code_regions();
  std::vector<ObjectCode> all;
  for (int i = 0; i < 3000; ++i) all.emplace_back(object);
  EXPECT_LT(mappings() - before, 200);
  for (std::size_t i = 0; i < all.size(); i += 2) all[i] = ObjectCode(object);  // in the gaps
  EXPECT_LT(mappings() - before, 200);
  for (const ObjectCode& code : all) ASSERT_EQ(code.function<int(int)>("thrice")(14), 42);
  EXPECT_GT(code_regions(), regions);
  all.clear();
  EXPECT_EQ(code_regions(), regions);
}

// Never writable and executable at once.
TEST(Object_code, Code_is_not_writable_and_data_not_executable) {
  const ObjectCode code(sample());
  const auto address = reinterpret_cast<std::uintptr_t>(code.find("thrice"));
  std::ifstream file("/proc/self/maps");
  bool is_found = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string access;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> access;
    EXPECT_FALSE(access.find('w') != std::string::npos && access.find('x') != std::string::npos) << line;
    if (address >= begin && address < end) is_found = access.starts_with("r-x");
  }
  EXPECT_TRUE(is_found);
}

TEST(Object_code, An_unknown_function_is_an_error) {
  const ObjectCode code(sample());
  expect_error(Errc::internal, "no function 'quadruple'", [&] { code.find("quadruple"); });
}

TEST(Object_code, An_unknown_symbol_is_an_error) {
  Bytes object = sample();
  const std::string name = "memmove";
  const auto* letters = reinterpret_cast<const std::byte*>(name.c_str());
  const auto found = std::search(object.begin(), object.end(), letters, letters + name.size() + 1);
  ASSERT_NE(found, object.end());
  *found = std::byte{'M'};
  expect_error(Errc::internal, "symbol 'Memmove' is not defined", [&] { const ObjectCode code(object); });
}

TEST(Object_code, A_non_object_is_an_error) {
  expect_error(Errc::internal, "truncated", [] { const ObjectCode code({}); });
  expect_error(Errc::internal, "not a relocatable object", [] { const ObjectCode code(Bytes(1000)); });
  Bytes other = sample();
  other[offsetof(Elf64_Ehdr, e_machine)] ^= std::byte{1};
  expect_error(Errc::internal, "another machine", [&] { const ObjectCode code(other); });
}

TEST(Object_code, A_truncated_object_never_crashes) {
  const Bytes whole = sample();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try_to_load(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST(Object_code, A_flipped_bit_never_crashes) {
  Bytes object = sample();
  for (std::size_t bit = 0; bit < object.size() * 8; ++bit) {
    const std::byte flip{static_cast<unsigned char>(1U << bit % 8)};
    object[bit / 8] ^= flip;
    try_to_load(object);
    object[bit / 8] ^= flip;
  }
}

TEST(Object_code, Bytes_of_ones_and_zeros_never_crash) {
  const Bytes whole = sample();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes object = whole;
    for (const auto value : {std::byte{0}, std::byte{0x7f}, std::byte{0xff}}) {
      for (std::size_t i = at; i < std::min(at + 8, whole.size()); ++i) object[i] = value;
      try_to_load(object);
    }
  }
}

// One place of four or eight bytes, as if at `address`.
template <class T>
T relocated(std::uint16_t machine, std::uint32_t type, T before, std::uint64_t address, std::uint64_t symbol,
            std::int64_t addend = 0) {
  std::array<std::byte, sizeof(T)> place{};
  std::memcpy(place.data(), &before, sizeof before);
  relocate(machine, {.type = type,
                     .place = place,
                     .place_address = address,
                     .addend = addend,
                     .symbol = symbol,
                     .near = symbol,
                     .stub = 0x20000});
  T after{};
  std::memcpy(&after, place.data(), sizeof after);
  return after;
}

TEST(Relocation, X86) {
  EXPECT_EQ(relocated<std::uint64_t>(EM_X86_64, R_X86_64_64, 0, 0x1000, 0x123456789abc, 4), 0x123456789ac0U);
  EXPECT_EQ(relocated<std::int32_t>(EM_X86_64, R_X86_64_PC32, 0, 0x1010, 0x1000, -4), -0x14);
  EXPECT_EQ(relocated<std::int64_t>(EM_X86_64, R_X86_64_PC64, 0, 0x1010, 0x1000, 0), -0x10);
  EXPECT_EQ(relocated<std::int32_t>(EM_X86_64, R_X86_64_GOTPCREL, 0, 0x10000, 0x7fff00000000, -4), 0x10004);
}

TEST(Relocation, Aarch64) {
  const auto word = [](std::uint32_t type, std::uint32_t before, std::uint64_t address, std::uint64_t symbol) {
    return relocated<std::uint32_t>(EM_AARCH64, type, before, address, symbol);
  };
  EXPECT_EQ(word(R_AARCH64_CALL26, 0x94000000, 0x1000, 0x1010), 0x94000004U);               // bl .+16
  EXPECT_EQ(word(R_AARCH64_JUMP26, 0x14000000, 0x1010, 0x1000), 0x17fffffcU);               // b .-16
  EXPECT_EQ(word(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, 0x1234, 0x6789), 0xb0000020U);     // adrp x0, .+5 pages
  EXPECT_EQ(word(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, 0x6000, 0x5fff), 0xf0ffffe0U);     // adrp x0, .-1 page
  EXPECT_EQ(word(R_AARCH64_ADD_ABS_LO12_NC, 0x91000000, 0, 0x6789), 0x911e2400U);           // add x0, x0, #0x789
  EXPECT_EQ(word(R_AARCH64_LDST32_ABS_LO12_NC, 0xbd400000, 0, 0x6784), 0xbd478400U);        // ldr s0, [x0, #0x784]
  EXPECT_EQ(word(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00000, 0, 0x6780), 0x3dc1e000U);       // ldr q0, [x0, #0x780]
  EXPECT_EQ(word(R_AARCH64_LD64_GOT_LO12_NC, 0xf9400000, 0, 0x123456789abc), 0xf9400400U);  // ldr x0, [x0, #8]
}

TEST(Relocation, A_relocation_out_of_range_is_an_error) {
  expect_error(Errc::internal, "out of reach",
               [] { relocated<std::uint32_t>(EM_X86_64, R_X86_64_PC32, 0, 0, 0x80000000); });
  expect_error(Errc::internal, "out of reach",
               [] { relocated<std::uint32_t>(EM_AARCH64, R_AARCH64_CALL26, 0, 0, 1 << 27); });
  expect_error(Errc::internal, "misaligned",
               [] { relocated<std::uint32_t>(EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, 0, 0, 4); });
  expect_error(Errc::internal, "beyond its section", [] { relocated<std::uint32_t>(EM_X86_64, R_X86_64_64, 0, 0, 0); });
  expect_error(Errc::internal, "type 10 is not supported",
               [] { relocated<std::uint32_t>(EM_X86_64, R_X86_64_32, 0, 0, 0); });
}

}  // namespace
}  // namespace tessera::compile::cpu
