// The shared libraries as they are built and as they are installed, read as ELF files.
#include "support/folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class ElfFile {
 public:
  explicit ElfFile(const fs::path& path) : stream_(path, std::ios::binary) {}

  bool is_elf() { return std::memcmp(at<Elf64_Ehdr>(0).e_ident, ELFMAG, SELFMAG) == 0; }

  std::vector<Elf64_Phdr> segments(std::uint32_t type) {
    const auto header = at<Elf64_Ehdr>(0);
    std::vector<Elf64_Phdr> found;
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type == type) found.push_back(segment);
    }
    return found;
  }

  // An entry of the dynamic section.
  std::optional<std::uint64_t> entry(std::int64_t tag) {
    for (const Elf64_Phdr& dynamic : segments(PT_DYNAMIC)) {
      for (std::size_t i = 0; i < dynamic.p_filesz / sizeof(Elf64_Dyn); ++i) {
        const auto found = at<Elf64_Dyn>(dynamic.p_offset + i * sizeof(Elf64_Dyn));
        if (found.d_tag == tag) return found.d_un.d_val;
      }
    }
    return std::nullopt;
  }
  std::optional<std::string> text(std::int64_t tag) {
    const auto offset = entry(tag);
    if (!offset) return std::nullopt;
    stream_.seekg(static_cast<std::streamoff>(offset_of(*entry(DT_STRTAB)) + *offset));
    std::string found;
    std::getline(stream_, found, '\0');
    return found;
  }

 private:
  template <class T>
  T at(std::size_t offset) {
    T value{};
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::size_t offset_of(std::uint64_t address) {
    for (const Elf64_Phdr& segment : segments(PT_LOAD)) {
      if (address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz) {
        return address - segment.p_vaddr + segment.p_offset;
      }
    }
    return 0;
  }

  std::ifstream stream_;
};

// An empty folder is the working directory, and so is one that a relative path leads to.
void expect_absolute_paths(const fs::path& file) {
  ElfFile elf(file);
  for (const std::int64_t tag : {DT_RPATH, DT_RUNPATH}) {
    const auto paths = elf.text(tag);
    if (!paths) continue;
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = std::min(paths->find(':', begin), paths->size());
      const std::string folder = paths->substr(begin, end - begin);
      EXPECT_TRUE(folder.starts_with('/') || folder == "$ORIGIN" || folder.starts_with("$ORIGIN/"))
          << file << " searches '" << folder << "' of '" << *paths << "'";
      if (end == paths->size()) break;
      begin = end + 1;
    }
  }
}

// Every ELF file in a folder and those below it.
std::size_t expect_absolute_paths_below(const fs::path& folder) {
  std::size_t count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.is_symlink() || !ElfFile(entry.path()).is_elf()) continue;
    expect_absolute_paths(entry.path());
    ++count;
  }
  return count;
}

TEST(Libraries, No_search_path_in_the_build_tree_is_empty_or_relative) {
  EXPECT_GE(expect_absolute_paths_below(TESSERA_PROGRAMS), 1U);
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TESSERA_LIBRARY).parent_path())) {
    if (entry.path().filename().string().find(".so") != std::string::npos) expect_absolute_paths(entry.path());
  }
  EXPECT_TRUE(ElfFile(TESSERA_LIBRARY).is_elf());
}

using Installed = test::InFolder;
TEST_F(Installed, No_search_path_is_empty_or_relative) {
  const std::string command = "'" TESSERA_CMAKE "' -DCMAKE_INSTALL_PREFIX='" + path("prefix").string() +
                              "' -P '" TESSERA_INSTALL_SCRIPT "' >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_GE(expect_absolute_paths_below(path("prefix")), 2U);
}

// glibc reserves 1664 bytes for all libraries that are loaded late and use static TLS.
TEST(Libraries, The_library_needs_little_static_TLS) {
  ElfFile library(TESSERA_LIBRARY);
  std::size_t bytes = 0;
  for (const Elf64_Phdr& segment : library.segments(PT_TLS)) bytes += segment.p_memsz;
  EXPECT_LE(bytes, 512U);
}

TEST(Libraries, The_library_is_never_unloaded) {
  const auto flags = ElfFile(TESSERA_LIBRARY).entry(DT_FLAGS_1);
  ASSERT_TRUE(flags);
  EXPECT_NE(*flags & DF_1_NODELETE, 0U);
}

// As a library that a program loads as a plugin finds it: another one has used most of the static TLS.
TEST(Libraries, The_library_can_be_loaded_behind_a_greedy_one) {
  ASSERT_NE(dlopen(TESSERA_GREEDY_LIBRARY, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  void* const library = dlopen(TESSERA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(dlclose(library), 0);
  EXPECT_NE(dlopen(TESSERA_LIBRARY, RTLD_NOW | RTLD_NOLOAD), nullptr) << "it was unloaded";
}

}  // namespace
}  // namespace tessera
