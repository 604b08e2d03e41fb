#include "background.hpp"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace tessera_nif {

namespace {

struct Job {
  ErlNifEnv* env = enif_alloc_env();
  ErlNifPid to{};
  Term ref = 0;
  Body body = nullptr;
  std::vector<Term> arguments;

  Job() = default;
  ~Job() { enif_free_env(env); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run() {
    const Term result = call_in_background(env, body, arguments.data());
    enif_send(nullptr, &to, env, enif_make_tuple2(env, ref, result));
  }
};

class Threads {
 public:
  void add(std::unique_ptr<Job> job) {
    const std::lock_guard lock(mutex_);
    if (idle_ <= jobs_.size() && count_ < most) {
      std::thread([this] { work(); }).detach();
      ++count_;
    }
    jobs_.push_back(std::move(job));
    wake_.notify_one();
  }

 private:
  // So that a kernel that takes long to compile does not hold up the others.
  static constexpr std::size_t most = 4;

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [&] { return !jobs_.empty(); });
      --idle_;
      const std::unique_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job->run();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> jobs_;
  std::size_t idle_ = 0, count_ = 0;
};

// Never destroyed: its threads run until the process ends.
Threads& threads() {
  static auto* const all = new Threads;
  return *all;
}

}  // namespace

void call_later(ErlNifEnv* env, const ErlNifPid& to, Term ref, Body body, Term arguments) {
  auto job = std::make_unique<Job>();
  job->to = to;
  job->ref = enif_make_copy(job->env, ref);
  job->body = body;
  Term head = 0, tail = arguments;
  while (enif_get_list_cell(env, tail, &head, &tail)) job->arguments.push_back(enif_make_copy(job->env, head));
  threads().add(std::move(job));
}

}  // namespace tessera_nif
