#include "core/cgroups.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::core {

namespace fs = std::filesystem;

namespace {

// Version 2 has one hierarchy for all controllers; its name here is empty, as in /proc/self/cgroup.
constexpr std::string_view version_2;

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// The group of this process in the hierarchy of a controller: "4:memory:/a/b", "0::/a/b".
std::optional<std::string> group_of(const fs::path& root, std::string_view controller) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_meant = controller == version_2 ? controllers.empty() : has_word(controllers, controller);
    if (is_meant) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string group;  // that is mounted: "/" or, in some containers, the container's
  fs::path folder;
};

// Where the hierarchy of a controller is mounted. A line of mountinfo:
// 31 23 0:26 /group /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
std::optional<Mount> mount_of(const fs::path& root, std::string_view controller) {
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::string skipped, type, source, options;
    Mount mount;
    std::string folder;
    std::istringstream(line) >> skipped >> skipped >> skipped >> mount.group >> folder;
    std::istringstream(line.substr(dash + 3)) >> type >> source >> options;
    const bool is_meant =
        controller == version_2 ? type == "cgroup2" : type == "cgroup" && has_word(options, controller);
    if (!is_meant) continue;
    mount.folder = root / fs::path(folder).relative_path();
    return mount;
  }
  return std::nullopt;
}

// The folders of this process's group and those around it that can be seen, innermost first.
std::vector<fs::path> folders_of(const fs::path& root, std::string_view controller) {
  const auto group = group_of(root, controller);
  const auto mount = mount_of(root, controller);
  if (!group || !mount) return {};
  const fs::path inside = fs::path(*group).lexically_relative(mount->group);
  // A group outside of what is mounted: the container has files of its own group only.
  const bool is_inside = !inside.empty() && *inside.begin() != "..";
  std::vector<fs::path> folders;
  if (is_inside) {
    for (fs::path at = inside; !at.empty() && at != "."; at = at.parent_path()) folders.push_back(mount->folder / at);
  }
  folders.push_back(mount->folder);
  return folders;
}

// The number in a file; nothing for "max", negative numbers and files that are absent.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::int64_t number = 0;
  if (!(stream >> number) || number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

template <class T>
void tighten(std::optional<T>& limit, std::optional<T> other) {
  if (other) limit = limit ? std::min(*limit, *other) : *other;
}

// cpu.max is "150000 100000" or "max 100000": microseconds in each period.
std::optional<double> cores_of_version_2(const fs::path& folder) {
  std::ifstream stream(folder / "cpu.max");
  double quota = 0, period = 0;
  if (!(stream >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> cores_of_version_1(const fs::path& folder) {
  const auto quota = number_in(folder / "cpu.cfs_quota_us");
  const auto period = number_in(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

GroupLimits read_group_limits(const fs::path& root) {
  GroupLimits limits;
  for (const fs::path& folder : folders_of(root, version_2)) {
    tighten(limits.memory, number_in(folder / "memory.max"));
    tighten(limits.memory, number_in(folder / "memory.high"));  // beyond it the system slows the process down
    tighten(limits.cores, cores_of_version_2(folder));
  }
  for (const fs::path& folder : folders_of(root, "memory")) {
    tighten(limits.memory, number_in(folder / "memory.limit_in_bytes"));
  }
  for (const fs::path& folder : folders_of(root, "cpu")) tighten(limits.cores, cores_of_version_1(folder));
  return limits;
}

}  // namespace tessera::core
