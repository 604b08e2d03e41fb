#include "cases/cases.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace bench {

namespace {

namespace fs = std::filesystem;

// A temporary folder, deleted with the object.
class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "tessera_bench_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Next to this program.
fs::path program() { return fs::read_symlink("/proc/self/exe").parent_path() / "tessera_first_call"; }

std::vector<std::string> environment(const fs::path& cache) {
  std::vector<std::string> variables = {"TESSERA_CACHE_DIR=" + cache.string()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("TESSERA_CACHE_DIR=")) variables.emplace_back(*variable);
  }
  return variables;
}

struct Times {
  double first = 0;
  double second = 0;
};

Times in_a_new_process(const fs::path& cache) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("cannot create a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);

  std::string path = program();
  std::vector<std::string> variables = environment(cache);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  const std::array<char*, 2> arguments = {path.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawn(&child, path.c_str(), &actions, nullptr, arguments.data(), pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(fdopen(ends[0], "r"), std::fclose);
  if (failure != 0) throw std::runtime_error("cannot start " + path);

  Times times;
  const int numbers = std::fscanf(output.get(), "%lf %lf", &times.first, &times.second);
  int status = 0;
  waitpid(child, &status, 0);
  if (numbers != 2 || status != 0) throw std::runtime_error(path + " failed");
  return times;
}

}  // namespace

Sides first_call(FirstCall which) {
  if (!fs::exists(program())) return Sides(nullptr);
  if (which == FirstCall::from_disk) {
    auto filled = std::make_shared<Folder>();
    in_a_new_process(filled->path());
    return Sides([=] { return in_a_new_process(filled->path()).first; });
  }
  return Sides([=] {
    const Folder empty;
    const Times times = in_a_new_process(empty.path());
    return which == FirstCall::first ? times.first : times.second;
  });
}

}  // namespace bench
