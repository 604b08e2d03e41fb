// Processes that end while the device is working, in every possible way: none may crash or hang.
//
//   exit_test DEVICE [RUNS]    ends RUNS processes in each way (default 10)
//   exit_test DEVICE --way WAY runs one such process
#include <tessera/tessera.hpp>

#include "support/again.hpp"
#include "support/depth.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;

void submit_many(const Device& device, const Buffer& a, const Buffer& b) {
  for (int i = 0; i < 50; ++i) {
    device.submit("exp", {a}, b);
    device.submit("tanh", {b}, a);
  }
}

// Each ends the process or returns from main.
const std::map<std::string, std::function<void(const Device&)>>& ways() {
  static const std::map<std::string, std::function<void(const Device&)>> all = {
      {"return",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 18}), b = device.zeros({1 << 18});
         submit_many(device, a, b);
       }},
      {"exit",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 18}), b = device.zeros({1 << 18});
         submit_many(device, a, b);
         std::exit(0);
       }},
      {"exit_at_first_command",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 10});
         const Command command = device.submit("exp", {a}, a);
         command.wait_for(static_cast<int>(getpid()) % 16 * 1ms);  // at some random point
         std::exit(0);
       }},
      // A kernel that no cache has, so that it is compiled now.
      {"exit_while_compiling",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 10});
         define_kernel("its_own", {"x"}, "exp(x) * " + std::to_string(getpid()));
         const Command command = device.submit("its_own", {a}, a);
         command.wait_for(static_cast<int>(getpid()) % 16 * 10ms);
         std::exit(0);
       }},
      {"exit_in_thread",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 18}), b = device.zeros({1 << 18});
         std::thread([&] {
           submit_many(device, a, b);
           std::exit(0);
         }).join();
       }},
      {"exit_in_callback",
       [](const Device& device) {
         const Buffer a = device.zeros({1 << 18}), b = device.zeros({1 << 18});
         const Command command = device.submit("exp", {a}, b);
         submit_many(device, a, b);
         command.on_complete([](const Command&) { std::exit(0); });
         std::this_thread::sleep_for(1min);
       }},
      {"static_objects",
       [](const Device& device) {
         static const Device kept = device;
         static const Buffer a = device.zeros({1 << 18}), b = device.zeros({1 << 18});
         static Pipeline pipeline(device);
         pipeline.add("exp", {a}, b);
         pipeline.submit();
         submit_many(device, a, b);
       }},
      {"static_object_that_computes",
       [](const Device& device) {
         struct Last {
           ~Last() {
             try {
               buffer.device().run("fill", {}, buffer, {{"value", 3}});
             } catch (const Error& error) {
               if (error.code() != Errc::device_failure) std::abort();  // the device may be gone
             }
           }
           Buffer buffer;
         };
         static const Last last{device.zeros({1 << 18})};
         submit_many(device, last.buffer, device.zeros({1 << 18}));
       }},
  };
  return all;
}

// What went wrong with a process; empty if nothing did.
std::optional<std::string> end_process(const std::string& device, const std::string& way) {
  std::vector<std::string> words = test::this_program();
  words.insert(words.end(), {device, "--way", way});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  if (posix_spawnp(&process, words[0].c_str(), nullptr, nullptr, arguments.data(), environ) != 0) {
    return "cannot be started";
  }
  const auto until = std::chrono::steady_clock::now() + 60s;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      return "hangs";
    }
    std::this_thread::sleep_for(2ms);
  }
  if (WIFSIGNALED(status)) return "ends with signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "ends with code " + std::to_string(WEXITSTATUS(status));
  return std::nullopt;
}

int end_processes(const std::string& device, int runs) {
  int failed = 0;
  for (const auto& [way, end] : ways()) {
    for (int run = 0; run < runs; ++run) {
      const std::optional<std::string> wrong = end_process(device, way);
      if (!wrong) continue;
      std::printf("FAILED %s, run %d: the process %s\n", way.c_str(), run, wrong->c_str());
      ++failed;
    }
    std::printf("%s: %d runs\n", way.c_str(), runs);
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[1] == "--way") {
    const tessera::Device device = tessera::Device::open(arguments[0]);
    tessera::ways().at(arguments[2])(device);
    return 0;
  }
  if (arguments.empty() || arguments.size() > 2) {
    std::fprintf(stderr, "Usage: exit_test DEVICE [RUNS]\n");
    return 2;
  }
  return tessera::end_processes(arguments[0],
                                arguments.size() == 2 ? std::stoi(arguments[1]) : tessera::test::rounds(15));
}
