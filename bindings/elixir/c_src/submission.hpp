// Submitting kernels and pipelines.
#pragma once

#include "buffers.hpp"
#include "commands.hpp"
#include "streams.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tessera_nif {

// Forgets which calls have been checked: see submit_kernel.
void forget_checked_calls();

// A list of buffers; `name` is the argument's in messages.
std::vector<Buffer*> expect_buffers(ErlNifEnv* env, Term list, const std::string& name);
Buffer& expect_output(ErlNifEnv* env, Term term);
// A place in a stream, which is given back unless a command takes it over.
class Place {
 public:
  explicit Place(const Stream* stream)
      : places_(stream ? stream->places : nullptr), is_taken_(!places_ || places_->take()) {}
  ~Place() {
    if (places_ && is_taken_) places_->give_back();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  explicit operator bool() const noexcept { return is_taken_; }
  // The command's end gives it back.
  std::function<void()> hand_over();

 private:
  std::shared_ptr<Places> places_;
  bool is_taken_;
};

// Registers a command; throws Refused if a full stream has rejected it.
std::uint64_t expect_accepted(tessera_command* command, CommandOptions options);
CommandOptions options_of(ErlNifEnv* env, std::string label, Term notify);

// Gives {:ok, id}; :slow if it has to be called in the background; or :full if the stream is.
Term submit_kernel(ErlNifEnv* env, const Term* argv);  // kernel, inputs, output, params, stream, notify

}  // namespace tessera_nif
