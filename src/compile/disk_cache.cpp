#include "compile/disk_cache.hpp"

#include "core/environment.hpp"
#include "core/hash.hpp"
#include "core/sha256.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tessera::compile {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view suffix = ".tessera";
constexpr std::size_t name_digits = 64;
constexpr std::size_t old_name_digits = 32;  // of version 1

// Of a file, before the key and the content.
struct Header {
  std::array<char, 8> magic = {'t', 'e', 's', 's',
                               'e', 'r', 'a', '2'};  // the last character is the version of the format
  std::uint64_t key_size = 0;
  std::uint64_t size = 0;
  core::Hash128 checksum;  // of the content

  friend bool operator==(const Header&, const Header&) = default;
};

Header header_for(std::string_view key, std::span<const std::byte> content) {
  return {.key_size = key.size(), .size = content.size(), .checksum = core::hash128(content)};
}

core::Sha256 digest_of(std::string_view key) { return core::sha256(std::as_bytes(std::span(key))); }

fs::path file_in(const fs::path& folder, const core::Sha256& digest) {
  return folder / core::to_hex(digest).append(suffix);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  operator int() const noexcept { return number_; }

 private:
  int number_;
};

bool read_all(int file, void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes != 0) {
    const ssize_t got = read(file, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int file, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes != 0) {
    const ssize_t put = ::write(file, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

// The content is executed, so nobody else may have been able to write it.
bool is_trusted(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// A file's modification time is when it was last used, to the hour.
void mark_used(int file, const struct stat& info) {
  if (std::time(nullptr) - info.st_mtime > 3600) futimens(file, nullptr);
}

// Files of the cache, and those left behind by a process that died while writing one. Nothing else is ever removed.
bool is_ours(std::string_view name) {
  const std::size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  return (digits == name_digits || digits == old_name_digits) && name.substr(digits).starts_with(suffix);
}

}  // namespace

DiskCache::DiskCache(fs::path folder, std::uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}

fs::path DiskCache::default_folder() {
  if (const char* own = core::environment_variable("TESSERA_CACHE_DIR")) {
    if (std::string_view(own).empty() || std::string_view(own) == "off") return {};
    std::error_code unknown;  // absolute, so that it stays the same if the process changes its working directory
    return fs::absolute(own, unknown);
  }
  const auto under = [](const char* name, const char* rest) {
    const char* folder = core::environment_variable(name);
    return folder && *folder == '/' ? fs::path(folder) / rest : fs::path();
  };
  fs::path folder = under("XDG_CACHE_HOME", "tessera");
  return folder.empty() ? under("HOME", ".cache/tessera") : folder;
}

std::optional<std::vector<std::byte>> DiskCache::find(std::string_view key) const noexcept try {
  if (folder_.empty()) return {};
  const fs::path file = file_in(folder_, digest_of(key));
  const Descriptor input(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  Header header;
  if (input < 0 || fstat(input, &info) != 0 || !is_trusted(info)) return {};
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t before_content = sizeof header + key.size();
  if (size > limit_ || size < before_content || !read_all(input, &header, sizeof header)) return {};
  if (header.key_size != key.size() || header.size != size - before_content) return {};
  std::string stored_key(key.size(), '\0');
  if (!read_all(input, stored_key.data(), stored_key.size()) || stored_key != key) return {};
  std::vector<std::byte> content(header.size);
  if (!read_all(input, content.data(), content.size()) || header != header_for(key, content)) return {};
  mark_used(input, info);
  return content;
} catch (...) {
  return {};
}

void DiskCache::store(std::string_view key, std::span<const std::byte> content) noexcept try {
  if (folder_.empty() || key.size() + content.size() > limit_ / 4) return;
  const core::Sha256 digest = digest_of(key);
  write(file_in(folder_, digest), key, content);
  if (digest[0] % 64 == 0) remove_oldest();  // listing all files is slow; one store in 64 suffices
} catch (...) {
}

void DiskCache::write(const fs::path& target, std::string_view key, std::span<const std::byte> content) const {
  static std::atomic<unsigned> count{0};
  if (!fs::exists(folder_)) {
    fs::create_directories(folder_.parent_path());
    mkdir(folder_.c_str(), S_IRWXU);
  }
  const std::string temporary = target.string() + '-' + std::to_string(getpid()) + '-' + std::to_string(count++);
  const Header header = header_for(key, content);
  bool is_written = false;
  {
    const Descriptor output(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (output < 0) return;
    is_written = write_all(output, &header, sizeof header) && write_all(output, key.data(), key.size()) &&
                 write_all(output, content.data(), content.size());
  }
  if (!is_written || rename(temporary.c_str(), target.c_str()) != 0) unlink(temporary.c_str());
}

void DiskCache::trim() noexcept try {
  if (!folder_.empty()) remove_oldest();
} catch (...) {
}

void DiskCache::remove_oldest() const {
  struct File {
    fs::file_time_type time;
    std::uint64_t size;
    fs::path path;
  };
  std::vector<File> files;
  std::uint64_t total = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    std::error_code gone;  // another process may have removed the file
    if (!is_ours(entry.path().filename().native()) || !entry.is_regular_file(gone)) continue;
    const std::uint64_t size = entry.file_size(gone);
    if (gone) continue;
    const fs::file_time_type time = entry.last_write_time(gone);
    if (gone) continue;
    files.push_back({time, size, entry.path()});
    total += size;
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (total <= limit_ / 4 * 3) break;
    unlink(file.path.c_str());
    total -= file.size;
  }
}

}  // namespace tessera::compile
