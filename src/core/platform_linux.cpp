#include "core/cgroups.hpp"
#include "core/platform.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string_view>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <vector>

namespace tessera::core {

namespace {

// The number of cores in this process's affinity mask, which a cpuset narrows too.
unsigned cores_in_mask() {
  // The system refuses a mask that is too short for its cores.
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {
    std::vector<cpu_set_t> mask(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return static_cast<unsigned>(CPU_COUNT_S(bytes, mask.data()));
    if (errno != EINVAL) break;
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<unsigned>(online) : 1;
}

int protection_of(PageAccess access) {
  switch (access) {
    case PageAccess::none:
      return PROT_NONE;
    case PageAccess::read:
      return PROT_READ;
    case PageAccess::read_write:
      return PROT_READ | PROT_WRITE;
    case PageAccess::read_execute:
      return PROT_READ | PROT_EXEC;
  }
  return PROT_NONE;
}

// dlopen() tells the reason only in words: those of the C library, and the C library's words for errno.
bool is_shortage(std::string_view why) {
  if (why.find("cannot open shared object file") != std::string_view::npos) return true;
  if (why.find("annot allocate memory") != std::string_view::npos) return true;  // also of static TLS
  return std::ranges::any_of(std::array{EMFILE, ENFILE, ENOMEM, EAGAIN},
                             [&](int error) { return why.find(std::strerror(error)) != std::string_view::npos; });
}

}  // namespace

std::size_t usable_memory(const std::filesystem::path& root) {
  struct sysinfo system{};
  sysinfo(&system);
  const std::size_t machine = static_cast<std::size_t>(system.totalram) * system.mem_unit;
  const auto limit = read_group_limits(root).memory;
  return limit ? static_cast<std::size_t>(std::min<std::uint64_t>(machine, *limit)) : machine;
}

unsigned usable_cores(const std::filesystem::path& root) {
  const unsigned cores = std::max(1U, cores_in_mask());
  const auto limit = read_group_limits(root).cores;
  // Rounded up: with 1.5 cores' worth of time, two workers finish sooner than one.
  return limit && *limit < cores ? std::max(1U, static_cast<unsigned>(std::ceil(*limit))) : cores;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// From the kernel rather than the C library, which adds up the caches of all clusters of an AMD processor although a
// core fills one (256 MiB instead of 32).
std::int64_t last_cache_bytes() {
  std::int64_t last = 0;
  for (int index = 0;; ++index) {
    std::ifstream file(text("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
    std::int64_t kilobytes = 0;  // "32768K"
    if (!(file >> kilobytes)) break;
    last = std::max(last, kilobytes << 10);
  }
  return last != 0 ? last : std::max<std::int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
}

Capabilities processor_capabilities() noexcept { return {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)}; }

int current_core() noexcept { return sched_getcpu(); }

bool is_main_thread() noexcept { return gettid() == getpid(); }

bool barrier_on_all_threads() noexcept {
  static const bool is_registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return is_registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::byte* map_pages(std::size_t bytes, PageAccess access) noexcept {
  void* address = mmap(nullptr, bytes, protection_of(access), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

void unmap_pages(std::byte* address, std::size_t bytes) noexcept { munmap(address, bytes); }

bool set_page_access(std::byte* address, std::size_t bytes, PageAccess access) noexcept {
  return mprotect(address, bytes, protection_of(access)) == 0;
}

StackRange this_stack() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t size = 0;
  const bool is_known = pthread_attr_getstack(&attributes, &low, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!is_known) return {};
  return {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + size};
}

void discard_pages(std::byte* address, std::size_t bytes) noexcept { madvise(address, bytes, MADV_DONTNEED); }

void prefer_huge_pages(std::byte* address, std::size_t bytes) noexcept { madvise(address, bytes, MADV_HUGEPAGE); }

std::string library_file(const std::string& name) { return "lib" + name + ".so"; }

OpenedLibrary open_library(const std::string& file) {
  OpenedLibrary library;
  library.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle) return library;
  const char* why = dlerror();
  library.why_not = why ? why : "unknown reason";
  library.may_open_later = is_shortage(library.why_not);
  return library;
}

void* find_symbol(void* library, const char* name) noexcept { return dlsym(library, name); }

}  // namespace tessera::core
