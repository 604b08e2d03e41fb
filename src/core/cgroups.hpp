#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tessera::core {

// What Linux's control groups allow this process: the tightest limit of its group and the groups around it. Versions 1
// and 2 are read, also mixed, in containers with and without a namespace for cgroups.
struct GroupLimits {
  std::optional<std::uint64_t> memory;  // bytes
  std::optional<double> cores;          // of processor time: 1.5 is 150 ms in every 100
};
// `root` is the folder with proc/ and sys/. Whatever cannot be read is no limit.
GroupLimits read_group_limits(const std::filesystem::path& root);

}  // namespace tessera::core
