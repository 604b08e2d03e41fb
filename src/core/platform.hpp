#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

// What the library asks of the operating system beyond the C++ library and POSIX. platform_linux.cpp answers for Linux;
// another system is another such file, and nothing else has to change. scripts/check-layers keeps the system's own
// functions out of all other files.
namespace tessera::core {

// --- This process's share of the machine

// Bytes of memory, and cores, that this process may use: those of the machine, or fewer if its control group (Linux
// cgroups, version 1 or 2) or its affinity mask allows fewer. `root` is where the system's files are found; tests pass
// a folder of their own.
std::size_t usable_memory(const std::filesystem::path& root = "/");
unsigned usable_cores(const std::filesystem::path& root = "/");

// --- The processor

std::string processor_name();
// Bytes of the last cache that one core can fill; 0 if unknown.
std::int64_t last_cache_bytes();
// The processor's features, as words that are equal on equal processors. Used where the instruction set has no
// instruction that tells them.
struct Capabilities {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};
Capabilities processor_capabilities() noexcept;
// The core that the calling thread runs on; -1 if unknown.
int current_core() noexcept;

// --- Threads

bool is_main_thread() noexcept;
// The addresses of the calling thread's stack; equal if unknown.
struct StackRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
};
StackRange this_stack() noexcept;
// A full memory barrier on every running thread of the process, so that those threads need none of their own. False if
// the system has no such thing; the answer never changes.
bool barrier_on_all_threads() noexcept;

// --- Memory in pages

enum class PageAccess : std::uint8_t { none, read, read_write, read_execute };

std::size_t page_size() noexcept;
// Fresh pages of zeros; null if there are none.
std::byte* map_pages(std::size_t bytes, PageAccess access) noexcept;
void unmap_pages(std::byte* address, std::size_t bytes) noexcept;
// False, with errno set, if the system refuses.
bool set_page_access(std::byte* address, std::size_t bytes, PageAccess access) noexcept;
// Gives the memory of the pages back. The addresses stay mapped; their contents are zeros afterwards.
void discard_pages(std::byte* address, std::size_t bytes) noexcept;
void prefer_huge_pages(std::byte* address, std::size_t bytes) noexcept;

// --- Shared libraries

// The file of a shared library: "libx.so" for "x".
std::string library_file(const std::string& name);

struct OpenedLibrary {
  void* handle = nullptr;       // never closed
  std::string why_not;          // the system's words, if the handle is null
  bool may_open_later = false;  // not found, or the system was short of something; otherwise the file is unusable
};
OpenedLibrary open_library(const std::string& file);
void* find_symbol(void* library, const char* name) noexcept;  // null if it has none

}  // namespace tessera::core
