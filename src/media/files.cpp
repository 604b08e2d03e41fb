#include "media/files.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tessera::media {

namespace fs = std::filesystem;
using core::text;

namespace {

[[noreturn]] void fail(const std::string& reason) { throw Error(Errc::io_error, reason); }
[[noreturn]] void fail_with_errno() { fail(std::generic_category().message(errno)); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {
    if (number_ < 0) fail_with_errno();
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  operator int() const noexcept { return number_; }

  // Some file systems report a full disk only here.
  void close() {
    if (::close(std::exchange(number_, -1)) != 0) fail_with_errno();
  }

 private:
  int number_;
};

void expect_regular(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) fail("it is a directory");
  if (!S_ISREG(info.st_mode)) fail("it is not a regular file");
}

void read_all(int file, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(file, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno();
    if (got == 0) fail("it was truncated while it was being read");
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void write_all(int file, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t put = ::write(file, from.data(), from.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_with_errno();
    from = from.subspan(static_cast<std::size_t>(put));
  }
}

// A file that is deleted unless it is renamed.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& folder, mode_t mode)
      : path_(folder / unused_name()),
        output_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  Descriptor& output() noexcept { return output_; }
  void rename(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) fail_with_errno();
    path_.clear();
  }

 private:
  static std::string unused_name() {
    static std::atomic<unsigned> count{0};
    return text(".tessera-", ::getpid(), '-', count++, ".tmp");
  }

  fs::path path_;
  Descriptor output_;
};

}  // namespace

std::vector<std::byte> read_file(const fs::path& path, std::uintmax_t limit,
                                 const std::function<void(std::span<const std::byte>)>& check) {
  const Descriptor input(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would block
  struct stat info{};
  if (::fstat(input, &info) != 0) fail_with_errno();
  expect_regular(info);
  const auto size = static_cast<std::uintmax_t>(info.st_size);
  std::vector<std::byte> content(std::min<std::uintmax_t>(size, 16));
  const std::size_t start = content.size();
  read_all(input, content);
  check(content);
  if (size > limit) fail(text("it has ", size, " bytes; at most ", limit, " are allowed"));
  content.resize(size);
  read_all(input, std::span(content).subspan(start));
  return content;
}

void write_file(const fs::path& path, std::span<const std::byte> content) {
  fs::path target = path;
  std::optional<mode_t> mode;  // of an existing file
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    expect_regular(info);
    if (::access(path.c_str(), W_OK) != 0) fail_with_errno();
    mode = info.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    target = fs::canonical(path);  // a symbolic link stays one
  } else if (errno != ENOENT) {
    fail_with_errno();
  }
  TemporaryFile file(target.has_parent_path() ? target.parent_path() : ".",
                     S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH);
  write_all(file.output(), content);
  if (mode && ::fchmod(file.output(), *mode) != 0) fail_with_errno();
  file.output().close();
  file.rename(target);
}

}  // namespace tessera::media
