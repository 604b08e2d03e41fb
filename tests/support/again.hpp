#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tessera::test {

#ifdef TESSERA_TEST_EMULATOR
inline constexpr bool is_emulated = true;
#else
inline constexpr bool is_emulated = false;
#endif

// The words that start this program again in a process of its own: its path, after the emulator's words where it needs
// one.
inline std::vector<std::string> this_program() {
  std::vector<std::string> words;
#ifdef TESSERA_TEST_EMULATOR
  words = {TESSERA_TEST_EMULATOR};
#endif
  words.push_back(std::filesystem::read_symlink("/proc/self/exe"));
  return words;
}

// The same for a shell.
inline std::string this_program_in_quotes() {
  std::string all;
  for (const std::string& word : this_program()) all += (all.empty() ? "'" : " '") + word + '\'';
  return all;
}

}  // namespace tessera::test
