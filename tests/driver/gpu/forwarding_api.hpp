#pragma once

#include "driver/gpu/api.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace tessera::driver::gpu::test {

// A GPU API that passes everything on; tests derive from it to change some of it.
class ForwardingApi : public Api {
 public:
  explicit ForwardingApi(std::unique_ptr<Api> below) : below_(std::move(below)) {}

  const DeviceInfo& info() const override { return below_->info(); }
  const compile::gpu::Target& target() const override { return below_->target(); }
  std::size_t most_buffer_bytes() const override { return below_->most_buffer_bytes(); }
  std::uint32_t most_groups() const override { return below_->most_groups(); }
  std::int64_t most_work() const override { return below_->most_work(); }
  std::unique_ptr<Memory> allocate(std::size_t bytes) override { return below_->allocate(bytes); }
  void upload(Memory& to, std::size_t offset, std::span<const std::byte> from) override {
    below_->upload(to, offset, from);
  }
  void download(std::span<std::byte> to, Memory& from, std::size_t offset) override {
    below_->download(to, from, offset);
  }
  void fill_zero(Memory& to, std::size_t offset, std::size_t bytes) override { below_->fill_zero(to, offset, bytes); }
  std::unique_ptr<Module> compile(const compile::gpu::Kernel& kernel, const std::string& name) override {
    return below_->compile(kernel, name);
  }
  std::uint64_t submit(std::span<const Dispatch> calls) override { return below_->submit(calls); }
  std::unique_ptr<Recording> record(std::span<const Dispatch> calls) override { return below_->record(calls); }
  std::uint64_t submit(Recording& recording) override { return below_->submit(recording); }
  Progress wait(std::uint64_t number, Clock::time_point until) override { return below_->wait(number, until); }
  void lose(std::string why) override { below_->lose(std::move(why)); }

 private:
  const std::unique_ptr<Api> below_;
};

// Counts APIs until they are destroyed: a device lives until its threads have noticed that it is not used any more.
class OpenApis {
 public:
  std::unique_ptr<Api> count(std::unique_ptr<Api> api) { return std::make_unique<CountedApi>(std::move(api), open_); }
  void wait_until_none() const {
    while (open_ != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  class Count {
   public:
    explicit Count(std::atomic<int>& open) : open_(open) { ++open_; }
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    ~Count() { --open_; }

   private:
    std::atomic<int>& open_;
  };
  // The count is the first base, and so destroyed last.
  class CountedApi final : private Count, public ForwardingApi {
   public:
    CountedApi(std::unique_ptr<Api> api, std::atomic<int>& open) : Count(open), ForwardingApi(std::move(api)) {}
  };

  std::atomic<int> open_{0};
};

}  // namespace tessera::driver::gpu::test
